"""One attempt on one worker over HTTP: SGLang's own calls out, a checked answer back.

Foreign exceptions end here: each becomes a Failure with the cause that the table of
`routing.outcome` knows. Of the client's headers only the request id and the trace context go on.
"""

from __future__ import annotations

import asyncio
import html
import io
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import aiohttp
import msgspec
import pybase64

from gateway.routing.fields import shown
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
_MEMORY_WORDS: Final = ("out of memory", "outofmemory", "out_of_memory")
_REFUSALS: Final = MappingProxyType(
    {
        # The encoder is external, and this half of it hands on text only.
        500: ("i2i mode is not supported", "notimplementederror"),
        # The server took the model for a text-only one.
        400: ("input_reference is not supported for t2i models",),
    }
)
ECHO_LETTERS: Final = 12
"""Letters in a row that a worker's error may not share with the prompt, if it is to be logged."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Is one checked picture and what is known of how it was made."""

    picture: bytes
    seed: int
    worker: str
    usage: Mapping[str, int] | None = None
    ignored: tuple[str, ...] = ()
    """Fields that the worker says it did not use."""


class Failure(Exception):
    """Says how an attempt ended without an answer; the detail is for the log only."""

    def __init__(self, cause: Cause, detail: str = "", *, is_bare: bool = False) -> None:
        super().__init__(f"{cause.value}: {detail}" if detail else cause.value)
        self.cause = cause
        self.detail = detail
        self.is_bare = is_bare
        """Whether the worker said no more than that something failed, as SGLang does."""


class _Datum(msgspec.Struct):
    b64_json: str | None = None


class _Body(msgspec.Struct):
    data: list[_Datum]
    usage: Any = None


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
        timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_seconds, sock_connect=connect_seconds
        )
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
                ignored = response.headers.get("x-turnout-ignored", "")
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ) as error:
            raise Failure(Cause.UNREACHABLE, type(error).__name__) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Failure(Cause.LOST, f"{type(error).__name__} {error}") from error
        if status != 200:
            text = without_echo(content, request)
            cause = cause_of(status, text, started, request.task)
            is_bare = cause is Cause.BAD_STATUS and status == 500 and not started
            is_bare = is_bare and text.strip().lower() == "internal server error"
            raise Failure(cause, f"{status} {text[:2048]}", is_bare=is_bare)
        answer = await asyncio.to_thread(_checked, content, request, painted, worker.name)
        names = (shown(name.strip()) for name in ignored.split(",") if name.strip())
        return replace(answer, ignored=tuple(names))


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
            io.BytesIO(image.data),  # sent in pieces, so that a large one does not hold the loop
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


def cause_of(status: int, text: str, started: bool, task: Task) -> Cause:
    """Tells what an answer other than 200 means.

    `text` must be free of the caller's own words, `started` is the worker's mark that it began.
    """
    text = text.lower()
    is_memory = any(words in text for words in _MEMORY_WORDS)
    if status in (429, 503) and not started:
        return Cause.BUSY
    if started:
        return Cause.OUT_OF_MEMORY if is_memory else Cause.BAD_STATUS
    refusals = _REFUSALS.get(status, ()) if task is Task.I2I else ()
    if any(words in text for words in refusals):
        return Cause.TEXT_ONLY
    if status in (400, 413, 422):
        return Cause.REJECTED
    return Cause.OUT_OF_MEMORY if is_memory else Cause.BAD_STATUS


def without_echo(content: bytes, request: ImageRequest) -> str:
    """Returns a worker's error as text that may be logged and understood by its words.

    Workers like to repeat the request in it, whole, cut or escaped; a text that shares a run of
    letters with the prompt is withheld altogether.
    """
    text = content[:65536].decode("utf-8", "replace")
    with suppress(ValueError):
        said = _letters(text + html.unescape(unquote(text)) + json.dumps(text)[1:-1])
        said += _letters(text.encode("ascii", "backslashreplace").decode("unicode_escape"))
        for words in map(_letters, (request.prompt, request.negative_prompt or "")):
            runs = range(0, max(1, len(words) - ECHO_LETTERS + 1), ECHO_LETTERS // 2)
            if len(words) >= 4 and any(words[at : at + ECHO_LETTERS] in said for at in runs):
                return f"[withheld: {len(content)} bytes that repeat the prompt]"
    return text


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.casefold()))


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
    except (msgspec.DecodeError, RecursionError, ValueError, BadPicture) as error:
        raise Failure(Cause.RUBBISH, f"{type(error).__name__}: {error}") from error
    return Answer(picture=picture, seed=request.seed, worker=worker, usage=_counted(body.usage))


def _counted(usage: Any) -> dict[str, int] | None:
    """Reads token counts by SGLang's names or OpenAI's; counts are no reason to lose a picture."""
    if not isinstance(usage, dict):
        return None
    given = usage.get("prompt_tokens", usage.get("input_tokens"))
    made = usage.get("completion_tokens", usage.get("output_tokens"))
    if type(given) is not int or type(made) is not int or min(given, made) < 0:
        return None
    return {"prompt_tokens": given, "completion_tokens": made}
