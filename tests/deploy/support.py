"""The deployment files as the tests read them: services, stages, configurations, commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import typer
from ruamel.yaml import YAML

from gateway import cli as gateway_cli
from gateway.config_file import load_config
from scripts.run_dockerfile import parse
from workers import cli as worker_cli

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
SERVICES = YAML(typ="safe").load(COMPOSE)["services"]
STAGES = parse((ROOT / "Dockerfile").read_text(encoding="utf-8"))
COMMANDS = {"gateway": gateway_cli.app, "worker": worker_cli.app}
ONCE = {"checkpoint", "download"}
"""The services that fetch or write the model and end."""
ROLES = {
    "cpu": {"encoder": "encoder-cpu", "t2i": "t2i-cpu", "i2i": "i2i-cpu"},
    "gpu": {"encoder": "encoder-gpu", "t2i": "t2i-gpu", "i2i": "i2i-gpu"},
    "split-cpu": {"encoder": "encoder-cpu", "t2i": "t2i-cpu", "i2i": "i2i-split-cpu"},
    "split": {"encoder": "encoder-gpu", "t2i": "t2i-gpu", "i2i": "i2i-split"},
}
"""Which service does what, by profile; the gateway is called after its profile."""
SPLIT = [profile for profile in ROLES if profile.startswith("split")]


def service(profile: str, role: str) -> dict:
    """Returns the service that has a role in a profile."""
    return SERVICES[f"gateway-{profile}" if role == "gateway" else ROLES[profile][role]]


def parsed(target: str, words: list[str]) -> dict[str, object]:
    """Has the real command line parse a command, and returns its parameters."""
    command = typer.main.get_command(COMMANDS[target])
    verb, *arguments = words
    return command.commands[verb].make_context(verb, arguments).params


def options(each: dict) -> dict[str, object]:
    """Returns the parameters of a service that runs our worker."""
    return parsed("worker", shlex.split(each["command"]))


def settings(profile: str):
    """Loads the configuration of a profile's gateway."""
    return load_config(DEPLOY / f"turnout.{profile}.toml", {})


def seconds(duration: str) -> int:
    """Reads a duration as compose writes it."""
    number, unit = re.fullmatch(r"(\d+)([smh])", duration).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]
