"""How busy a worker is, and for how long: learnt from the pictures it has made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.engine import PictureRequest

LOAD_HEADER = "x-turnout-load"
SHARE_OF_NEWEST = 0.3
PREVIEW_TOKENS = 256  # what a picture from text costs the encoder beside its own tokens


@dataclass(frozen=True, slots=True)
class Load:
    """What runs and waits; `predicted_seconds` is None before the first picture."""

    in_flight: int
    waiting: int
    capacity: int
    predicted_seconds: float | None

    def __str__(self) -> str:
        facts = f"in_flight={self.in_flight}, waiting={self.waiting}, capacity={self.capacity}"
        if self.predicted_seconds is None:
            return facts
        return f"{facts}, predicted_seconds={self.predicted_seconds:.3f}"


class Forecast:
    """Seconds per unit of work, stage by stage; recent pictures count most."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}

    def learn(self, request: PictureRequest, stage_seconds: Mapping[str, float]) -> None:
        """Takes one finished picture into account."""
        units = _units(request)
        for stage, seconds in stage_seconds.items():
            rate = seconds / units[stage]
            known = self._rates.get(stage, rate)
            self._rates[stage] = known + SHARE_OF_NEWEST * (rate - known)

    def seconds(self, request: PictureRequest) -> float | None:
        """How long one picture will take; None if nothing is known yet."""
        if not self._rates:
            return None
        return sum(rate * _units(request)[stage] for stage, rate in self._rates.items())


def _units(request: PictureRequest) -> dict[str, float]:
    tokens = request.width * request.height / 1024
    passes = request.steps * (2 if request.guidance > 1 else 1)
    return {
        "encode": tokens if request.sources else tokens + PREVIEW_TOKENS,
        "denoise": tokens * passes,
        "decode": tokens,
    }


class LoadHeader:
    """Adds the load to every answer, as it is when the answer begins."""

    def __init__(self, app: ASGIApp, load: Callable[[], Load]) -> None:
        self._app = app
        self._load = load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[LOAD_HEADER] = str(self._load())
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)
