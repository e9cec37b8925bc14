"""The admin face that changes things: workers come, rest, return and go; the configuration anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from gateway.api.admin import worker_state
from gateway.api.depends import RuntimeDep
from gateway.api.openapi import acting_route, path_parameter

if TYPE_CHECKING:
    from gateway.routing.worker import Worker
    from gateway.runtime import Runtime

router = APIRouter()


def _named(part: str) -> dict[str, Any]:
    return path_parameter(part, {"type": "string"}, f"The {part}.")


@router.post(
    "/admin/pools/{pool}/workers",
    status_code=201,
    openapi_extra=acting_route("WorkerState", _named("pool"), status="201", body="NewWorker"),
)
async def add(http: Request, pool: str, runtime: RuntimeDep) -> JSONResponse:
    """Takes a worker into a pool, until the configuration is read again."""
    worker = runtime.add_worker(pool, await http.body())
    return JSONResponse(_done(runtime, "add", worker), status_code=201)


@router.delete(
    "/admin/workers/{worker}", openapi_extra=acting_route("WorkerState", _named("worker"))
)
async def remove(worker: str, runtime: RuntimeDep) -> dict[str, Any]:
    """Takes a worker out of its pool; what it has in hand ends as usual."""
    removed = runtime.routes.remove_worker(worker)
    return _done(runtime, "remove", removed)


@router.post(
    "/admin/workers/{worker}/drain", openapi_extra=acting_route("WorkerState", _named("worker"))
)
async def drain(worker: str, runtime: RuntimeDep) -> dict[str, Any]:
    """Gives a worker nothing new; what it has in hand ends as usual."""
    found = runtime.routes.worker(worker)
    found.drain()
    return _done(runtime, "drain", found)


@router.post(
    "/admin/workers/{worker}/resume", openapi_extra=acting_route("WorkerState", _named("worker"))
)
async def resume(worker: str, runtime: RuntimeDep) -> dict[str, Any]:
    """Gives a drained or resting worker work again."""
    found = runtime.routes.worker(worker)
    found.resume()
    return _done(runtime, "resume", found)


def _done(runtime: Runtime, action: str, worker: Worker) -> dict[str, Any]:
    """Lets the gateway see what was done to a worker, logs it, and tells how it stands now."""
    runtime.changed()
    runtime.telemetry.operated(action, worker.name)
    return worker_state(worker, runtime.routes.pool_of(worker))


@router.post("/admin/reload", openapi_extra=acting_route("Reloaded"))
async def reload(runtime: RuntimeDep) -> dict[str, Any]:
    """Reads the configuration again; one with a mistake changes nothing."""
    return {"needs_restart": runtime.reload()}
