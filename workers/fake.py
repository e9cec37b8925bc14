"""An engine without a model: its colours prove which prompt, seed and source pictures arrived."""

import hashlib
import time

from PIL import Image

from workers.engine import (
    REFUSAL,
    EncoderKind,
    HasLeft,
    ImageLimits,
    Picture,
    PictureRequest,
    Task,
    WorkerInfo,
)
from workers.errors import CallerLeft

NO_SOURCE = (128, 128, 128)
Colour = tuple[int, int, int]


def fake_colours(request: PictureRequest) -> tuple[Colour, Colour, Colour]:
    """The three bands, left to right: prompt, seed, sources (grey without any)."""
    sources = b"".join(source.tobytes() for source in request.sources)
    return (
        _colour(request.prompt.encode()),
        _colour(str(request.seed).encode()),
        _colour(sources) if sources else NO_SOURCE,
    )


def _colour(data: bytes) -> Colour:
    digest = hashlib.sha256(data).digest()
    return digest[0], digest[1], digest[2]


class FakeEngine:
    """Obeys the engine protocol, sleeps as told, and keeps the prompts in the order it ran them."""

    def __init__(
        self,
        *,
        seconds: float = 0.0,
        load_seconds: float = 0.0,
        tasks: tuple[Task, ...] = ("t2i", "i2i"),
        encoder: EncoderKind = "in-process",
        encoder_url: str | None = None,
        limits: ImageLimits | None = None,
    ) -> None:
        self.info = WorkerInfo(
            "fake-glm-image", tasks, encoder, encoder_url, limits or ImageLimits(64, 2048)
        )
        self.seconds = seconds
        self.load_seconds = load_seconds
        self.prompts: list[str] = []

    def warm_up(self) -> None:
        """Sleeps as long as a model would load."""
        time.sleep(self.load_seconds)

    def generate(self, request: PictureRequest, has_left: HasLeft) -> Picture:
        """Paints three bands; refuses sources with an external encoder as SGLang does."""
        self.prompts.append(request.prompt)
        if request.sources and self.info.encoder == "external":
            raise NotImplementedError(REFUSAL)
        until = time.monotonic() + self.seconds
        while (left := until - time.monotonic()) > 0:
            if has_left():
                raise CallerLeft
            time.sleep(min(left, 0.01))
        image = Image.new("RGB", (request.width, request.height))
        for band, colour in enumerate(fake_colours(request)):
            start, end = (band * request.width // 3, (band + 1) * request.width // 3)
            image.paste(colour, (start, 0, end, request.height))
        return Picture(image, len(request.prompt), 1, {"encode": 0.0, "denoise": self.seconds})

    def peak_memory_mb(self) -> float:
        """A fake holds nothing."""
        return 0.0
