"""The calls of an encoder server by name: how each is answered, streamed and aborted."""

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from fastapi import Request
from starlette.responses import Response

from workers.contract import GenerateRequest
from workers.decoding import DecodeJob, Tokens
from workers.errors import CallerLeft, WorkerError
from workers.rows import Row
from workers.runner import Runner, Ticket
from workers.stream import HEARTBEAT, EventStream, Feed, Write
from workers.telemetry import EncoderMetrics
from workers.waiting import result_of

HEARTBEAT_SECONDS = 5.0


@dataclass(slots=True)
class Call:
    """One `/generate` call: its rows, their names, and which of them were aborted."""

    wanted: GenerateRequest
    rids: list[str]
    ticket: Ticket[DecodeJob, Tokens] | None = None
    began: float = field(default_factory=time.monotonic)
    aborted: set[str] = field(default_factory=set)

    @property
    def is_aborted(self) -> bool:
        """A call ends early once all of its rows are aborted."""
        return len(self.aborted) == len(self.rids)

    def answers(self, outputs: Tokens, *, is_over: bool = True) -> list[dict[str, Any]]:
        """SGLang's answer per row; `index` tells streamed rows of a list apart."""
        seconds = time.monotonic() - self.began
        answers = []
        parts = zip(self.rids, self.wanted.rows, outputs, strict=True)
        for index, (rid, row, ids) in enumerate(parts):
            reason = _finish_reason(row, ids, rid in self.aborted) if is_over else None
            answer = {
                "text": "",
                "output_ids": ids,
                "meta_info": {
                    "id": rid,
                    "finish_reason": reason,
                    "prompt_tokens": len(row.input_ids),
                    "completion_tokens": len(ids),
                    "cached_tokens": 0,
                    "e2e_latency": seconds,
                },
            }
            answers.append(answer | ({"index": index} if self.wanted.is_list else {}))
        return answers


class Calls:
    """Every call that waits or runs, by the names of its rows."""

    def __init__(self, runner: Runner[DecodeJob, Tokens], metrics: EncoderMetrics) -> None:
        self._runner = runner
        self._metrics = metrics
        self._calls: dict[str, Call] = {}

    async def answer(self, wanted: GenerateRequest, body: Any, request: Request) -> Response:
        """The new tokens at the end, or as they come."""
        call = Call(wanted, _rids(body.get("rid"), len(wanted.rows)))
        if body.get("stream"):
            return EventStream(lambda write: self._tell(call, write))
        self._enter(call, None)
        assert call.ticket is not None
        try:
            outputs = await result_of(call.ticket, request)
        except CallerLeft:
            if not call.is_aborted:
                raise
            outputs = [[] for _ in call.rids]
        finally:
            self._leave(call)
        answers = call.answers(self._counted(call, outputs))
        answer = answers if wanted.is_list else answers[0]
        return Response(msgspec.json.encode(answer), media_type="application/json")

    def abort(self, rid: str | None) -> None:
        """Aborts one row by its name, or all rows."""
        for name in list(self._calls) if rid is None else [rid]:
            call = self._calls.get(name)
            if call is not None and call.ticket is not None:
                call.aborted.add(name)
                if call.is_aborted:
                    call.ticket.leave()

    def _enter(self, call: Call, feed: Feed[Tokens] | None) -> None:
        job = DecodeJob(call.wanted.rows, None if feed is None else feed.put)
        call.ticket = self._runner.submit(job)
        self._calls.update(dict.fromkeys(call.rids, call))

    def _leave(self, call: Call) -> None:
        if call.ticket is not None:
            call.ticket.leave()
        for rid in call.rids:
            self._calls.pop(rid, None)

    async def _tell(self, call: Call, write: Write) -> None:
        """SGLang's stream: every chunk holds all tokens so far; a late error is a chunk too."""
        feed: Feed[Tokens] = Feed()
        self._enter(call, feed)
        assert call.ticket is not None
        so_far: Tokens = [[] for _ in call.rids]
        has_begun = False
        work = asyncio.wrap_future(call.ticket.future)
        try:
            async for tokens in feed.until(work, HEARTBEAT_SECONDS):
                so_far = so_far if tokens is None else tokens
                chunks = [] if tokens is None else call.answers(tokens, is_over=False)
                has_begun = True
                await write(b"".join(map(_chunk, chunks)) or HEARTBEAT)
            outputs = self._counted(call, await work)
            await write(b"".join(map(_chunk, call.answers(outputs))))
        except CallerLeft:
            await write(b"".join(map(_chunk, call.answers(so_far))))
        except WorkerError as error:
            if not has_begun:
                raise
            await write(_chunk(error.envelope))
        finally:
            work.cancel()  # nobody will look at its error any more
            self._leave(call)
        await write(b"data: [DONE]\n\n")

    def _counted(self, call: Call, outputs: Tokens) -> Tokens:
        if not call.is_aborted:
            for task in call.wanted.tasks:
                self._metrics.requests.labels(task).inc()
            self._metrics.tokens.inc(sum(map(len, outputs)))
            self._metrics.seconds.observe(time.monotonic() - call.began)
        return outputs


def _chunk(answer: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(answer)


def _rids(rid: Any, count: int) -> list[str]:
    given = rid if isinstance(rid, list) else [rid]
    if len(given) == count and all(isinstance(item, str) for item in given):
        return given
    return [uuid.uuid4().hex for _ in range(count)]


def _finish_reason(row: Row, ids: Sequence[int], is_aborted: bool) -> dict[str, Any]:
    if len(ids) == row.max_new_tokens:
        return {"type": "length", "length": len(ids)}
    if is_aborted:
        return {"type": "abort", "message": "The request was aborted."}
    return {"type": "stop"}
