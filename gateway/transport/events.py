"""Server-sent events, read from workers and written to clients, and how far a picture has come."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

    Listener = Callable[["Progress"], None]

MEDIA_TYPE: Final = "text/event-stream"
HEARTBEAT: Final = b": still here\n\n"


class TooLong(Exception):
    """Says that a stream of events goes on beyond its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Is how far one picture has come; `picture` counts from 0, `position` in line from 1."""

    stage: str
    done: int = 0
    total: int = 0
    picture: int = 0
    position: int | None = None
    expected_wait_seconds: float | None = None

    def render(self) -> bytes:
        """Writes it as an event; what is not known is left out."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return render("progress", known)


class _Step(msgspec.Struct):
    stage: str
    done: int = 0
    total: int = 0


def progress_of(data: bytes, picture: int) -> Progress | None:
    """Reads a worker's progress; what cannot be read says nothing."""
    try:
        step = msgspec.json.decode(data, type=_Step)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Progress(stage=step.stage[:32], done=step.done, total=step.total, picture=picture)


def render(event: str, data: dict[str, Any]) -> bytes:
    """Writes an event; JSON has no line breaks, so one data line is enough."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))


async def read(chunks: AsyncIterable[bytes], max_bytes: int) -> AsyncIterator[tuple[str, bytes]]:
    """Yields each event's name and data, however the bytes are cut. Raises TooLong."""
    buffer, seen, total = bytearray(), 0, 0
    async for chunk in chunks:
        total += len(chunk)
        if total > max_bytes:
            raise TooLong
        buffer += chunk.replace(b"\r\n", b"\n")
        while (end := buffer.find(b"\n\n", max(0, seen - 1))) >= 0:
            name, data = _parse(bytes(buffer[:end]))
            del buffer[: end + 2]
            seen = 0
            if data:
                yield name, data
        seen = len(buffer)


def _parse(block: bytes) -> tuple[str, bytes]:
    name, data = "message", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.strip().decode("ascii", "replace")
        elif field == b"data":
            data.append(value.removeprefix(b" "))
    return name, b"\n".join(data)
