"""Turns answers into responses: our JSON, OpenAI's JSON, or the picture itself."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pybase64
from fastapi import Response

from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from gateway.api.generate import Produced
    from gateway.routing.request import ImageRequest
    from gateway.telemetry import RequestRecord

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


def choose_format(request: ImageRequest, kind: str | None) -> ImageRequest:
    """Settles the output format between the Accept header and the request's own field.

    `kind` is what `picture_type` returned. Raises InvalidRequest where they contradict.
    """
    if kind is not None and request.n > 1:
        raise InvalidRequest(
            "one picture fits into the answer; send 'n': 1, or accept application/json", param="n"
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


def generate_response(produced: Produced, record: RequestRecord, now: float) -> Response:
    """Renders the JSON of `/generate`."""
    request = produced.request
    return _json(
        {
            "id": record.id,
            "created": int(time.time()),
            **_extras(produced, record, now),
            "output_format": request.output_format,
            "data": [
                {"b64_json": _base64(answer.picture), "seed": answer.seed}
                for answer in produced.answers
            ],
        }
    )


def images_response(produced: Produced, record: RequestRecord, now: float) -> Response:
    """Renders OpenAI's JSON, our extras under the one key `turnout`."""
    request = produced.request
    return _json(
        {
            "created": int(time.time()),
            "output_format": request.output_format,
            "size": str(request.size),
            "data": [{"b64_json": _base64(answer.picture)} for answer in produced.answers],
            "turnout": {
                "id": record.id,
                **_extras(produced, record, now),
                "seeds": [answer.seed for answer in produced.answers],
            },
        }
    )


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


def _base64(data: bytes) -> str:
    return str(pybase64.b64encode_as_string(data))
