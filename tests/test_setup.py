"""The set-up says in one sentence what a machine lacks, and installs what it may."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "scripts" / "setup.sh"
TOOLS = ("bash", "dirname", "env", "id", "cat", "printf", "touch", "rm")


@pytest.fixture
def machine(tmp_path):
    """Offers a bare machine: a project with the script, and a PATH that a test fills."""

    class Machine:
        project = tmp_path / "project"
        programs = tmp_path / "bin"

        def program(self, name, body):
            """Puts a shell program on the PATH."""
            path = self.programs / name
            path.write_text(f"#!/bin/bash\n{body}\n")
            path.chmod(0o755)

        def run(self, *arguments):
            """Runs the set-up."""
            script = self.project / "scripts" / "setup.sh"
            return subprocess.run(
                [self.programs / "bash", script, *arguments],
                env={"PATH": str(self.programs), "CALLS": str(tmp_path / "calls")},
                capture_output=True,
                text=True,
                timeout=60,
            )

        def calls(self):
            """Lists what the stand-ins were asked for."""
            path = tmp_path / "calls"
            return path.read_text().splitlines() if path.exists() else []

    (tmp_path / "project" / "scripts").mkdir(parents=True)
    shutil.copy(SETUP, tmp_path / "project" / "scripts")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        os.symlink(shutil.which(tool) or f"/bin/{tool}", tmp_path / "bin" / tool)
    return Machine()


def python(*, is_new=True, has_venv=True):
    """Stands in for a Python; the environment it creates has a pip that writes down its call."""
    return f"""
    case "$*" in
      *version_info*'(3, 11)'*) exit {0 if is_new else 1} ;;
      *ensurepip*) [ -e "$CALLS.venv" ] || exit {0 if has_venv else 1} ;;
      *version_info*) echo 3.11 ;;
      *venv*) {shutil.which("mkdir")} -p .venv/bin
        printf '#!/bin/bash\\necho "pip $*" >> "$CALLS"\\n' > .venv/bin/python
        {shutil.which("chmod")} +x .venv/bin/python ;;
    esac"""


@pytest.mark.parametrize("has_old_one", [False, True])
def test_a_missing_or_old_python_is_one_sentence(machine, has_old_one):
    """Without a Python of 3.11 or newer, one sentence says what to install, and the exit is 1."""
    if has_old_one:
        machine.program("python3", python(is_new=False))
    ran = machine.run()
    assert 1 == ran.returncode
    [line] = ran.stderr.splitlines()
    assert line.startswith("setup: Turnout needs Python 3.11 or newer and found none; install it")


def test_a_missing_venv_module_is_named_where_nothing_may_be_installed(machine):
    """Without apt-get or the right to use it, one sentence names the package."""
    machine.program("python3", python(has_venv=False))
    machine.program("curl", "true")
    ran = machine.run()
    assert 1 == ran.returncode
    [line] = ran.stderr.splitlines()
    assert line.startswith("setup: python3.11-venv is missing; install it")


def test_what_is_missing_is_installed_where_that_may_be(machine):
    """As root, or with a sudo that asks nothing, the missing packages are installed."""
    machine.program("python3", python(has_venv=False))
    machine.program("sudo", 'shift; "$@"')
    machine.program("apt-get", 'echo "apt-get $*" >> "$CALLS"; touch "$CALLS.venv"')
    ran = machine.run()
    assert (0, "") == (ran.returncode, ran.stderr)
    apt = [call for call in machine.calls() if call.startswith("apt-get")]
    assert ["apt-get update -qq", "apt-get install -y -qq python3.11-venv curl"] == apt
    assert "pip -m pip install" in machine.calls()[-1]
    assert "--constraint constraints.txt --editable .[worker,dev]" in machine.calls()[-1]
    assert (machine.project / ".venv" / "ready").exists()


def test_a_failing_installation_is_said(machine):
    """When apt-get fails, its own words come first and a sentence says what to do."""
    machine.program("python3", python(has_venv=False))
    machine.program("sudo", 'shift; "$@"')
    machine.program("apt-get", 'echo "E: no network" >&2; exit 100')
    ran = machine.run()
    assert 1 == ran.returncode
    first, last = ran.stderr.splitlines()
    assert first == "E: no network"
    assert "apt-get could not install python3.11-venv curl; install it and run" in last


def test_a_failing_pip_is_said(machine):
    """When pip fails, a sentence says so, and the environment does not count as ready."""
    machine.program("python3", python())
    machine.program("curl", "true")
    first = machine.run()
    assert 0 == first.returncode
    ready = machine.project / ".venv" / "ready"
    ready.unlink()
    pip = machine.project / ".venv" / "bin" / "python"
    pip.write_text('#!/bin/bash\ncase "$*" in *install*) exit 1 ;; esac\n')
    ran = machine.run()
    assert (1, False) == (ran.returncode, ready.exists())
    assert "setup: pip could not install the packages above" in ran.stderr


def test_the_tests_need_the_javascript_sdk(machine):
    """For the tests, npm is installed where it is missing, and brings the SDK."""
    machine.program("python3", python())
    machine.program("sudo", 'shift; "$@"')
    machine.program("curl", "true")
    mkdir, npm = shutil.which("mkdir"), machine.programs / "npm"
    machine.program(
        "apt-get",
        f"""echo "apt-get $*" >> "$CALLS"
        printf '#!/bin/bash\necho "npm $*" >> "$CALLS"; {mkdir} -p tests/js/node_modules' > {npm}
        {shutil.which("chmod")} +x {npm}""",
    )
    ran = machine.run("tests")
    assert (0, "") == (ran.returncode, ran.stderr)
    assert "apt-get install -y -qq npm" in machine.calls()
    assert machine.calls()[-1].startswith("npm install --prefix tests/js ")
    assert (machine.project / "tests" / "js" / "node_modules" / "ready").exists()
