"""POST /generate as a stream of events: where it stands in line, how far it has come, the answer.

Once a stream has begun its status is 200, so what goes wrong then is told by its last event.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from gateway.api.produced import Produced
from gateway.api.responses import generate_answer
from gateway.errors import GatewayError, render
from gateway.transport import events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from gateway.api.produced import Prepared
    from gateway.record import RequestRecord
    from gateway.runtime import Runtime
    from gateway.transport.events import Progress
    from gateway.transport.upstream import Answer

HEARTBEAT_SECONDS: Final = 5.0


class EventStream:
    """Is one request that is run while its client listens."""

    def __init__(
        self, http: Request, prepared: Prepared, runtime: Runtime, record: RequestRecord
    ) -> None:
        self._http = http
        self._prepared = prepared
        self._runtime = runtime
        self._record = record
        self._told: asyncio.Queue[Progress | None] = asyncio.Queue()

    async def run(self) -> AsyncIterator[bytes]:
        """Yields progress as it comes, then the answer or the error."""
        errands = [
            dataclasses.replace(errand, listener=self._listener(position))
            for position, errand in enumerate(self._prepared.errands)
        ]
        with self._runtime.work():
            work = asyncio.create_task(self._runtime.dispatcher.run_all(errands))
            work.add_done_callback(lambda _: self._told.put_nowait(None))
            try:
                async for progress in self._progress():
                    yield progress
                last = await self._last(work)
                yield events.render("headers", self._headers())
                yield last
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    def _listener(self, position: int) -> events.Listener:
        def listen(progress: Progress) -> None:
            self._told.put_nowait(dataclasses.replace(progress, picture=position))

        return listen

    async def _progress(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    progress = await self._told.get()
            except TimeoutError:
                yield events.HEARTBEAT
                continue
            if progress is None:
                return
            yield progress.render()

    def _headers(self) -> dict[str, str]:
        """Lists the headers that a plain answer would have had, now that all is known."""
        return {name.decode(): value.decode() for name, value in self._record.headers()}

    async def _last(self, work: asyncio.Task[list[Answer]]) -> bytes:
        error = work.exception()
        if error is None:
            produced = Produced(self._prepared.request, tuple(work.result()), as_picture=False)
            answer = await generate_answer(self._http, produced, self._runtime, self._record)
            return events.render("answer", answer)
        if not isinstance(error, GatewayError):
            self._runtime.telemetry.fault("request", error, self._record.id)
            error = GatewayError("an internal error; it was logged")
        self._record.status, self._record.code = error.status, error.code
        return events.render("error", _told(error))


def _told(error: GatewayError) -> dict[str, Any]:
    rendered = render(error)
    headers = {k: v for k, v in rendered.headers.items() if k != "content-type"}
    return {"status": rendered.status, "headers": headers, **json.loads(rendered.body)}
