"""The OpenAI face: the images routes, so that the stock SDKs work unchanged."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.api.depends import RecordDep, RuntimeDep
from gateway.api.generate import produce
from gateway.api.openapi import json_of, picture_route
from gateway.api.responses import images_response
from gateway.errors import NotFound
from gateway.routing.inspection import Face

router = APIRouter()


@router.post(
    "/v1/images/generations",
    openapi_extra=picture_route(
        json_of("ImagesAnswer"),
        no_code=("missing_image",),
        json="GenerateRequest",
        form="GenerateForm",
    ),
)
async def generations(http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes pictures from a text; an input image is honoured here as well."""
    produced = await produce(http, runtime, record, Face.GENERATIONS)
    return await images_response(http, produced, runtime, record)


@router.post(
    "/v1/images/edits",
    openapi_extra=picture_route(
        json_of("ImagesAnswer"), no_code=(), json="EditRequest", form="EditForm"
    ),
)
async def edits(http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes pictures from a text and at least one input image."""
    produced = await produce(http, runtime, record, Face.EDITS)
    return await images_response(http, produced, runtime, record)


@router.post("/v1/images/variations", include_in_schema=False)
async def variations() -> Response:
    """Refuses: the route has gone from OpenAI's API too."""
    raise NotFound(
        "variations are not offered; send the picture to /v1/images/edits with a prompt",
        code="unsupported_endpoint",
    )
