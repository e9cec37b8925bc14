"""What a worker replied, whole or as events, and what an unwelcome reply means."""

from __future__ import annotations

import html
import json
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import msgspec

from gateway.routing.outcome import Cause
from gateway.routing.request import ImageRequest, Task
from gateway.transport.events import MEDIA_TYPE, TooLong, progress_of, read

if TYPE_CHECKING:
    import aiohttp

    from gateway.transport.events import Listener

MAX_ANSWER_BYTES: Final = 134_217_728
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
class Reply:
    """Is an HTTP answer as far as it matters; `started` is the worker's mark that it began."""

    status: int
    content: bytes
    started: bool
    ignored: str = ""


class _Error(msgspec.Struct):
    status: int
    headers: dict[str, str] = {}


class Failure(Exception):
    """Says how an attempt ended without an answer; the detail is for the log only."""

    def __init__(self, cause: Cause, detail: str = "", *, is_bare: bool = False) -> None:
        super().__init__(f"{cause.value}: {detail}" if detail else cause.value)
        self.cause = cause
        self.detail = detail
        self.is_bare = is_bare
        """Whether the worker said no more than that something failed, as SGLang does."""


async def read_reply(response: aiohttp.ClientResponse, listener: Listener | None) -> Reply:
    """Reads an answer, telling the listener of progress on the way. Raises Failure."""
    if listener is not None and response.content_type == MEDIA_TYPE:
        return await _read_events(response, listener)
    chunks, total = [], 0
    async for chunk in response.content.iter_any():
        total += len(chunk)
        if total > MAX_ANSWER_BYTES:
            raise Failure(Cause.RUBBISH, f"more than {MAX_ANSWER_BYTES} bytes")
        chunks.append(chunk)
    started = response.headers.get("x-turnout-started", "").lower() == "true"
    ignored = response.headers.get("x-turnout-ignored", "")
    return Reply(response.status, b"".join(chunks), started, ignored)


async def _read_events(response: aiohttp.ClientResponse, listener: Listener) -> Reply:
    """Reads progress until the answer or an error. Raises Failure."""
    ignored = response.headers.get("x-turnout-ignored", "")
    try:
        async for name, data in read(response.content.iter_any(), MAX_ANSWER_BYTES):
            if name == "answer":
                return Reply(200, data, True, ignored)
            if name == "error":
                error = msgspec.json.decode(data, type=_Error)
                started = error.headers.get("x-turnout-started", "") == "true"
                return Reply(error.status, data, started, ignored)
            if name == "progress" and (progress := progress_of(data, 0)) is not None:
                listener(progress)
    except TooLong:
        raise Failure(Cause.RUBBISH, f"more than {MAX_ANSWER_BYTES} bytes") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(Cause.RUBBISH, f"{type(error).__name__}: {error}") from error
    raise Failure(Cause.LOST, "the events ended without an answer")


def failure_of(reply: Reply, request: ImageRequest) -> Failure:
    """Tells what a reply other than 200 means."""
    text = without_echo(reply.content, request)
    cause = cause_of(reply.status, text, reply.started, request.task)
    is_bare = cause is Cause.BAD_STATUS and reply.status == 500 and not reply.started
    is_bare = is_bare and text.strip().lower() == "internal server error"
    return Failure(cause, f"{reply.status} {text[:2048]}", is_bare=is_bare)


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
