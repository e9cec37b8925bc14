"""What an engine is: a request for one picture in, a picture out. Knows no HTTP and no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from PIL import Image

Task = Literal["t2i", "i2i"]
EncoderKind = Literal["in-process", "external"]
HasLeft = Callable[[], bool]

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
    encoder: EncoderKind = "in-process"
    encoder_url: str | None = None
    limits: ImageLimits = field(default_factory=ImageLimits)


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
    """Makes pictures one at a time; every method runs in the engine thread."""

    def warm_up(self) -> None:
        """Makes one small picture, so that the first request is not the slow one."""

    def generate(self, request: PictureRequest, has_left: HasLeft) -> Picture:
        """Makes one picture; raises CallerLeft soon after `has_left` turns true."""

    def peak_memory_mb(self) -> float:
        """The most memory the engine has held, in MB."""
