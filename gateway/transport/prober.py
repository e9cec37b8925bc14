"""Asks every worker, and every pool's encoder, for its health, and tells `routing.health`.

Also reads what a worker says it can do, so that a picture never goes to one that says it cannot.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from gateway.routing.health import HealthTrack, Sign
from gateway.routing.request import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.routing.pool import Pool
    from gateway.routing.worker import Worker
    from gateway.telemetry import Telemetry

MAX_TIMEOUT_SECONDS: Final = 5.0
EAGER_SECONDS: Final = 0.5
"""Pause between probes of a server that is down, so that it is used soon after it is ready."""


@dataclass(frozen=True, slots=True)
class Report:
    """Is what one probe saw; `tasks` is None where the server does not say."""

    is_good: bool
    detail: str
    tasks: frozenset[Task] | None = None
    is_silent: bool = False


def probe_client() -> httpx.AsyncClient:
    """Builds the client for probes: no proxies, no redirects, no kept connections."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(trust_env=False, follow_redirects=False, limits=limits)


async def probe(
    client: httpx.AsyncClient, url: str, timeout_seconds: float, *, with_tasks: bool
) -> Report:
    """Asks one server for `/health`, and for `/model_info` where its tasks matter."""
    try:
        health = await client.get(f"{url}/health", timeout=timeout_seconds)
        if health.status_code != 200:
            return Report(False, f"/health answers {health.status_code}")
        tasks = None
        if with_tasks:
            info = await client.get(f"{url}/model_info", timeout=timeout_seconds)
            tasks = _tasks(info) if info.status_code == 200 else None
        return Report(True, "healthy", tasks)
    except httpx.TimeoutException as error:
        is_silent = not isinstance(error, httpx.ConnectTimeout)
        return Report(False, "does not answer in time", is_silent=is_silent)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Report(False, f"cannot be reached: {type(error).__name__}")


def _tasks(info: httpx.Response) -> frozenset[Task] | None:
    """Reads our workers' `tasks`, else SGLang's `task_type` (T2I, I2I or TI2I)."""
    try:
        said: Any = info.json()
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    listed = said.get("tasks")
    if isinstance(listed, list):
        return frozenset(task for task in Task if task.value in listed)
    kinds = {"T2I": {Task.T2I}, "I2I": {Task.I2I}, "TI2I": {Task.T2I, Task.I2I}}
    found = kinds.get(str(said.get("task_type", "")).upper())
    return None if found is None else frozenset(found)


class Prober:
    """Is one endless loop per server."""

    def __init__(
        self, pools: Iterable[Pool], telemetry: Telemetry, changed: Callable[[Pool], None]
    ) -> None:
        self._pools = tuple(pools)
        self._telemetry = telemetry
        self._changed = changed
        self._client = probe_client()
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to probe."""
        for pool in self._pools:
            loops = [self._watch_worker(pool, worker) for worker in pool.workers]
            if pool.encoder is not None:
                loops.append(self._watch_encoder(pool, pool.encoder))
            self._loops += [asyncio.create_task(loop) for loop in loops]

    async def close(self) -> None:
        """Stops probing."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._client.aclose()

    async def _watch_worker(self, pool: Pool, worker: Worker) -> None:
        while True:
            report = await self._probe(worker.url, pool, with_tasks=True)
            busy = report.is_silent and worker.in_flight > 0
            sign = Sign.SILENT_AT_WORK if busy else _sign(report)
            if report.is_good and report.tasks is not None:
                worker.reported_tasks = report.tasks
            self._move(pool, worker.health, sign, worker.name, report.detail)
            await asyncio.sleep(self._pause(pool, worker.health))

    async def _watch_encoder(self, pool: Pool, health: HealthTrack) -> None:
        while True:
            report = await self._probe(str(pool.config.encoder_url), pool, with_tasks=False)
            self._move(pool, health, _sign(report), f"encoder of {pool.name}", report.detail)
            await asyncio.sleep(self._pause(pool, health))

    async def _probe(self, url: str, pool: Pool, *, with_tasks: bool) -> Report:
        timeout = min(pool.config.probe_seconds, MAX_TIMEOUT_SECONDS)
        try:
            return await probe(self._client, url.rstrip("/"), timeout, with_tasks=with_tasks)
        except Exception as error:  # noqa: BLE001 - a fault in one probe must not end the watch
            self._telemetry.fault("prober", error)
            return Report(False, type(error).__name__)

    def _move(self, pool: Pool, health: HealthTrack, sign: Sign, name: str, detail: str) -> None:
        if health.see(sign):
            self._telemetry.health_changed(pool.name, name, health.is_up, detail)
        self._changed(pool)

    def _pause(self, pool: Pool, health: HealthTrack) -> float:
        full = pool.config.probe_seconds
        return full if health.is_up else min(full, EAGER_SECONDS)


def _sign(report: Report) -> Sign:
    return Sign.GOOD_PROBE if report.is_good else Sign.BAD_PROBE
