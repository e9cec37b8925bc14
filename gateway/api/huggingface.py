"""POST /hf/{model}, the shape of Hugging Face's InferenceClient: inputs in, the picture out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.api.depends import RecordDep, RuntimeDep
from gateway.api.generate import produce
from gateway.api.openapi import path_parameter, picture_route, pictures
from gateway.api.responses import picture_response
from gateway.api.schemas import ref
from gateway.routing.inspection import Face

router = APIRouter()


@router.post(
    "/hf/{model:path}",
    openapi_extra=picture_route(
        pictures(),
        path_parameter("model", ref("ModelName"), "The model, as clients call it."),
        no_code=("missing_image", "model_required"),
        is_path_open=True,
        json="HubRequest",
    ),
)
async def infer(model: str, http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes a picture from a text, or from a picture and a prompt among the parameters."""
    produced = await produce(http, runtime, record, Face.HUGGING_FACE, model=model)
    return picture_response(produced)
