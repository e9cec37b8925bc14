"""What a caller is given for its pictures: SGLang's JSON, at the end or as the last event."""

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pybase64
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from workers.engine import Picture, WorkerInfo
from workers.errors import WorkerError
from workers.generation import Generated, GenerationJob, GenerationLine
from workers.pictures import write_picture
from workers.runner import Ticket
from workers.schemas import ImageItem, ImagesAnswer, ImagesRequest, Usage
from workers.stream import HEARTBEAT, EventStream, Feed, Write
from workers.waiting import result_of
from workers.watch import Progress

DEFAULT_FORMAT = "jpeg"
IGNORED_HEADER = "x-turnout-ignored"
EVENTS_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """One request on its way to an answer: what to make, and how to hand it over."""

    job: GenerationJob
    fields: ImagesRequest
    request: Request

    @property
    def headers(self) -> Mapping[str, str]:
        """GLM-Image has no negative prompt; SGLang drops it without a word, we say so."""
        return {IGNORED_HEADER: "negative_prompt"} if self.fields.negative_prompt else {}

    @property
    def request_id(self) -> str:
        """The gateway's name for the request."""
        return self.request.headers.get("x-request-id", "")


class Answers:
    """Sends orders down the line and renders what comes back."""

    def __init__(
        self, info: WorkerInfo, line: GenerationLine, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        self._info = info
        self._line = line
        self._heartbeat_seconds = heartbeat_seconds

    async def answer(self, order: Order) -> Response:
        """The pictures as JSON, or as events if the caller asks for them."""
        if EVENTS_TYPE in order.request.headers.get("accept", ""):
            return EventStream(lambda write: self._tell(order, write), order.headers)
        with self._line.recorded(order.job, order.request_id):
            made = await result_of(self._line.runner.submit(order.job), order.request)
            body = await self._body(order, made)
        return Response(body, media_type="application/json", headers=order.headers)

    async def _tell(self, order: Order, write: Write) -> None:
        """Writes the stages as they come, then the answer or the error."""
        feed: Feed[Progress] = Feed()
        has_begun = False
        try:
            with self._line.recorded(order.job, order.request_id):
                ticket = self._line.runner.submit(order.job, feed.put)
                has_begun = True
                try:
                    await write(_progress(Progress("waiting")))
                    body = await self._followed(order, ticket, feed, write)
                finally:
                    ticket.leave()
        except WorkerError as error:
            if not has_begun:
                raise
            await write(event("error", _error(error)))
        else:
            await write(event("answer", body))

    async def _followed(
        self,
        order: Order,
        ticket: Ticket[GenerationJob, Generated],
        feed: Feed[Progress],
        write: Write,
    ) -> bytes:
        work = asyncio.wrap_future(ticket.future)
        try:
            async for progress in feed.until(work, self._heartbeat_seconds):
                await write(HEARTBEAT if progress is None else _progress(progress))
            return await self._body(order, await work)
        finally:
            work.cancel()  # nobody will look at its error any more

    async def _body(self, order: Order, made: Generated) -> bytes:
        return await run_in_threadpool(self._render, order, made)

    def _render(self, order: Order, made: Generated) -> bytes:
        items = []
        for picture in made.pictures:
            cut = picture.image.crop((0, 0, *order.job.size))
            chosen = order.fields.output_format or DEFAULT_FORMAT
            data = write_picture(cut, chosen, order.fields.quality)
            items.append(ImageItem(b64_json=pybase64.b64encode(data).decode("ascii")))
        answer = ImagesAnswer(
            id=uuid.uuid4().hex,
            created=int(time.time()),
            data=items,
            peak_memory_mb=made.peak_memory_mb,
            inference_time_s=round(made.seconds, 4),
            usage=self._usage(made.pictures),
        )
        return answer.model_dump_json().encode()

    def _usage(self, pictures: list[Picture]) -> Usage | None:
        if self._info.encoder == "in-process":
            return None
        prompt = sum(picture.prompt_tokens for picture in pictures)
        completion = sum(picture.completion_tokens for picture in pictures)
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            image_count=len(pictures),
        )


def event(name: str, data: bytes) -> bytes:
    """One server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def _progress(progress: Progress) -> bytes:
    return event("progress", msgspec.json.encode(progress))


def _error(error: WorkerError) -> bytes:
    facts: dict[str, Any] = {"status": error.status, "headers": error.headers}
    return msgspec.json.encode(facts | error.envelope)
