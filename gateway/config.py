"""The configuration: every option once, with its default, its unit and its danger.

A file is TOML; `TURNOUT__POOLS__I2I__QUEUE_LIMIT=50` in the environment overlays it.
Unknown keys are refused with the nearest known one, so a typing error never goes unnoticed.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX = "TURNOUT__"

Seconds = Annotated[float, Field(gt=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
HttpUrl = Annotated[str, Field(pattern=r"^https?://[^/\s?#]+/?$")]


class ConfigError(Exception):
    """Says which file and key cannot be used, and what would."""


class Section(BaseModel):
    """Is a frozen part of the configuration that knows all its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ServerConfig(Section):
    host: str = "127.0.0.1"
    """Address for clients."""
    port: Port = 8000
    """Port for clients; 0 takes a free one."""
    admin_host: str = "127.0.0.1"
    """Address for `/metrics` and `/admin/…`; keep it out of reach of clients."""
    admin_port: Port = 8001
    """Port for `/metrics` and `/admin/…`; 0 takes a free one."""
    drain_seconds: float = Field(default=30, ge=0)
    """Time that running work gets after SIGTERM, in seconds."""
    cors_origins: tuple[str, ...] = ()
    """Browser origins that may call, as `https://ui.example.org`; `*` allows any."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important event that is logged."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """`json` lines, `text` for people; `auto` is text on a terminal and json elsewhere."""


class LimitsConfig(Section):
    max_body_bytes: int = Field(default=67_108_864, ge=1024)
    """Whole request body, in bytes; beyond it 413."""
    max_images: int = Field(default=4, ge=1, le=16)
    """Input pictures of one request, all fields together."""
    max_image_pixels: int = Field(default=16_777_216, ge=64)
    """Pixels of one input picture, read from its header."""
    max_image_side: int = Field(default=8192, ge=8)
    """Longest side of one input picture, in pixels."""
    max_prompt_chars: int = Field(default=32_000, ge=1)
    """Length of the prompt, in characters."""
    unknown_fields: Literal["refuse", "ignore"] = "refuse"
    """Unknown request fields: 400, or named in the header `x-turnout-ignored`."""


class ModelConfig(Section):
    worker_model: str = "zai-org/GLM-Image"
    """Name that the workers are asked for."""
    aliases: tuple[str, ...] = ()
    """Other names by which clients may ask for this model."""
    default_size: str = Field(default="1024x1024", pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")
    """Size of a text-to-image request that names none, as `WxH` in pixels."""
    step: int = Field(default=32, ge=1)
    """Workers paint sides that are multiples of this, in pixels."""
    max_side: int = Field(default=2048, ge=64)
    """Longest side of a result, in pixels."""
    size_policy: Literal["crop", "refuse"] = "crop"
    """Sides off the step: painted larger and cut back, or 400."""

    @model_validator(mode="after")
    def _the_default_fits(self) -> ModelConfig:
        if max(map(int, self.default_size.split("x"))) > self.max_side:
            raise ValueError(f"default_size {self.default_size} is larger than max_side")
        return self


class WorkerConfig(Section):
    url: HttpUrl
    """Address of the model server, as `http://host:port`."""
    capacity: int = Field(default=1, ge=1)
    """Requests it gets at the same time; more than 1 only where it batches."""
    name: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    """Name in headers, logs and metrics; empty: pool name and position, as `i2i-0`."""
    stops_on_disconnect: bool = False
    """True only if it stops working when its caller hangs up; SGLang goes on."""


class PoolConfig(Section):
    tasks: tuple[Literal["t2i", "i2i"], ...] = Field(min_length=1)
    """What its workers can do; a task goes first to the pool that lists it first."""
    workers: tuple[WorkerConfig, ...] = ()
    """The model servers, all alike."""
    encoder_url: HttpUrl | None = None
    """External encoder behind these workers; probed too, and such a pool never gets a picture."""
    queue_limit: int = Field(default=64, ge=0)
    """Requests that may wait; beyond it 429."""
    deadline_seconds: Seconds = 600
    """Whole time from arrival to answer, in seconds; beyond it 504."""
    connect_seconds: Seconds = 3
    """Time to reach a worker, in seconds."""
    probe_seconds: Seconds = 5
    """Pause between two health probes of a worker, in seconds."""

    @model_validator(mode="after")
    def _an_external_encoder_sees_no_pictures(self) -> PoolConfig:
        if self.encoder_url is not None and "i2i" in self.tasks:
            raise ValueError(
                "a pool with an encoder_url cannot serve i2i: its workers hand the encoder text "
                "only, so every input picture would end in an error; move i2i to a pool whose "
                "workers run the encoder in process"
            )
        return self


class Config(Section):
    server: ServerConfig = ServerConfig()
    limits: LimitsConfig = LimitsConfig()
    models: dict[str, ModelConfig] = {}
    """None given: one model `glm-image` with the alias `zai-org/GLM-Image`."""
    pools: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], PoolConfig] = {}

    @model_validator(mode="before")
    @classmethod
    def _one_implicit_model(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.get("models"):
            return {**data, "models": {"glm-image": {"aliases": ["zai-org/GLM-Image"]}}}
        return data

    @model_validator(mode="after")
    def _names_are_unique(self) -> Config:
        called = [name for key, model in self.models.items() for name in (key, *model.aliases)]
        workers = [name for name, _, _ in self.worker_names()]
        addresses = [worker.url.rstrip("/") for _, _, worker in self.worker_names()]
        for kind, names in (
            ("model name or alias", called),
            ("worker name", workers),
            ("worker address", addresses),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"the {kind} {twice[0]!r} is used twice")
        return self

    def worker_names(self) -> list[tuple[str, str, WorkerConfig]]:
        """Lists every worker as (its name, its pool's name, its section)."""
        return [
            (worker.name or f"{pool_name}-{position}", pool_name, worker)
            for pool_name, pool in self.pools.items()
            for position, worker in enumerate(pool.workers)
        ]


def load_config(path: Path | None, environment: Mapping[str, str] = os.environ) -> Config:
    """Loads a TOML file (none: defaults only) under the environment's overlay.

    Raises ConfigError with the file, the key and the nearest known key.
    """
    source = str(path) if path else "environment"
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{source}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{source}: is not valid TOML: {error}") from error
    for name, text in sorted(environment.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            _overlay(data, name, text)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(source, fault) for fault in error.errors())) from error


def _overlay(data: dict[str, Any], name: str, text: str) -> None:
    *sections, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for section in sections:
        inner = data.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"environment: {name}: {section} is a value, not a section")
        data = inner
    data[key] = value


def _explain(source: str, fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"] if part != "[key]") or "configuration"
    if fault["type"] == "extra_forbidden":
        known = _known_keys(fault["loc"][:-1])
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0)
        return f"{source}: {place}: unknown key; did you mean {near[0]!r}?"
    message = re.sub(r"^Value error, ", "", fault["msg"])
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
