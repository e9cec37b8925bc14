"""Asks encoder servers for tokens over SGLang's `/generate`. Knows no torch.

A connection per call: a kept one that the server had closed would look like lost work, and a
refused one proves that nothing began.
"""

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import structlog

from workers.errors import CallerLeft, EncoderFailed, EncoderLost, EncoderUnreachable
from workers.health import is_healthy, load_of
from workers.rows import Row, list_payload
from workers.tokens import TokenReader
from workers.watch import Watch

NO_CONNECTION = (httpx.ConnectError, httpx.ConnectTimeout)
MISSES = 2  # unanswered questions for /health until the encoder counts as lost

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for an encoder; `read` is the longest silence between two tokens."""

    connect: float = 3.05
    read: float = 100.0
    health_every: float = 2.0
    health: float = 5.0
    abort: float = 1.0


class EncoderPool:
    """One or more encoder servers; the least loaded is asked first.

    Only where no connection came about is the next one asked: nobody can have begun then.
    """

    def __init__(self, urls: Sequence[str], patience: Patience | None = None) -> None:
        self._urls = tuple(urls)
        self._patience = patience or Patience()
        self._tls = httpx.create_ssl_context(trust_env=False)
        self._turn = 0

    def decode(self, rows: Sequence[Row], sources: int, watch: Watch) -> list[list[int]]:
        """The new tokens of each row; the server is told to stop when nobody waits any more."""
        return asyncio.run(self._decode(rows, sources, watch))

    async def _decode(self, rows: Sequence[Row], sources: int, watch: Watch) -> list[list[int]]:
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(self._patience.read, connect=self._patience.connect),
            limits=httpx.Limits(max_keepalive_connections=0),
            verify=self._tls,
            trust_env=False,
        ) as client:
            for url in await self._by_load(client):
                try:
                    return await _Call(client, url, rows, sources, watch, self._patience).tokens()
                except NO_CONNECTION as error:
                    log.warning("encoder_unreachable", encoder=url, error=type(error).__name__)
        raise EncoderUnreachable

    async def _by_load(self, client: httpx.AsyncClient) -> list[str]:
        """The least loaded first, equals in turn, those that do not answer last."""
        if len(self._urls) == 1:
            return list(self._urls)
        loads = await asyncio.gather(*(load_of(client, url) for url in self._urls))
        self._turn += 1
        count = len(self._urls)
        order = sorted(range(count), key=lambda at: (loads[at], (at - self._turn) % count))
        return [self._urls[at] for at in order]


class _Call:
    """One `/generate` call, watched from three sides: its tokens, its server, its caller."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        rows: Sequence[Row],
        sources: int,
        watch: Watch,
        patience: Patience,
    ) -> None:
        self._client, self._url, self._watch, self._patience = client, url, watch, patience
        self._rids = [uuid.uuid4().hex for _ in rows]
        self._payload = list_payload(rows, sources) | {
            "stream": True,
            "rid": self._rids if len(rows) > 1 else self._rids[0],
        }
        self._total = rows[0].max_new_tokens
        self._reader = TokenReader(len(rows))

    async def tokens(self) -> list[list[int]]:
        """Whichever ends first ends the call; a call that did not end well is aborted there."""
        sides: list[Coroutine[Any, Any, None]] = [self._stream(), self._server(), self._caller()]
        tasks = [asyncio.ensure_future(side) for side in sides]
        has_ended = False
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            has_ended = True
            return self._reader.tokens
        except (*NO_CONNECTION, EncoderUnreachable):
            has_ended = True
            raise
        except httpx.TransportError as error:
            raise EncoderLost from error
        finally:
            if not has_ended:
                await self._abort()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stream(self) -> None:
        async with self._client.stream(
            "POST", f"{self._url}/generate", json=self._payload
        ) as answer:
            if answer.status_code in (429, 503):
                if answer.headers.get("x-turnout-started") == "true":
                    raise EncoderLost
                raise EncoderUnreachable("The external encoder is busy or loading.")
            if answer.status_code != 200:
                raise EncoderFailed(f"The encoder answered {answer.status_code}.")
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                return self._reader.read_whole(await answer.aread())
            async for line in answer.aiter_lines():
                if self._reader.read_line(line):
                    return None
                self._watch.at("encoding", self._reader.done, self._total)
        raise EncoderLost

    async def _server(self) -> None:
        """Ends when the server neither sends tokens nor answers `/health` any more."""
        misses = 0
        while misses < MISSES:
            heard = self._reader.done
            await asyncio.sleep(self._patience.health_every)
            is_alive = self._reader.done > heard or await is_healthy(
                self._client, self._url, self._patience.health
            )
            misses = 0 if is_alive else misses + 1
        raise EncoderLost("The external encoder does not answer any more.")

    async def _caller(self) -> None:
        loop, left = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the call is over, and its loop closed
                loop.call_soon_threadsafe(left.set)

        self._watch.when_left(wake)
        await left.wait()
        raise CallerLeft

    async def _abort(self) -> None:
        with suppress(httpx.TransportError):
            for rid in self._rids:
                await self._client.post(
                    f"{self._url}/abort_request", json={"rid": rid}, timeout=self._patience.abort
                )
