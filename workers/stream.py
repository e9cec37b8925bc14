"""Server-sent events out of an engine's thread, as long as somebody listens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from workers.errors import CallerLeft
from workers.waiting import unless_left

Item = TypeVar("Item")
Write = Callable[[bytes], Awaitable[None]]

HEARTBEAT = b": still here\n\n"


class Feed(Generic[Item]):
    """Carries items from any thread into the event loop that made it, in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item | None] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """Hands an item over; after the loop's end nobody listens."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    async def until(
        self, end: "asyncio.Future[Any]", heartbeat_seconds: float
    ) -> AsyncIterator[Item | None]:
        """Every item put before the end; None whenever it has been silent for so long."""
        end.add_done_callback(lambda _: self._items.put_nowait(None))
        while True:
            try:
                async with asyncio.timeout(heartbeat_seconds):
                    item = await self._items.get()
            except TimeoutError:
                yield None
                continue
            if item is None:
                return
            yield item


class EventStream(Response):
    """Runs `tell`, which writes blocks of the stream; ends it when the caller leaves.

    The answer starts with the first block: what `tell` raises before is an ordinary error.
    """

    def __init__(
        self, tell: Callable[[Write], Awaitable[None]], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, headers=headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream."""
        has_started = False

        async def write(block: bytes) -> None:
            nonlocal has_started
            if not has_started:
                has_started = True
                head = {"status": self.status_code, "headers": self.raw_headers}
                await send({"type": "http.response.start", **head})
            await send({"type": "http.response.body", "body": block, "more_body": True})

        async def told() -> None:
            await self._tell(write)

        with suppress(CallerLeft):
            await unless_left(told(), receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
