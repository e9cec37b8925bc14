"""One attempt on one worker over HTTP: SGLang's own calls out, a checked answer back.

Foreign exceptions end here: each becomes a Failure with the cause that the table of
`routing.outcome` knows. Of the client's headers only the request id and the trace context go on.
"""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec
import pybase64

from gateway.routing.fields import shown
from gateway.routing.outcome import Cause
from gateway.routing.request import ImageRequest, Size, Task
from gateway.routing.size import painted_size
from gateway.transport.events import MEDIA_TYPE
from gateway.transport.pictures import BadPicture, fit
from gateway.transport.probe import load_of
from gateway.transport.replies import Failure, failure_of, read_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.config import ModelConfig
    from gateway.routing.worker import Worker
    from gateway.transport.events import Listener

STOP_SECONDS: Final = 10.0
STOP_POLL_SECONDS: Final = 0.1
_SCALARS: Final = ("num_inference_steps", "guidance_scale", "negative_prompt", "output_compression")


@dataclass(frozen=True, slots=True)
class Answer:
    """Is one checked picture and what is known of how it was made."""

    picture: bytes
    seed: int
    worker: str
    usage: Mapping[str, int] | None = None
    ignored: tuple[str, ...] = ()
    """Fields that the worker says it did not use."""


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
        listener: Listener | None = None,
    ) -> Answer:
        """Asks a worker for one picture and returns it checked. Raises Failure.

        The listener is told how far it has come, if the worker tells.
        """
        assert request.size is not None
        painted = painted_size(request.size, model)
        path, body = canonical_call(request, model, painted)
        if listener is not None and worker.streams_progress:
            headers = {**headers, "accept": MEDIA_TYPE}
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
                reply = await read_reply(response, listener)
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ) as error:
            raise Failure(Cause.UNREACHABLE, type(error).__name__) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Failure(Cause.LOST, f"{type(error).__name__} {error}") from error
        if reply.status != 200:
            raise failure_of(reply, request)
        answer = await asyncio.to_thread(_checked, reply.content, request, painted, worker.name)
        names = (shown(name.strip()) for name in reply.ignored.split(",") if name.strip())
        return replace(answer, ignored=tuple(names))

    async def until_stopped(self, worker: Worker) -> None:
        """Waits until a worker that was hung up on says that it has stopped, but not for ever.

        One that does not tell what it has in hand is believed to stop at once.
        """
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with asyncio.timeout(STOP_SECONDS):
                while worker.reports_load:
                    async with self._session.get(f"{worker.url}/health") as response:
                        load = load_of(await response.content.read(65536))
                    if load is None or load.in_flight + load.waiting < worker.in_flight:
                        return
                    await asyncio.sleep(STOP_POLL_SECONDS)


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
