"""Asks every worker, and every pool's encoder, for its health, and tells `routing.health`.

Also reads what a worker says it can do, so that a picture never goes to one that says it cannot.
"""

from __future__ import annotations

import asyncio
import json
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

TIMEOUT_SECONDS: Final = (1.0, 5.0)
"""A probe takes at least, and at most, so long before it counts as silent."""
MAX_BYTES: Final = 65_536
EAGER_SECONDS: Final = 0.5
"""Pause between probes of a server that is down, so that it is used soon after it is ready."""


@dataclass(frozen=True, slots=True)
class Report:
    """Is what one probe saw; `tasks` and `max_side` are None where the server does not say."""

    is_good: bool
    detail: str
    tasks: frozenset[Task] | None = None
    max_side: int | None = None
    is_silent: bool = False


def probe_client() -> httpx.AsyncClient:
    """Builds the client for probes: no proxies, no redirects, no kept connections."""
    limits = httpx.Limits(max_keepalive_connections=0)
    # No timeout of its own: one clock around a whole probe counts, however its bytes drip in.
    return httpx.AsyncClient(trust_env=False, limits=limits, timeout=None)


async def probe(
    client: httpx.AsyncClient, url: str, timeout_seconds: float, *, with_tasks: bool
) -> Report:
    """Asks one server for `/health`, and for `/model_info` where its tasks matter."""
    try:
        async with asyncio.timeout(timeout_seconds):
            status, _ = await _get(client, f"{url}/health")
            if status != 200:
                return Report(False, f"/health answers {status}")
            said: dict[str, Any] = {}
            if with_tasks:
                status, body = await _get(client, f"{url}/model_info")
                said = _object(body) if status == 200 else {}
            return Report(True, "healthy", _tasks(said), _max_side(said))
    except TimeoutError:
        return Report(False, "does not answer in time", is_silent=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        refused = isinstance(error, httpx.ConnectError)
        detail = "refuses the connection" if refused else f"fails: {type(error).__name__}"
        return Report(False, detail)


async def _get(client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    """Returns status and body, the body cut at a size that no honest answer reaches."""
    async with client.stream("GET", url) as response:
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                break
        return response.status_code, body[:MAX_BYTES]


def _object(body: bytes) -> dict[str, Any]:
    """Reads a JSON object; anything else says nothing."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _tasks(said: dict[str, Any]) -> frozenset[Task] | None:
    """Reads our workers' `tasks`, else SGLang's `task_type` (T2I, I2I or TI2I)."""
    listed = said.get("tasks")
    if isinstance(listed, list):
        return frozenset(task for task in Task if task.value in listed)
    kinds = {"T2I": {Task.T2I}, "I2I": {Task.I2I}, "TI2I": {Task.T2I, Task.I2I}}
    found = kinds.get(str(said.get("task_type", "")).upper())
    return None if found is None else frozenset(found)


def _max_side(said: dict[str, Any]) -> int | None:
    """Reads the largest side that one of our workers paints, in pixels."""
    limits = said.get("image_limits")
    side = limits.get("max_side") if isinstance(limits, dict) else None
    return side if isinstance(side, int) else None


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
        is_first = True
        while True:
            report = await self._probe(worker.url, pool, with_tasks=True)
            busy = report.is_silent and worker.in_flight > 0
            sign = Sign.SILENT_AT_WORK if busy else _sign(report)
            if report.is_good:
                worker.report(report.tasks)
            is_news = worker.see(sign) or is_first
            is_first = False
            self._tell(pool, is_news, worker.name, worker.health, report.detail)
            await asyncio.sleep(self._pause(pool, worker.health))

    async def _watch_encoder(self, pool: Pool, health: HealthTrack) -> None:
        is_first = True
        while True:
            report = await self._probe(str(pool.config.encoder_url), pool, with_tasks=False)
            busy = report.is_silent and any(worker.in_flight for worker in pool.workers)
            sign = Sign.SILENT_AT_WORK if busy else _sign(report)
            is_news = health.see(sign) or is_first
            is_first = False
            self._tell(pool, is_news, f"encoder of {pool.name}", health, report.detail)
            await asyncio.sleep(self._pause(pool, health))

    async def _probe(self, url: str, pool: Pool, *, with_tasks: bool) -> Report:
        shortest, longest = TIMEOUT_SECONDS
        timeout = max(shortest, min(pool.config.probe_seconds, longest))
        try:
            return await probe(self._client, url.rstrip("/"), timeout, with_tasks=with_tasks)
        except Exception as error:  # noqa: BLE001 - a fault in one probe must not end the watch
            self._telemetry.fault("prober", error)
            return Report(False, type(error).__name__)

    def _tell(self, pool: Pool, is_news: bool, name: str, health: HealthTrack, detail: str) -> None:
        if is_news:
            self._telemetry.health_changed(pool.name, name, health.is_up, detail)
        self._changed(pool)

    def _pause(self, pool: Pool, health: HealthTrack) -> float:
        full = pool.config.probe_seconds
        return full if health.is_up else min(full, EAGER_SECONDS)


def _sign(report: Report) -> Sign:
    return Sign.GOOD_PROBE if report.is_good else Sign.BAD_PROBE
