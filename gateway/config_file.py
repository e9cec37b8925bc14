"""Reads the configuration from a TOML file and the environment, and explains what is wrong in it.

`TURNOUT__POOLS__I2I__QUEUE_LIMIT=50` in the environment overlays the file.
Unknown keys are refused with the nearest known one, so a typing error never goes unnoticed.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from gateway.config import Config, Section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX: Final = "TURNOUT__"


class ConfigError(Exception):
    """Says which file and key cannot be used, and what would."""


def load_config(path: Path | None, environment: Mapping[str, str] = os.environ) -> Config:
    """Loads a TOML file (none: defaults only) under the environment's overlay.

    Raises ConfigError with the file, the key and the nearest known key.
    """
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be read: {error.strerror}; name the file with --config or "
                "TURNOUT_CONFIG"
            ) from error
        except (
            ValueError,
            RecursionError,
        ) as error:  # a number may be too long, or a list too deep
            raise ConfigError(f"{path}: is not valid TOML: {error}") from error
    sources: dict[str, str] = {}
    for name, text in sorted(environment.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            sources[_overlay(data, name, text)] = name
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(
            "\n".join(
                _explain(str(path or "configuration"), sources, fault) for fault in error.errors()
            )
        ) from error


def _overlay(data: dict[str, Any], name: str, text: str) -> str:
    """Lays one variable over the data and returns the dotted key that it sets."""
    *sections, key = path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for section in sections:
        inner = data.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{name}: {section} is a value, not a section")
        data = inner
    data[key] = value
    return ".".join(path)


def _explain(file: str, sources: Mapping[str, str], fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"] if part != "[key]") or "configuration"
    from_environment = (
        name for key, name in sources.items() if key.startswith(place) or place.startswith(key)
    )
    source = next(from_environment, file)
    if fault["type"] == "extra_forbidden":
        known = _known_keys(fault["loc"][:-1])
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0)
        return f"{source}: {place}: unknown key; did you mean {near[0]!r}?"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{source}: {place}: {message[0].lower()}{message[1:]}"


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    """Walks the sections along a location and lists the keys of the last one."""
    section: type[Section] = Config
    is_given = False
    for part in location:
        if is_given:  # a position, or a name that the user chose, leads nowhere further
            is_given = False
        elif (inner := _section_in(section.model_fields[str(part)].annotation)) is not None:
            is_given = section.model_fields[str(part)].annotation is not inner
            section = inner
    return list(section.model_fields)


def _section_in(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Section):
        return kind
    return next(filter(None, map(_section_in, get_args(kind))), None)
