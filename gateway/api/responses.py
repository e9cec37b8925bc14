"""Turns answers into responses: our JSON, OpenAI's JSON, or the picture itself."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pybase64
from fastapi import Request, Response

from gateway.api.artifacts import base_url, url_for
from gateway.errors import InvalidRequest
from gateway.routing.cost import image_tokens
from gateway.routing.inspection import Face
from gateway.transport.events import MEDIA_TYPE

if TYPE_CHECKING:
    from gateway.api.produced import Produced
    from gateway.record import RequestRecord
    from gateway.routing.request import ImageRequest
    from gateway.runtime import Runtime

ANY_PICTURE = "*"
PICTURE_TYPES = ("png", "jpeg", "webp")


def picture_type(accept: str) -> str | None:
    """Reads an Accept header: None for JSON, `*` or png, jpeg, webp for the picture itself.

    Raises InvalidRequest where only pictures of other types are accepted.
    """
    others = False
    for media_type in _by_preference(accept):
        major, _, minor = media_type.partition("/")
        if major in ("*", "application"):
            return None
        if major == "image" and minor in (ANY_PICTURE, *PICTURE_TYPES):
            return minor
        others = others or major == "image"
    if others:
        raise InvalidRequest(
            "pictures are sent as image/png, image/jpeg or image/webp", param="Accept"
        )
    return None


def wants_events(accept: str) -> bool:
    """Tells whether an Accept header prefers a stream of events to JSON and to a picture."""
    for media_type in _by_preference(accept):
        if media_type == MEDIA_TYPE:
            return True
        if media_type.partition("/")[0] in ("*", "application", "image"):
            return False
    return False


def _by_preference(accept: str) -> list[str]:
    ranked: list[tuple[float, str]] = []
    for part in accept.split(","):
        media_type, _, options = part.partition(";")
        quality = 1.0
        for option in options.split(";"):
            name, _, value = option.partition("=")
            if name.strip() == "q":
                quality = float(value) if value.strip().replace(".", "", 1).isdecimal() else 0.0
        if media_type.strip() and quality > 0:
            ranked.append((quality, media_type.strip().lower()))
    return [media_type for _, media_type in sorted(ranked, key=lambda pair: -pair[0])]


def accepted_picture(face: Face, accept: str) -> str | None:
    """Tells which picture type is the answer itself, as `picture_type` does; None for JSON.

    Only some faces look at the Accept header at all. Raises InvalidRequest.
    """
    if face is Face.GENERATE:
        return picture_type(accept)
    return picture_type(accept) or ANY_PICTURE if face is Face.HUGGING_FACE else None


def choose_format(request: ImageRequest, kind: str | None) -> ImageRequest:
    """Settles the output format between the accepted picture type and the request's own field.

    Raises InvalidRequest where the two contradict.
    """
    if kind is not None and request.n > 1:
        raise InvalidRequest(
            "one picture fits into the answer; send 'n': 1, or accept application/json", param="n"
        )
    if kind is not None and request.response_format == "url":
        raise InvalidRequest(
            "a URL does not fit into a picture; accept application/json", param="response_format"
        )
    if kind in (None, ANY_PICTURE):
        return dataclasses.replace(request, output_format=request.output_format or "png")
    if request.output_format not in (None, kind):
        raise InvalidRequest(
            f"'output_format' contradicts the header 'Accept: image/{kind}'", param="output_format"
        )
    return dataclasses.replace(request, output_format=kind)


def picture_response(produced: Produced) -> Response:
    """Renders the one picture as it is."""
    media_type = f"image/{produced.request.output_format}"
    return Response(produced.answers[0].picture, media_type=media_type)


async def generate_response(
    http: Request, produced: Produced, runtime: Runtime, record: RequestRecord
) -> Response:
    """Renders the JSON of `/generate`."""
    return _json(await generate_answer(http, produced, runtime, record))


async def generate_answer(
    http: Request, produced: Produced, runtime: Runtime, record: RequestRecord
) -> dict[str, Any]:
    """Builds the JSON of `/generate`, for a response or for an event."""
    data = await picture_data(http, produced, runtime)
    return {
        "id": record.id,
        "created": int(time.time()),
        **_extras(produced, record, runtime.clock()),
        "output_format": produced.request.output_format,
        "data": [
            {**datum, "seed": answer.seed}
            for datum, answer in zip(data, produced.answers, strict=True)
        ],
    }


async def images_response(
    http: Request, produced: Produced, runtime: Runtime, record: RequestRecord
) -> Response:
    """Renders OpenAI's JSON, our extras under the one key `turnout`."""
    request = produced.request
    return _json(
        {
            "created": int(time.time()),
            "background": "opaque",
            "output_format": request.output_format,
            "size": str(request.size),
            "data": await picture_data(http, produced, runtime),
            **({"usage": usage} if (usage := openai_usage(produced)) else {}),
            "turnout": {
                "id": record.id,
                **_extras(produced, record, runtime.clock()),
                "seeds": [answer.seed for answer in produced.answers],
            },
        }
    )


async def picture_data(http: Request, produced: Produced, runtime: Runtime) -> list[dict[str, Any]]:
    """Lists the pictures as base64, or keeps them and lists URLs of ours."""
    if produced.request.response_format == "b64_json":
        return [{"b64_json": base64_of(answer.picture)} for answer in produced.answers]
    base = base_url(http, runtime.config.server.public_url)
    output_format = str(produced.request.output_format)
    kept = [await runtime.artifacts.put(each.picture, output_format) for each in produced.answers]
    return [{"url": url_for(base, runtime.artifacts, artifact)} for artifact in kept]


def openai_usage(produced: Produced) -> dict[str, Any] | None:
    """Translates the workers' token counts into OpenAI's terms; None where none were counted.

    Image tokens are those of the input pictures, one per 32 pixels a side.
    """
    counted = [answer.usage for answer in produced.answers if answer.usage is not None]
    if len(counted) < len(produced.answers):
        return None
    given = sum(usage.get("prompt_tokens", 0) for usage in counted)
    made = sum(usage.get("completion_tokens", 0) for usage in counted)
    seen = min(given, len(counted) * sum(map(image_tokens, produced.request.images)))
    return {
        "input_tokens": given,
        "input_tokens_details": {"image_tokens": seen, "text_tokens": given - seen},
        "output_tokens": made,
        "total_tokens": given + made,
    }


def _extras(produced: Produced, record: RequestRecord, now: float) -> dict[str, Any]:
    request = produced.request
    return {
        "task": record.task,
        "pool": record.pool,
        "model": request.model,
        "size": str(request.size),
        "seed": request.seed,
        "timings": {
            "queue_seconds": round(record.queue_seconds, 3),
            "worker_seconds": round(record.worker_seconds, 3),
            "total_seconds": round(now - record.started, 3),
        },
    }


def _json(content: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def base64_of(data: bytes) -> str:
    """Returns base64 text."""
    return str(pybase64.b64encode_as_string(data))
