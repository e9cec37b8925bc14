"""POST /generate, the simple face, and the five steps that every picture request takes."""

from __future__ import annotations

import asyncio
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
from gateway.errors import SlowUpload
from gateway.routing.inspection import Face, inspect
from gateway.routing.request import Deadline, ImageRequest
from gateway.routing.size import result_size
from gateway.transport.dispatch import Errand
from gateway.transport.intake import read_payload
from gateway.transport.pictures import load_images

if TYPE_CHECKING:
    from gateway.routing.request import Payload
    from gateway.runtime import Runtime
    from gateway.telemetry import RequestRecord
    from gateway.transport.upstream import Answer

router = APIRouter()
SEEDS = 2**32
TRACE_HEADERS = ("traceparent", "tracestate")
UPLOAD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Produced:
    """Is a served request: what was asked for in canonical form, and an answer per picture."""

    request: ImageRequest
    answers: tuple[Answer, ...]


@router.post("/generate")
async def generate(http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes pictures from a text, or from a text and input images."""
    produced = await produce(http, runtime, record, Face.GENERATE)
    if picture_type(http.headers.get("accept", "")) is not None:
        return picture_response(produced)
    return generate_response(produced, record, runtime.clock())


async def produce(http: Request, runtime: Runtime, record: RequestRecord, face: Face) -> Produced:
    """Takes a request from its body to its answers. Raises GatewayError."""
    record.route = face.value
    with runtime.arrival():
        # 1. The body, within its limits.
        payload = await _body(http, runtime)
        # 2. What is asked for; the input images decide the task.
        limits = runtime.config.limits
        request = inspect(payload, face, limits)
        record.task, record.evidence = request.task.value, request.evidence
        record.ignored = request.ignored
        kind = picture_type(http.headers.get("accept", "")) if face is Face.GENERATE else None
        request = choose_format(request, kind)
        # 3. The input images, checked; and what depends on them.
        name, model = runtime.routes.model(request.model)
        images = await load_images(request.sources, limits)
        request = dataclasses.replace(
            request,
            model=name,
            sources=(),
            images=images,
            size=result_size(request.size, images, model),
            seed=secrets.randbelow(SEEDS) if request.seed is None else request.seed,
        )
        record.seed = request.seed
    with runtime.work():
        # 4. The pools that may serve the task.
        choices = runtime.routes.choices(request.task)
        deadline = Deadline(record.started + choices[0].config.deadline_seconds)
        # 5. The pictures, one run each.
        headers = {"x-request-id": record.id} | {
            name: value for name in TRACE_HEADERS if (value := http.headers.get(name))
        }
        answers = []
        for single in singles(request):
            errand = Errand(single, model, choices, deadline, headers, record)
            answers.append(await runtime.dispatcher.run(errand))
    return Produced(request, tuple(answers))


async def _body(http: Request, runtime: Runtime) -> Payload:
    """Reads the body, for no longer than the longest deadline. Raises SlowUpload."""
    deadlines = (pool.config.deadline_seconds for pool in runtime.routes.pools)
    seconds = max(deadlines, default=UPLOAD_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            max_bytes = runtime.config.limits.max_body_bytes
            return await read_payload(http.headers, http.stream(), max_bytes)
    except TimeoutError:
        raise SlowUpload(f"the body did not arrive within {seconds:g} seconds") from None


def singles(request: ImageRequest) -> list[ImageRequest]:
    """Splits a request for n pictures into n requests for one, with seeds s, s + 1, …"""
    assert request.seed is not None
    return [
        dataclasses.replace(request, n=1, seed=(request.seed + position) % SEEDS)
        for position in range(request.n)
    ]
