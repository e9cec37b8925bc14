"""The configuration: every option once, with its default, its unit and its danger."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

Seconds = Annotated[float, Field(gt=0)]
Task = Literal["t2i", "i2i"]
Port = Annotated[int, Field(ge=0, le=65535)]


def _address(url: str) -> str:
    parts = urlsplit(url)
    try:
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or none that exists
        is_right = False
    if not is_right or parts.username or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("has to be an address as http://HOST:PORT, without path or password")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    is_usual = parts.port == {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port is None or is_usual else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"  # one form, so that the same server is seen as one


HttpUrl = Annotated[str, AfterValidator(_address)]


HostName = Annotated[str, Field(pattern=r"^(\*|([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?)$")]


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
    drain_delay_seconds: float = Field(default=0, ge=0)
    """Time after SIGTERM in which new requests are still taken, until a balancer has seen that
    `/readyz` says 503, in seconds."""
    drain_seconds: float = Field(default=30, ge=0)
    """Time that running work gets after that, in seconds."""
    public_url: HttpUrl | None = None
    """Base of the URLs that we hand out; none: the host that the client asked for."""
    cors_origins: tuple[str, ...] = ()
    """Browser origins that may call, as `https://ui.example.org`; `*` allows any."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important event that is logged."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """`json` lines, `text` for people; `auto` is text on a terminal and json elsewhere."""

    @model_validator(mode="after")
    def _the_ports_differ(self) -> ServerConfig:
        if self.port == self.admin_port != 0:
            raise ValueError(f"port and admin_port are both {self.port}; they have to differ")
        return self


class LimitsConfig(Section):
    max_body_bytes: int = Field(default=67_108_864, ge=1024)
    """Whole request body, in bytes; beyond it 413."""
    max_images: int = Field(default=4, ge=1, le=16)
    """Input pictures of one request, all fields together."""
    max_image_pixels: int = Field(default=16_777_216, ge=64)
    """Pixels of one input picture, read from its header."""
    max_image_side: int = Field(default=8192, ge=8)
    """Longest side of one input picture, in pixels."""
    animated_images: Literal["first_frame", "refuse"] = "first_frame"
    """Animated input pictures: the first frame with a warning header, or 400."""
    max_prompt_chars: int = Field(default=32_000, ge=1)
    """Length of the prompt, in characters."""
    unknown_fields: Literal["refuse", "ignore"] = "refuse"
    """Unknown request fields: 400, or named in the header `x-turnout-ignored`."""


class FetchConfig(Section):
    enabled: bool = False
    """Whether image URLs are fetched, by the gateway; off: 400 `image_url_forbidden`."""
    allow_hosts: tuple[HostName, ...] = ()
    """Hosts that may be fetched from, even private ones, as `host` or `host:port`; `*` adds every
    public host; none: every public host."""


class ArtifactsConfig(Section):
    directory: str | None = None
    """Where pictures for URL answers are kept, shared by all copies; none: one in /tmp."""
    max_bytes: int = Field(default=1_073_741_824, ge=134_217_728)
    """Pictures kept, in bytes; the oldest go first."""
    ttl_seconds: float = Field(default=3600, ge=1, le=2_592_000)
    """How long a URL answer can be fetched, in seconds."""
    key: SecretStr | None = Field(default=None, min_length=16)
    """Secret that signs the URLs, the same for every copy; none: one kept in the directory."""


class ModelConfig(Section):
    worker_model: str = "zai-org/GLM-Image"
    """Name that the workers are asked for."""
    aliases: tuple[str, ...] = ()
    """Other names by which clients may ask for this model."""
    default_size: str = Field(default="1024x1024", pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")
    """Size of a text-to-image request that names none, as `WxH` in pixels."""
    step: int = Field(default=32, ge=1)
    """Workers paint sides that are multiples of this, in pixels."""
    max_input_images: int | None = Field(default=None, ge=1, le=16)
    """Input pictures that this model takes; none: `limits.max_images`."""
    max_side: int = Field(default=2048, ge=64)
    """Longest side of a result, in pixels; a multiple of the step."""
    size_policy: Literal["crop", "refuse"] = "crop"
    """Sides off the step: painted larger and cut back, or 400."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> ModelConfig:
        small, large = sorted(map(int, self.default_size.split("x")))
        if self.max_side % self.step:
            raise ValueError(f"max_side {self.max_side} is no multiple of step {self.step}")
        if large > self.max_side or large > 4 * small or small < 8:
            raise ValueError(
                f"default_size {self.default_size} has to have sides from 8 to max_side "
                f"{self.max_side}, one at most 4 times the other"
            )
        if self.size_policy == "refuse" and (small % self.step or large % self.step):
            raise ValueError(f"default_size {self.default_size} is off the step {self.step}")
        return self


class WorkerConfig(Section):
    url: HttpUrl
    """Address of the model server, as `http://host:port`."""
    capacity: int = Field(default=1, ge=1, le=1024)
    """Requests it gets at the same time; more than 1 only where it batches."""
    name: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    """Name in headers, logs and metrics; empty: pool name and position, as `i2i-0`."""
    stops_on_disconnect: bool = False
    """True only if it stops working when its caller hangs up; not said: as the server reports,
    which SGLang does not, because it goes on."""
    tasks: tuple[Task, ...] | None = None
    """What it can do; not said: as the server reports."""


class PoolConfig(Section):
    tasks: tuple[Task, ...] = Field(min_length=1)
    """What its workers can do; a task goes first to the pool that lists it first."""
    workers: tuple[WorkerConfig, ...] = ()
    """The model servers, all alike."""
    encoder_url: HttpUrl | None = None
    """External encoder behind these workers; probed too, and its loss closes the pool."""
    i2i_via_encoder: bool = False
    """Lets such a pool list `i2i`: pictures go to those of its workers that say they read them
    themselves (`turnout-worker serve --encoder URL --tasks t2i,i2i`), and to no other."""
    queue_limit: int = Field(default=64, ge=0)
    """Requests that may wait; beyond it 429."""
    deadline_seconds: Seconds = 600
    """Whole time from arrival to answer, in seconds; beyond it 504."""
    connect_seconds: Seconds = 3
    """Time to reach a worker, in seconds."""
    probe_seconds: Seconds = 5
    """Pause between two health probes of a worker, in seconds."""
    order: Literal["on_time", "fifo", "sjf", "edf"] = "on_time"
    """Who waits and is next: by due time, the late stepping aside; first come; shortest; due."""
    slo_factor: float = Field(default=3, ge=1)
    """A request is due after this many times its predicted seconds; a wish, not a deadline."""
    balance: Literal["least_expected_work", "least_in_flight", "round_robin"] = (
        "least_expected_work"
    )
    """Which free worker gets it."""

    @model_validator(mode="after")
    def _an_external_encoder_sees_no_pictures(self) -> PoolConfig:
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError("a task is listed twice")
        if self.encoder_url is not None and "i2i" in self.tasks and not self.i2i_via_encoder:
            raise ValueError(
                "a pool with an encoder_url cannot serve i2i: its workers hand the encoder text "
                "only, so every input picture would end in an error; move i2i to a pool whose "
                "workers run the encoder in process, or set i2i_via_encoder = true if they read "
                "pictures themselves"
            )
        return self


class Config(Section):
    server: ServerConfig = ServerConfig()
    limits: LimitsConfig = LimitsConfig()
    fetch: FetchConfig = FetchConfig()
    artifacts: ArtifactsConfig = ArtifactsConfig()
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
        addresses = [worker.url for _, _, worker in self.worker_names()]
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
