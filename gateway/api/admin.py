"""The admin face, on its own port: metrics, and the state of the pools."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from gateway.api.depends import RuntimeDep
from gateway.api.openapi import json_of, reading_route

router = APIRouter()


@router.get(
    "/metrics",
    openapi_extra=reading_route("admin", {"200": {"text/plain": {"schema": {"type": "string"}}}}),
)
async def metrics(runtime: RuntimeDep) -> Response:
    """Renders the metrics in Prometheus' text form."""
    lines = ((queue.pool, queue.waiting) for queue in runtime.queues.values())
    content = runtime.telemetry.scrape(lines)
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/admin/pools", openapi_extra=reading_route("admin", {"200": json_of("Pools")}))
async def pools(runtime: RuntimeDep) -> dict[str, Any]:
    """Tells who waits where, and how each worker is."""
    return {
        name: {
            "missing": runtime.readiness()["pools"][name]["missing"],
            "tasks": [task.value for task in queue.pool.tasks],
            "waiting": queue.waiting,
            "queue_limit": queue.pool.config.queue_limit,
            "encoder": queue.pool.encoder.state.value if queue.pool.encoder else None,
            "workers": [
                {
                    "name": worker.name,
                    "health": worker.health.state.value,
                    "capacity": worker.capacity,
                    "in_flight": worker.in_flight,
                    "tasks": sorted(task.value for task in worker.reported_tasks)
                    if worker.reported_tasks is not None
                    else None,
                    "text_only": worker.is_blind,
                }
                for worker in queue.pool.workers
            ],
        }
        for name, queue in runtime.queues.items()
    }
