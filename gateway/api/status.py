"""What others ask about the gateway itself: is it alive, can it serve, which models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from gateway.api.depends import RuntimeDep
from gateway.api.openapi import MODEL_NOT_FOUND, NOTHING, json_of, path_parameter, reading_route
from gateway.api.schemas import ref
from gateway.errors import NotFound

if TYPE_CHECKING:
    from gateway.runtime import Runtime

router = APIRouter()


@router.get("/livez", openapi_extra=reading_route("state", {"200": json_of("Alive")}))
@router.get("/health", include_in_schema=False)
async def livez() -> dict[str, str]:
    """Answers while the event loop turns."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    openapi_extra=reading_route(
        "state", {"200": json_of("Readiness"), "503": json_of("Readiness")}
    ),
)
@router.get("/ready", include_in_schema=False)
async def readyz(runtime: RuntimeDep) -> Response:
    """Answers 200 if any pool can serve, else 503; the body says what is missing."""
    readiness = runtime.readiness()
    return JSONResponse(readiness, status_code=200 if readiness["ready"] else 503)


@router.get("/v1/models", openapi_extra=reading_route("models", {"200": json_of("ModelList")}))
async def models(runtime: RuntimeDep) -> dict[str, Any]:
    """Lists the models by the names that clients use."""
    return {"object": "list", "data": _models(runtime)}


@router.get(
    "/v1/models/{name:path}",
    openapi_extra=reading_route(
        "models",
        {"200": json_of("Model")},
        path_parameter("name", ref("ModelName"), "The model, as clients call it."),
        codes=(MODEL_NOT_FOUND, *NOTHING),
    ),
)
async def model(name: str, runtime: RuntimeDep) -> dict[str, Any]:
    """Tells about one model or alias."""
    found = next((entry for entry in _models(runtime) if entry["id"] == name), None)
    if found is None:
        raise NotFound("this model does not exist here", code="model_not_found", param="model")
    return found


def _models(runtime: Runtime) -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "turnout"}
        for key, section in runtime.config.models.items()
        for name in (key, *section.aliases)
    ]
