"""POST /generate, the simple face, and the five steps that every picture request takes."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from gateway.api.artifacts import base_url
from gateway.api.depends import RecordDep, RuntimeDep
from gateway.api.events import EventStream
from gateway.api.headers import DEADLINE
from gateway.api.openapi import json_of, named_events, picture_route, pictures
from gateway.api.produced import Prepared, Produced
from gateway.api.responses import (
    accepted_picture,
    choose_format,
    generate_response,
    picture_response,
    wants_events,
)
from gateway.errors import InvalidRequest, SlowUpload
from gateway.record import RequestRecord, Trace
from gateway.routing.caller import CREDENTIALS, Caller, identify
from gateway.routing.cost import cost_of
from gateway.routing.inspection import Face, inspect
from gateway.routing.places import fitting
from gateway.routing.request import ImageRequest, digest_of
from gateway.routing.size import painted_size, result_size
from gateway.routing.ticket import Ticket
from gateway.transport.errand import Errand
from gateway.transport.events import MEDIA_TYPE
from gateway.transport.intake import read_payload

if TYPE_CHECKING:
    from gateway.routing.request import Payload
    from gateway.runtime import Runtime

router = APIRouter()
SEEDS = 2**32
UNBUFFERED = MappingProxyType({"cache-control": "no-store", "x-accel-buffering": "no"})
"""So that no proxy keeps events back."""
TRACE_HEADERS = ("traceparent", "tracestate")
UPLOAD_SECONDS = 600.0
SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")


@router.post(
    "/generate",
    openapi_extra=picture_route(
        json_of("GenerateAnswer")
        | pictures()
        | named_events(
            progress="Progress",
            headers="HeadersEvent",
            answer="GenerateAnswer",
            error="ErrorEvent",
        ),
        no_code=("missing_image",),
        json="GenerateRequest",
        form="GenerateForm",
    ),
)
async def generate(http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes pictures from a text, or from a text and input images."""
    if wants_events(http.headers.get("accept", "")):
        prepared = await prepare(http, runtime, record, Face.GENERATE)
        events = EventStream(http, prepared, runtime, record)
        return StreamingResponse(events.run(), media_type=MEDIA_TYPE, headers=UNBUFFERED)
    produced = await produce(http, runtime, record, Face.GENERATE)
    if produced.as_picture:
        return picture_response(produced)
    return await generate_response(http, produced, runtime, record)


async def produce(
    http: Request, runtime: Runtime, record: RequestRecord, face: Face, **given: object
) -> Produced:
    """Takes a request from its body to its answers; `given` are fields that the path names.

    Raises GatewayError.
    """
    prepared = await prepare(http, runtime, record, face, **given)
    with runtime.work():
        # 5. The pictures, one run each.
        answers = await runtime.dispatcher.run_all(prepared.errands)
    return Produced(prepared.request, tuple(answers), prepared.as_picture)


async def prepare(
    http: Request, runtime: Runtime, record: RequestRecord, face: Face, **given: object
) -> Prepared:
    """Takes a request from its body to what is to be run. Raises GatewayError."""
    record.route = face.value
    config = runtime.config
    with runtime.arrival():
        # 1. The body, within its limits.
        payload = await _body(http, runtime)
        payload = dataclasses.replace(payload, entries=(*payload.entries, *given.items()))
        # 2. What is asked for; the input images decide the task.
        request = inspect(payload, face, config.limits, allow_urls=config.fetch.enabled)
        record.task, record.evidence = request.task.value, request.evidence
        record.ignored = request.ignored
        kind = accepted_picture(face, http.headers.get("accept", ""))
        request = choose_format(request, kind)
        if request.response_format == "url":
            base_url(http, config.server.public_url)  # a bad Host is told before any work
        # 3. The input images, fetched and checked; and what depends on them.
        name, model = runtime.routes.model(request.model)
        sources = await runtime.fetcher.resolve(fitting(request, model))
        images, record.warnings = await runtime.pictures.load(sources)
        request = dataclasses.replace(
            request,
            model=name,
            sources=(),
            images=images,
            size=(size := result_size(request.size, images, model)),
        )
        digest = digest_of(request)  # before a seed is drawn: a repeat has the same content
        if request.seed is None:
            request = dataclasses.replace(request, seed=secrets.randbelow(SEEDS))
        cost = cost_of(request, painted := painted_size(size, model))
        record.seed = request.seed
        record.ar_tokens, record.pixel_steps = cost.ar_tokens, cost.pixel_steps
        # 4. The pools that may serve the task, and what is to be run there.
        choices = runtime.routes.choices(request.task)
        ticket = Ticket(
            task=request.task,
            cost=cost,
            arrived=record.started,
            deadline=record.started + seconds_allowed(http, choices[0].config.deadline_seconds),
            caller=caller_of(http),
            shape=f"{request.task.value} {model.worker_model} {painted} "
            f"{request.num_inference_steps} {request.guidance_scale}",
            digest=digest,
            id=record.id,
        )
        headers = {"x-request-id": record.id} | {
            name: value for name in TRACE_HEADERS if (value := http.headers.get(name))
        }
        record.traces = [Trace() for _ in range(request.n)]
        errands = (
            Errand(single, model, choices, ticket, headers, record, trace)
            for single, trace in zip(singles(request), record.traces, strict=True)
        )
        return Prepared(request, tuple(errands), kind is not None)


def seconds_allowed(http: Request, limit: float) -> float:
    """Returns the time that a request may take: the pool's, or less where its header says so.

    Raises InvalidRequest for a header that is no number of seconds.
    """
    said = http.headers.get(DEADLINE)
    if said is None:
        return limit
    if not SECONDS.fullmatch(said) or not float(said):
        raise InvalidRequest(
            f"the header '{DEADLINE}' has to be a number of seconds above 0, as 30 or 2.5",
            param=DEADLINE,
        )
    return min(limit, float(said))


def caller_of(http: Request) -> Caller:
    """Tells who asks, by the first credential among the headers, else by the address."""
    credentials = (http.headers.get(name) for name in CREDENTIALS)
    address = http.client.host if http.client else "unknown"
    return identify(next(filter(None, credentials), None), address)


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
