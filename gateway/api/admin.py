"""The admin face, on its own port: metrics, and the state of the pools."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from gateway.api.depends import RuntimeDep
from gateway.api.openapi import json_of, reading_route
from gateway.routing.pool import Pool
from gateway.routing.worker import Worker

router = APIRouter()


@router.get(
    "/metrics",
    openapi_extra=reading_route("admin", {"200": {"text/plain": {"schema": {"type": "string"}}}}),
)
async def metrics(runtime: RuntimeDep) -> Response:
    """Renders the metrics in Prometheus' text form."""
    lines = (queue.line for queue in runtime.queues.values())
    content = runtime.telemetry.metrics.scrape(lines, runtime.clock())
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/admin/pools", openapi_extra=reading_route("admin", {"200": json_of("Pools")}))
async def pools(runtime: RuntimeDep) -> dict[str, Any]:
    """Tells who waits where, and how each worker is."""
    now = runtime.clock()
    readiness = runtime.readiness()["pools"]
    return {
        name: {
            "missing": readiness[name]["missing"],
            "tasks": [task.value for task in queue.pool.tasks],
            "waiting": queue.waiting,
            "queue_limit": queue.pool.config.queue_limit,
            "expected_wait_seconds": round(queue.line.drain_seconds(now), 3),
            "circuit": queue.pool.circuit.state.value,
            "encoder": queue.pool.encoder.state.value if queue.pool.encoder else None,
            "workers": [worker_state(worker, queue.pool) for worker in queue.pool.workers],
            "line": [
                {
                    "id": ticket.id,
                    "task": ticket.task.value,
                    "position": position,
                    "waited_seconds": round(now - ticket.arrived, 3),
                    "expected_wait_seconds": round(wait, 3),
                    "predicted_seconds": round(ticket.predicted, 3),
                }
                for position, (ticket, wait) in enumerate(queue.line.waits(now).items(), 1)
            ],
        }
        for name, queue in runtime.queues.items()
    }


def worker_state(worker: Worker, pool: Pool | None) -> dict[str, Any]:
    """Tells how one worker stands in its pool; None where it has left it."""
    tasks = worker.capability.reported
    return {
        "name": worker.name,
        "state": worker.state,
        "health": worker.health.state.value,
        "breaker": worker.breaker.state.value,
        "reason": worker.reason,
        "capacity": worker.capacity,
        "in_flight": worker.in_flight,
        "pace": round(worker.pace, 2),
        "tasks": None if tasks is None else sorted(task.value for task in tasks),
        "text_only": pool is not None and bool(pool.lacks(worker)),
    }
