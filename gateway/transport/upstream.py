"""One attempt on one worker over HTTP: SGLang's own calls out, a checked answer back.

Foreign exceptions end here: each becomes a Failure with the cause that the table of
`routing.outcome` knows. Of the client's headers only the request id and the trace context go on.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec
import pybase64

from gateway.routing.outcome import Cause
from gateway.routing.request import ImageRequest, Size, Task
from gateway.routing.size import painted_size
from gateway.transport.pictures import BadPicture, fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.config import ModelConfig
    from gateway.routing.worker import Worker

MAX_ANSWER_BYTES: Final = 134_217_728
_SCALARS: Final = ("num_inference_steps", "guidance_scale", "negative_prompt", "output_compression")
_MEMORY_WORDS: Final = ("out of memory", "outofmemory")
_TEXT_ONLY_WORDS: Final = (
    "i2i mode is not supported",  # the encoder is external
    "notimplementederror",
    "not supported for t2i models",  # the server took the model for a text-only one
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Is one checked picture and what is known of how it was made."""

    picture: bytes
    seed: int
    worker: str
    usage: Mapping[str, int] | None = None


class Failure(Exception):
    """Says how an attempt ended without an answer; the detail is for the log only."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(f"{cause.value}: {detail}" if detail else cause.value)
        self.cause = cause
        self.detail = detail


class _Datum(msgspec.Struct):
    b64_json: str | None = None


class _Body(msgspec.Struct):
    data: list[_Datum]
    usage: dict[str, int | None] | None = None


class Upstream:
    """Is the client of all workers; open while the runtime is."""

    def __init__(self) -> None:
        # A fresh connection for each generation: a kept one may be closed by the worker just as
        # it is used again, and then nobody can tell whether the work began.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def close(self) -> None:
        """Closes what is still open."""
        await self._session.close()

    async def send(
        self,
        worker: Worker,
        request: ImageRequest,
        model: ModelConfig,
        headers: Mapping[str, str],
        connect_seconds: float,
    ) -> Answer:
        """Asks a worker for one picture and returns it checked. Raises Failure."""
        assert request.size is not None
        painted = painted_size(request.size, model)
        path, body = canonical_call(request, model, painted)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        try:
            async with self._session.post(
                worker.url + path,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                status, content = response.status, await _read(response)
                started = response.headers.get("x-turnout-started", "").lower() == "true"
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ) as error:
            raise Failure(Cause.UNREACHABLE, type(error).__name__) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Failure(Cause.LOST, f"{type(error).__name__} {error}") from error
        if status != 200:
            cause = cause_of(status, content, started, request.task)
            raise Failure(cause, f"{status} {_excerpt(content, request)}")
        return await asyncio.to_thread(_checked, content, request, painted, worker.name)


def canonical_call(
    request: ImageRequest, model: ModelConfig, painted: Size
) -> tuple[str, aiohttp.BytesPayload | aiohttp.FormData]:
    """Returns path and body of SGLang's call: JSON for text, a multipart form for pictures."""
    fields: dict[str, Any] = {
        "model": model.worker_model,
        "prompt": request.prompt,
        "size": str(painted),
        "n": 1,
        "seed": request.seed,
        "response_format": "b64_json",
        "output_format": request.output_format,
    }
    fields |= {name: v for name in _SCALARS if (v := getattr(request, name)) is not None}
    if request.task is Task.T2I:
        text = msgspec.json.encode(fields)
        return "/v1/images/generations", aiohttp.BytesPayload(text, content_type="application/json")
    form = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields.items():
        form.add_field(name, str(value))
    for position, image in enumerate(request.images):
        form.add_field(
            "image",
            image.data,
            filename=f"image_{position}.{image.format}",
            content_type=f"image/{image.format}",
        )
    return "/v1/images/edits", form


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks, total = [], 0
    async for chunk in response.content.iter_any():
        total += len(chunk)
        if total > MAX_ANSWER_BYTES:
            raise Failure(Cause.RUBBISH, f"more than {MAX_ANSWER_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def cause_of(status: int, content: bytes, started: bool, task: Task) -> Cause:
    """Tells what an answer other than 200 means; `started` is the worker's own mark."""
    text = content[:65536].decode("utf-8", "replace").lower()
    if status in (429, 503):
        return Cause.BAD_STATUS if started else Cause.BUSY
    if any(words in text for words in _MEMORY_WORDS):
        return Cause.OUT_OF_MEMORY
    if task is Task.I2I and any(words in text for words in _TEXT_ONLY_WORDS):
        return Cause.TEXT_ONLY
    if status in (400, 413, 422):
        return Cause.REJECTED
    return Cause.BAD_STATUS


def _checked(content: bytes, request: ImageRequest, painted: Size, worker: str) -> Answer:
    assert request.size is not None
    assert request.seed is not None
    assert request.output_format is not None
    try:
        body = msgspec.json.decode(content, type=_Body)
        [datum] = body.data
        data = pybase64.b64decode(datum.b64_json or "", validate=True)
        picture = fit(
            data, request.size, painted, request.output_format, request.output_compression
        )
    except (msgspec.DecodeError, ValueError, BadPicture) as error:
        raise Failure(Cause.RUBBISH, f"{type(error).__name__}: {error}") from error
    usage = {name: n for name, n in (body.usage or {}).items() if n is not None}
    return Answer(picture=picture, seed=request.seed, worker=worker, usage=usage or None)


def _excerpt(content: bytes, request: ImageRequest) -> str:
    """Cuts a worker's error to what a log may hold; workers like to repeat the prompt in it."""
    text = content[:65536].decode("utf-8", "replace")
    for secret in (request.prompt, request.negative_prompt or ""):
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
        ):
            if form.strip():
                text = text.replace(form, "[prompt]")
    return text[:2048]
