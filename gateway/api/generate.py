"""POST /generate, the simple face, and the five steps that every picture request takes."""

from __future__ import annotations

import dataclasses
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from gateway.api.depends import RecordDep, RuntimeDep
from gateway.api.responses import (
    choose_format,
    generate_response,
    picture_response,
    picture_type,
)
from gateway.routing.inspection import Face, inspect
from gateway.routing.request import Deadline, ImageRequest
from gateway.routing.size import result_size
from gateway.transport.dispatch import Errand
from gateway.transport.intake import read_payload
from gateway.transport.pictures import load_images

if TYPE_CHECKING:
    from gateway.runtime import Runtime
    from gateway.telemetry import RequestRecord
    from gateway.transport.upstream import Answer

router = APIRouter()
SEEDS = 2**32
TRACE_HEADERS = ("traceparent", "tracestate")


@dataclass(frozen=True, slots=True)
class Produced:
    """Is a served request: what was asked for in canonical form, and an answer per picture."""

    request: ImageRequest
    answers: tuple[Answer, ...]


@router.post("/generate")
async def generate(http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes pictures from a text, or from a text and input images."""
    kind = picture_type(http.headers.get("accept", ""))
    produced = await produce(http, runtime, record, Face.GENERATE, kind)
    if kind is not None:
        return picture_response(produced)
    return generate_response(produced, record, runtime.clock())


async def produce(
    http: Request,
    runtime: Runtime,
    record: RequestRecord,
    face: Face,
    kind: str | None = None,
) -> Produced:
    """Takes a request from its body to its answers; `kind` as in `choose_format`.

    Raises GatewayError.
    """
    record.route = face.value
    with runtime.open_request():
        # 1. The body, within its limits.
        limits = runtime.config.limits
        payload = await read_payload(http.headers, http.stream(), limits.max_body_bytes)
        # 2. What is asked for; the input images decide the task.
        request = choose_format(inspect(payload, face, limits), kind)
        record.task, record.evidence = request.task.value, request.evidence
        record.ignored = request.ignored
        # 3. The input images, checked.
        model = runtime.routes.model(request.model)
        images = await load_images(request.sources, limits)
        request = dataclasses.replace(
            request,
            sources=(),
            images=images,
            size=result_size(request.size, images, model),
            seed=secrets.randbelow(SEEDS) if request.seed is None else request.seed,
        )
        # 4. The pool that can serve the task.
        pool = runtime.routes.pool(request.task)
        record.pool = pool.name
        deadline = Deadline(record.started + pool.config.deadline_seconds)
        # 5. The pictures, one run each.
        headers = {"x-request-id": record.id} | {
            name: value for name in TRACE_HEADERS if (value := http.headers.get(name))
        }
        answers = []
        for single in singles(request):
            errand = Errand(single, model, runtime.queues[pool.name], deadline, headers, record)
            answers.append(await runtime.dispatcher.run(errand))
        return Produced(request, tuple(answers))


def singles(request: ImageRequest) -> list[ImageRequest]:
    """Splits a request for n pictures into n requests for one, with seeds s, s + 1, …"""
    assert request.seed is not None
    return [
        dataclasses.replace(request, n=1, seed=(request.seed + position) % SEEDS)
        for position in range(request.n)
    ]
