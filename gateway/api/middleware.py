"""The outermost layer: request id, one log line, and the end of work whose caller has left.

Pure ASGI, around the whole app, so that it sees every answer, the app's own failures included.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import TYPE_CHECKING, Final

from gateway.errors import Draining, GatewayError, render
from gateway.record import RequestRecord

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.runtime import Runtime

CLIENT_LEFT: Final = 499
"""Recorded only; nobody is there to receive it."""
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")


class Boundary:
    """Is the middleware; the request's record stands in `scope["state"]`."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = RequestRecord(
            id=_request_id(scope),
            method=scope["method"],
            path=scope["path"][:256],
            started=self._runtime.clock(),
        )
        scope.setdefault("state", {})["record"] = record
        try:
            await self._serve(scope, receive, _Sender(send, record), record)
        finally:
            if record.route == "unknown":
                record.route = getattr(scope.get("route"), "path", record.route)
            self._runtime.telemetry.request_ended(record, self._runtime.clock())

    async def _serve(
        self, scope: Scope, receive: Receive, sender: _Sender, record: RequestRecord
    ) -> None:
        try:
            await _until_client_leaves(self._app, scope, receive, sender)
        except _ClientLeft:
            record.status = CLIENT_LEFT
        except _CutOff:
            await sender.fail(Draining("this gateway is stopping; send it again", retry_after=1))
        except Exception as error:  # noqa: BLE001 - the last place where a fault can be answered
            self._runtime.telemetry.fault("request", error, record.id)
            if not sender.has_started:
                await sender.fail(GatewayError("an internal error; it was logged"))


class _Sender:
    """Is `send` with the record's headers added and its status noted."""

    def __init__(self, send: Send, record: RequestRecord) -> None:
        self._send = send
        self._record = record
        self.has_started = False
        self.is_complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            self.is_complete = not message.get("more_body", False)
        elif message["type"] == "http.response.start":
            self.has_started = True
            self._record.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._record.headers()]}
        await self._send(message)

    async def fail(self, error: GatewayError) -> None:
        """Answers an error that the app could not answer."""
        answer = render(error)
        self._record.code = error.code
        headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await self({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self({"type": "http.response.body", "body": answer.body})


class _CutOff(Exception):
    """Says that a drain ended a request that had not arrived yet."""


class _ClientLeft(Exception):
    """Says that the connection went away before the answer was complete."""


async def _until_client_leaves(app: ASGIApp, scope: Scope, receive: Receive, send: _Sender) -> None:
    """Runs the app, and cancels it when the client is gone: raises _ClientLeft, or _CutOff.

    One task reads the connection, one message ahead of the app, because a disconnect is seen
    only by reading. It begins when the app first asks for the body: a request that is refused
    by its headers alone is never told to send one. The server also reports a disconnect after
    a complete answer; that one means nothing.
    """
    messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)
    tasks: list[asyncio.Task[None]] = []
    has_left = False

    async def next_message() -> Message:
        if len(tasks) == 1:
            tasks.append(asyncio.create_task(listen()))
        return await messages.get()

    async def work() -> None:
        await app(scope, next_message, send)

    async def listen() -> None:
        nonlocal has_left
        while (message := await receive())["type"] != "http.disconnect":
            await messages.put(message)
        if not send.is_complete:
            has_left = True
            tasks[0].cancel()

    tasks.append(asyncio.create_task(work()))
    try:
        await asyncio.shield(tasks[0])
    except asyncio.CancelledError:
        if has_left:
            raise _ClientLeft from None
        if tasks[0].cancelled():
            raise _CutOff from None
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    return uuid.uuid4().hex
