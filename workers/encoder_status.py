"""The routes that say how an encoder server is and what it holds: SGLang's names and shapes."""

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import JSONResponse, Response

from workers.checkpoint import Checkpoint
from workers.runner import Runner


def encoder_status_router(
    checkpoint: Checkpoint, runner: Runner[Any, Any], registry: CollectorRegistry
) -> APIRouter:
    """`/health`, `/v1/loads`, `/v1/models`, `/model_info`, `/server_info` and `/metrics`."""
    router = APIRouter()

    @router.get("/health")
    @router.get("/health_generate")
    async def health() -> JSONResponse:
        """200 once warm."""
        facts = {"status": runner.state, "in_flight": runner.in_flight, "waiting": runner.waiting}
        return JSONResponse(facts, 200 if runner.state == "ok" else 503)

    @router.get("/v1/loads")
    async def loads() -> dict[str, Any]:
        """What runs and waits, as SGLang counts it."""
        load = {"num_running_reqs": runner.in_flight, "num_waiting_reqs": runner.waiting}
        return {"loads": [load]}

    @router.get("/v1/models")
    async def models() -> dict[str, Any]:
        """One model."""
        model = {"id": checkpoint.name, "object": "model", "owned_by": "turnout"}
        return {"object": "list", "data": [model | {"max_model_len": checkpoint.context_length}]}

    @router.get("/model_info")
    async def model_info() -> dict[str, Any]:
        """SGLang's keys."""
        return {"model_path": checkpoint.name, "is_generation": True}

    @router.get("/server_info")
    async def server_info() -> dict[str, Any]:
        """What is served and how busy it is."""
        return {
            "model_path": checkpoint.name,
            "status": runner.state,
            "context_length": checkpoint.context_length,
            "in_flight": runner.in_flight,
            "waiting": runner.waiting,
        }

    @router.get("/metrics")
    async def scrape() -> Response:
        """Prometheus text."""
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return router
