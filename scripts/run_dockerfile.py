"""Runs one target of the Dockerfile without a container engine, to prove that every line works.

Each stage becomes a folder: a copy of its base, in which the stage's COPY and RUN lines are
carried out with chroot. The base image is replaced by a folder with Debian, made by
    debootstrap --include=python3,python3-venv,python3-pip,ca-certificates bookworm FOLDER
Then the image's own command is tried as its user, on a read-only root, without a network.
Needs root and Linux. Packages come from where this machine's pip takes them: `--bind` shows
its configuration to the stages, and PIP_… variables of the environment are the build arguments.

    python scripts/run_dockerfile.py gateway --base FOLDER --work FOLDER --serve \\
        --mount deploy/turnout.cpu.toml=/etc/turnout/turnout.toml
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MINE = "TURNOUT_PRIVATE_MOUNTS"  # set in the process that has its own table of mounts


@dataclass
class Stage:
    """Is one FROM with the lines below it, and what they have set so far."""

    name: str
    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    root: Path = Path()
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    kept: dict[str, str] = field(default_factory=dict)  # ENTRYPOINT, CMD, HEALTHCHECK, VOLUME


def parse(text: str) -> dict[str, Stage]:
    """Reads a Dockerfile into its stages, by name."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    stages: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            base, _, name = rest.split()
            stages[name] = Stage(name, base)
        else:
            stage = next(reversed(stages.values()))
            stage.lines.append((word, rest))
    return stages


class Builder:
    """Carries out stages below one folder."""

    def __init__(self, stages: dict[str, Stage], base: Path, work: Path, binds: list[Path]) -> None:
        self._stages = stages
        self._base = base
        self._work = work
        self._binds = binds

    def build(self, name: str) -> Stage:
        """Builds a stage after all that it needs; each once."""
        stage = self._stages[name]
        if stage.root != Path():
            return stage
        text = " ".join(rest for _, rest in stage.lines)
        for needed in (stage.base, *re.findall(r"(?:--|,)from=([\w-]+)", text)):
            if needed in self._stages:
                self.build(needed)
        say(f"=== stage {name} (from {stage.base})")
        stage.root = self._work / name
        parent = self._stages.get(stage.base)
        subprocess.run(["cp", "-a", parent.root if parent else self._base, stage.root], check=True)
        if parent:
            stage.env, stage.workdir, stage.user = dict(parent.env), parent.workdir, parent.user
        else:  # what the base image has and Debian has not
            (stage.root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for word, rest in stage.lines:
            say(f"--- {word} {rest}")
            self._carry_out(stage, word, rest)
        return stage

    def _carry_out(self, stage: Stage, word: str, rest: str) -> None:
        if word == "RUN":
            self._run(stage, rest)
        elif word == "COPY":
            self._copy(stage, rest)
        elif word == "ENV":
            for pair in shlex.split(rest):
                key, value = pair.split("=", 1)
                stage.env[key] = value.replace("$PATH", stage.env["PATH"])
        elif word == "ARG":
            stage.arguments |= {rest: os.environ[rest]} if rest in os.environ else {}
        elif word == "WORKDIR":
            stage.workdir = rest
            inside(stage, rest).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            stage.user = rest
        elif word in {"ENTRYPOINT", "CMD", "HEALTHCHECK", "VOLUME"}:
            stage.kept[word] = rest
        elif word != "EXPOSE":
            raise SystemExit(f"no meaning is known for {word}")

    def _run(self, stage: Stage, rest: str) -> None:
        mounts = [(path, str(path)) for path in (Path("/proc"), *self._binds)]
        while match := re.match(r"--mount=(\S+)\s+", rest):
            options = dict(part.split("=", 1) for part in match[1].split(","))
            if options["type"] == "bind":
                source = inside(self._stages[options["from"]], options["source"])
            else:
                source = self._work / "cache"
                source.mkdir(exist_ok=True)
            mounts.append((source, options["target"]))
            rest = rest[match.end() :]
        done = [mount(stage, source, target) for source, target in mounts]
        try:
            command = ["sh", "-c", f"cd {stage.workdir} && {rest}"]
            subprocess.run(entering(stage, command, stage.arguments), check=True)
        finally:
            for target in reversed(done):
                subprocess.run(["umount", target], check=True)

    def _copy(self, stage: Stage, rest: str) -> None:
        words = rest.split()
        origin = Path.cwd()
        if words[0].startswith("--from="):
            origin = self._stages[words.pop(0).removeprefix("--from=")].root
        *names, last = words
        target = inside(stage, os.path.join(stage.workdir, last))
        for name in names:
            source = origin / name.lstrip("/")
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                folder = target if last.endswith("/") else target.parent
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, folder if last.endswith("/") else target)


def inside(stage: Stage, path: str) -> Path:
    """Finds a path of the stage on this machine."""
    return stage.root / path.lstrip("/")


def mount(stage: Stage, source: Path, target: str) -> Path:
    """Shows a file or folder of this machine inside the stage."""
    place = inside(stage, target)
    if source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    subprocess.run(["mount", "--bind", source.resolve(), place.resolve()], check=True)
    return place


def entering(stage: Stage, command: list[str], more: dict[str, str] | None = None) -> list[str]:
    """Makes the command line that runs a command inside the stage, as its user."""
    variables = [f"{key}={value}" for key, value in {**stage.env, **(more or {})}.items()]
    chroot = ["chroot", f"--userspec={stage.user}", str(stage.root)]
    return [*chroot, "/usr/bin/env", "-i", *variables, *command]


def seal(stage: Stage, mounts: list[str]) -> None:
    """Makes the root read-only, but for /tmp and the volumes, as the compose file does."""
    subprocess.run(["mount", "--bind", stage.root, stage.root], check=True)
    for pair in ("/proc=/proc", *mounts):
        source, target = pair.split("=")
        mount(stage, Path(source), target)
    for place in ("/tmp", stage.kept.get("VOLUME")):
        if place:
            owner = inside(stage, place).stat()
            options = f"mode={owner.st_mode & 0o7777:o},uid={owner.st_uid},gid={owner.st_gid}"
            target = inside(stage, place)
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", target], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", stage.root], check=True)


def serve(stage: Stage) -> None:
    """Starts ENTRYPOINT with CMD in a network of its own until HEALTHCHECK succeeds, then stops."""
    command = entering(stage, json.loads(stage.kept["ENTRYPOINT"]) + json.loads(stage.kept["CMD"]))
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    say(f"=== {shlex.join(command)}")
    process = subprocess.Popen([*alone, *command])
    near = ["nsenter", f"--net=/proc/{process.pid}/ns/net"]
    check = json.loads(stage.kept["HEALTHCHECK"].split("CMD", 1)[1])
    code = 1
    for _ in range(100):
        time.sleep(0.2)
        done = subprocess.run([*near, *entering(stage, check)], stderr=subprocess.DEVNULL)
        if (code := done.returncode) == 0 or process.poll() is not None:
            break
    say(f"HEALTHCHECK: exit code {code}")
    get = "import sys, urllib.request as r; a = r.urlopen(sys.argv[1]); print(a.status, a.read())"
    url = "http://127.0.0.1:8000/livez"
    code |= subprocess.run([*near, *entering(stage, ["python", "-c", get, url])]).returncode
    process.terminate()
    say(f"SIGTERM: exit code {process.wait(60)}")
    if code or process.returncode:
        raise SystemExit("the image's own command does not work")


def say(text: str) -> None:
    """Prints one line between the output of the commands."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Builds the target, then tries its entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target")
    parser.add_argument("--base", type=Path, required=True, help="folder with a fresh Debian")
    parser.add_argument("--work", type=Path, required=True, help="empty folder for the stages")
    parser.add_argument("--bind", type=Path, action="append", default=[], metavar="PATH")
    parser.add_argument("--mount", action="append", default=[], metavar="PATH=INSIDE")
    parser.add_argument("--serve", action="store_true", help="run CMD until HEALTHCHECK succeeds")
    parser.add_argument("--then", action="append", default=[], help="more ENTRYPOINT arguments")
    options = parser.parse_args()
    if MINE not in os.environ:  # in a table of mounts that ends with the process, whatever happens
        os.environ[MINE] = "yes"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    stages = parse(Path("Dockerfile").read_text(encoding="utf-8"))
    stage = Builder(stages, options.base.resolve(), work, options.bind).build(options.target)
    say(f"=== {options.target} as user {stage.user}, root read-only")
    seal(stage, options.mount)
    for arguments in ("--help", *options.then):
        command = json.loads(stage.kept["ENTRYPOINT"]) + shlex.split(arguments)
        say(f"--- {shlex.join(command)}")
        subprocess.run(entering(stage, command), check=True)
    if options.serve:
        serve(stage)
    say("=== done")


if __name__ == "__main__":
    main()
