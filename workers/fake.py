"""An engine without a model: its colours prove which prompt, seed and source pictures arrived."""

import hashlib
import time
from collections.abc import Sequence

from PIL import Image

from workers.engine import (
    REFUSAL,
    ImageLimits,
    Picture,
    PictureRequest,
    Task,
    WorkerInfo,
)
from workers.watch import Watch

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
    """Obeys the engine protocol, sleeps as told, and keeps the prompts in the order it ran them.

    Its seconds are spent on the request's own number of steps, with as many looks in between.
    """

    def __init__(
        self,
        *,
        seconds: float = 0.0,
        load_seconds: float = 0.0,
        tasks: tuple[Task, ...] = ("t2i", "i2i"),
        encoder_urls: tuple[str, ...] = (),
        limits: ImageLimits | None = None,
    ) -> None:
        self.info = WorkerInfo(
            "fake-glm-image", tasks, encoder_urls, limits or ImageLimits(64, 2048)
        )
        self.seconds = seconds
        self.load_seconds = load_seconds
        self.prompts: list[str] = []
        self.steps = 0

    def warm_up(self) -> None:
        """Sleeps as long as a model would load."""
        time.sleep(self.load_seconds)

    def generate(self, requests: Sequence[PictureRequest], watch: Watch) -> list[Picture]:
        """Paints three bands each; refuses sources where a real worker would have no tower."""
        first = requests[0]
        self.prompts.append(first.prompt)
        if first.sources and "i2i" not in self.info.tasks:
            raise NotImplementedError(REFUSAL)
        watch.at("encoding", 0, 1)
        return [self._picture(request, watch) for request in requests]

    def _picture(self, request: PictureRequest, watch: Watch) -> Picture:
        watch.at("denoising", 0, request.steps)
        for step in range(request.steps):
            time.sleep(self.seconds / request.steps)
            self.steps += 1
            watch.at("denoising", step + 1, request.steps)
        watch.at("decoding", 0, 1)
        image = Image.new("RGB", (request.width, request.height))
        for band, colour in enumerate(fake_colours(request)):
            start, end = (band * request.width // 3, (band + 1) * request.width // 3)
            image.paste(colour, (start, 0, end, request.height))
        seconds = {"encode": 0.0, "denoise": self.seconds, "decode": 0.0}
        return Picture(image, len(request.prompt), 1, seconds)

    def peak_memory_mb(self) -> float:
        """A fake holds nothing."""
        return 0.0
