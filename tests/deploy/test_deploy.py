"""The deployment files agree with the code, with each other, and with their own languages."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement

from gateway.config_file import load_config
from scripts.example_config import example
from tests.deploy.support import (
    COMMANDS,
    DEPLOY,
    ONCE,
    ROLES,
    ROOT,
    SERVICES,
    STAGES,
    options,
    parsed,
    seconds,
    service,
    settings,
)

BIN = Path(sys.prefix) / "bin"


def built(target: str) -> list[str]:
    """Names the services whose image is made from a target of the Dockerfile."""
    return [name for name, s in SERVICES.items() if s.get("build", {}).get("target") == target]


def test_dockerfile_is_clean() -> None:
    """The linter for Dockerfiles finds nothing."""
    done = subprocess.run(
        [BIN / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stdout)


def test_dockerfile_copies_only_what_the_build_may_see() -> None:
    """Each source of a COPY from the tree exists and is let through by .dockerignore."""
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for stage in STAGES.values():
        for word, rest in stage.lines:
            if word == "COPY" and "--from" not in rest:
                for source in rest.split()[:-1]:
                    assert (ROOT / source).exists(), source
                    assert f"!{source}" in allowed


def test_gateway_image_has_no_torch() -> None:
    """Nothing that the gateway stage installs leads to torch, directly or in between."""
    chain = [STAGES["gateway"], STAGES["gateway-env"], STAGES["base"], STAGES["wheel"]]
    lines = [rest for stage in chain for _, rest in stage.lines]
    assert not any(word in line for line in lines for word in ("torch", "[worker]", "worker.txt"))
    left, seen = ["turnout"], set()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += [
                each.name.lower()
                for each in map(Requirement, requirements_of(name))
                if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    assert "fastapi" in seen
    assert not {"torch", "diffusers", "transformers", "accelerate"} & seen


def requirements_of(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # a marker of another platform
        return []


def test_images_run_as_a_numbered_user() -> None:
    """Both images end as the same user, by number, so that `runAsNonRoot` can check it."""
    for name in COMMANDS:
        assert ["10001:10001"] == [rest for word, rest in STAGES[name].lines if word == "USER"]


def test_compose_file_is_valid() -> None:
    """The compose file follows the published schema."""
    command = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [BIN / command[0], *command[1:], DEPLOY / "compose.yaml"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()


def test_images_are_pinned() -> None:
    """Foreign images carry a version, our own carry the project's."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = ours["project"]["version"]
    for name, each in SERVICES.items():
        tag = each["image"].partition(":")[2]
        expected = rf"{version}(-cpu)?" if "build" in each else r"v\d+\.\d+\.\d+"
        assert re.fullmatch(expected, tag), name
    for stage in STAGES.values():
        assert stage.base in STAGES or re.search(r":\d+\.\d+-\w+-\w+$", stage.base)


@pytest.mark.parametrize("name", built("worker"))
def test_worker_commands_are_understood(name: str) -> None:
    """The workers' command line takes each command of the compose file."""
    each = SERVICES[name]
    words = shlex.split(each["command"])
    if "entrypoint" in each:
        assert (["hf"], "download") == (each["entrypoint"], words[0])
        return
    found = parsed("worker", words)
    folder = found.get("model") or found["directory"]
    assert "glm-image" in folder.name
    assert f"{folder.parent}" in {volume.split(":")[1] for volume in each["volumes"]}


def test_image_command_of_the_gateway_is_understood() -> None:
    """The gateway's command line takes the image's CMD, and compose mounts the file it names."""
    words = shlex.split(dict(STAGES["gateway"].lines)["CMD"].translate(str.maketrans("[],", "   ")))
    target = parsed("gateway", words)["config"]
    for profile in ROLES:
        mounts = service(profile, "gateway")["volumes"]
        assert [f"./turnout.{profile}.toml:{target}:ro"] == mounts


@pytest.mark.parametrize("profile", ROLES)
def test_profile_has_its_roles_and_no_more(profile: str) -> None:
    """A profile runs its three model servers, its gateway, and what brings the model."""
    found = {name for name, each in SERVICES.items() if profile in each["profiles"]}
    assert found - ONCE == {*ROLES[profile].values(), f"gateway-{profile}"}
    assert len(found & ONCE) == 1


@pytest.mark.parametrize("profile", ROLES)
def test_gateway_looks_where_the_services_listen(profile: str) -> None:
    """The addresses in a configuration are the profile's services, at the ports they listen on."""
    config = settings(profile)
    addresses = {worker.url for _, _, worker in config.worker_names()}
    addresses |= {pool.encoder_url for pool in config.pools.values() if pool.encoder_url}
    parts = list(map(urlsplit, addresses))
    assert sorted(ROLES[profile].values()) == sorted(part.hostname for part in parts)
    for part in parts:
        each = SERVICES[part.hostname]
        assert ["workers"] == each["networks"]
        assert str(part.port) == each["healthcheck"]["test"][-1] == port_of(each)


def port_of(each: dict) -> str:
    return str(options(each)["port"]) if "build" in each else each["environment"]["PORT"]


@pytest.mark.parametrize("profile", ROLES)
def test_t2i_and_its_gateway_use_the_same_encoder(profile: str) -> None:
    """The encoder that a T2I server asks is the one that the gateway probes, and comes first."""
    each = service(profile, "t2i")
    asked = options(each)["encoder"] if "build" in each else [each["environment"]["ENCODER_URL"]]
    assert [settings(profile).pools["t2i"].encoder_url] == asked
    assert {ROLES[profile]["encoder"]: {"condition": "service_healthy"}} == each["depends_on"]


@pytest.mark.parametrize("profile", ROLES)
def test_gateway_starts_first_and_stops_last(profile: str) -> None:
    """A gateway waits for no worker, and compose waits for its drain."""
    each = service(profile, "gateway")
    assert "depends_on" not in each
    assert seconds(each["stop_grace_period"]) > settings(profile).server.drain_seconds + 5


def test_only_the_gateway_is_reachable() -> None:
    """Ports are published by gateways alone, on loopback unless a variable says otherwise."""
    published = {name: s["ports"] for name, s in SERVICES.items() if "ports" in s}
    assert {f"gateway-{profile}" for profile in ROLES} == set(published)
    for clients, operators in published.values():
        assert clients == "${TURNOUT_HOST:-127.0.0.1}:${TURNOUT_PORT:-8000}:8000"
        assert operators == "127.0.0.1:${TURNOUT_ADMIN_PORT:-8001}:8001"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_containers_have_few_rights(name: str) -> None:
    """Each service drops its capabilities, and ours have a read-only root."""
    each = SERVICES[name]
    assert ["ALL"] == each["cap_drop"]
    assert ["no-new-privileges:true"] == each["security_opt"]
    assert ("build" in each) == each.get("read_only", False)


def test_example_is_what_the_script_writes() -> None:
    """The example has each option with its default, since it is made from the code."""
    path = DEPLOY / "turnout.example.toml"
    assert example() == path.read_text(encoding="utf-8"), "run scripts/example_config.py"
    loaded, defaults = load_config(path, {}), load_config(None, {})
    assert (defaults.server, defaults.limits, defaults.models) == (
        loaded.server,
        loaded.limits,
        loaded.models,
    )


@pytest.mark.parametrize("script", sorted(DEPLOY.rglob("*.sh")), ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    """Each script is executable, strict, and valid bash."""
    subprocess.run(["bash", "-n", script], check=True)
    assert script.stat().st_mode & 0o111
    assert "\nset -euo pipefail\n" in script.read_text(encoding="utf-8")


def test_t2i_script_refuses_a_wrong_path() -> None:
    """The T2I script says so where SGLang would silently take another implementation."""
    done = subprocess.run(
        ["bash", DEPLOY / "sglang/t2i.sh"], env={"MODEL": "/m/x"}, capture_output=True, check=False
    )
    assert (2, True) == (done.returncode, b"glm-image" in done.stderr)
