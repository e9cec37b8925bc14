"""The routes that say how a worker is and what it can do."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import JSONResponse, Response

from workers.engine import WorkerInfo
from workers.health import EncoderHealth
from workers.load import Load
from workers.pictures import MIN_SOURCE_SIDE
from workers.runner import Runner


def status_router(
    info: WorkerInfo,
    runner: Runner[Any, Any],
    load: Callable[[], Load],
    registry: CollectorRegistry,
) -> APIRouter:
    """`/health`, `/liveness`, `/model_info`, `/v1/models`, `/server_info` and `/metrics`."""
    router = APIRouter()
    encoder = EncoderHealth(info.encoder_urls) if info.encoder_urls else None
    task_type = "TI2I" if "i2i" in info.tasks else "T2I"

    @router.get("/health")
    @router.get("/health_generate")
    async def health() -> JSONResponse:
        """200 once warm, and as long as an external encoder answers; else 503 with the reason."""
        status = str(runner.state)
        encoder_state: str = info.encoder
        if encoder is not None:
            encoder_state = "ok" if await encoder.is_ok() else "unreachable"
            if status == "ok" and encoder_state == "unreachable":
                status = "encoder_unreachable"
        answer = {
            "status": status,
            "tasks": list(info.tasks),
            "encoder": encoder_state,
            **asdict(load()),
        }
        return JSONResponse(answer, 200 if status == "ok" else 503)

    @router.get("/liveness")
    async def liveness() -> dict[str, str]:
        """200 while the loop turns."""
        return {"status": "ok"}

    @router.get("/model_info")
    async def model_info() -> dict[str, Any]:
        """SGLang's keys first, then ours."""
        return {
            "model_path": info.model,
            "task_type": task_type,
            "pipeline_name": "GlmImagePipeline",
            "tasks": list(info.tasks),
            "encoder": info.encoder,
            "capacity": 1,
            "stops_on_disconnect": True,
            "streams_progress": True,
            "image_limits": {
                "min_source_side": MIN_SOURCE_SIDE,
                "min_side": info.limits.min_side,
                "max_side": info.limits.max_side,
                "step": info.limits.step,
                "max_aspect": info.limits.max_aspect,
            },
        }

    @router.get("/v1/models")
    async def models() -> dict[str, Any]:
        """One model, with SGLang's task type."""
        model = {
            "id": info.model,
            "object": "model",
            "owned_by": "turnout",
            "task_type": task_type,
            "pipeline_name": "GlmImagePipeline",
        }
        return {"object": "list", "data": [model]}

    @router.get("/server_info")
    async def server_info() -> dict[str, Any]:
        """The line, and what is behind it."""
        return {
            "model_path": info.model,
            "status": runner.state,
            "encoder": info.encoder,
            "max_running_requests": 1,
            "in_flight": runner.in_flight,
            "waiting": runner.waiting,
        }

    @router.get("/metrics")
    async def metrics() -> Response:
        """Prometheus text."""
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return router
