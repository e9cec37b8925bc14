"""What an engine is: a request for one picture in, a picture out. Knows no HTTP and no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from PIL import Image

from workers.watch import Watch

Task = Literal["t2i", "i2i"]
EncoderKind = Literal["in-process", "external"]

REFUSAL = "I2I mode is not supported yet via external SGLang encoder URL."


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Bounds for pictures, in pixels; `max_aspect` is the longer side over the shorter."""

    min_side: int = 512
    max_side: int = 2048
    step: int = 32
    max_aspect: float = 4.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker can do, known before the model is loaded."""

    model: str
    tasks: tuple[Task, ...] = ("t2i", "i2i")
    encoder_urls: tuple[str, ...] = ()
    limits: ImageLimits = field(default_factory=ImageLimits)

    @property
    def encoder(self) -> EncoderKind:
        """Where the autoregressive half runs."""
        return "external" if self.encoder_urls else "in-process"


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """One picture to make; sides are multiples of the step, sources are fitted RGB pictures."""

    prompt: str
    width: int
    height: int
    steps: int
    guidance: float
    seed: int
    sources: tuple[Image.Image, ...] = ()

    @property
    def task(self) -> Task:
        """The sources decide the task."""
        return "i2i" if self.sources else "t2i"


@dataclass(frozen=True, slots=True)
class Picture:
    """One finished picture, the encoder's token counts, and seconds per stage."""

    image: Image.Image
    prompt_tokens: int = 0
    completion_tokens: int = 0
    stage_seconds: Mapping[str, float] = field(default_factory=dict)


class Engine(Protocol):
    """Makes pictures, one request at a time; every method runs in the engine thread."""

    def warm_up(self) -> None:
        """Makes one small picture, so that the first request is not the slow one."""

    def generate(self, requests: Sequence[PictureRequest], watch: Watch) -> list[Picture]:
        """Makes one picture per request; the requests differ in their seeds only.

        Calls `watch.at` between all steps, which raises CallerLeft once nobody waits.
        """

    def peak_memory_mb(self) -> float:
        """The most memory the engine has held, in MB."""
