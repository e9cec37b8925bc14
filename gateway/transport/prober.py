"""Watches every worker, and every pool's encoder, and tells `routing.health` what is seen."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.routing.health import Health, HealthTrack, Sign
from gateway.transport.probe import Report, probe, probe_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.routing.pool import Pool
    from gateway.routing.worker import Worker
    from gateway.telemetry import Telemetry

TIMEOUT_SECONDS: Final = (1.0, 5.0)
"""A probe takes at least, and at most, so long before it counts as silent."""
SILENT_IN_A_ROW: Final = 3
"""Silent probes after which an encoder is gone, however much its pool has to do."""
EAGER_SECONDS: Final = 0.5
"""Pause between probes of a server that is not quite well, so that it is soon known how it is."""


class Prober:
    """Is one endless loop per server; `clock` gives monotonic seconds."""

    def __init__(
        self, telemetry: Telemetry, changed: Callable[[Pool], None], clock: Callable[[], float]
    ) -> None:
        self._telemetry = telemetry
        self._changed = changed
        self._clock = clock
        self._client = probe_client()
        self._loops: dict[tuple[Pool, Worker | HealthTrack], asyncio.Task[None]] = {}

    def follow(self, pools: Iterable[Pool]) -> None:
        """Watches the servers of these pools from now on, and no others."""
        wanted: set[tuple[Pool, Worker | HealthTrack]] = set()
        for pool in pools:
            wanted |= {(pool, worker) for worker in pool.workers}
            if pool.encoder is not None:
                wanted.add((pool, pool.encoder))
        for gone in self._loops.keys() - wanted:
            self._loops.pop(gone).cancel()
        for pool, server in wanted - self._loops.keys():
            if isinstance(server, HealthTrack):
                loop = self._watch_encoder(pool, server)
            else:
                loop = self._watch_worker(pool, server)
            self._loops[pool, server] = asyncio.create_task(loop)

    async def close(self) -> None:
        """Stops probing."""
        for loop in self._loops.values():
            loop.cancel()
        await asyncio.gather(*self._loops.values(), return_exceptions=True)
        await self._client.aclose()

    async def _watch_worker(self, pool: Pool, worker: Worker) -> None:
        is_first = True
        while True:
            with self._guarded():
                report = await self._probe(worker.url, pool, with_tasks=True)
                sign = _sign(report, at_work=worker.in_flight > 0)
                before = _seen(worker.health)
                worker.see(sign, self._clock())
                take_in(worker, report)
                is_news = is_first or _seen(worker.health) != before
                is_first = False
                self._tell(pool, is_news, worker.name, worker.health, report.detail)
            await asyncio.sleep(_pause(pool, worker.health))

    async def _watch_encoder(self, pool: Pool, health: HealthTrack) -> None:
        is_first, silent = True, 0
        while True:
            with self._guarded():
                report = await self._probe(str(pool.config.encoder_url), pool, with_tasks=False)
                silent = silent + 1 if report.is_silent else 0
                at_work = any(worker.in_flight for worker in pool.workers)
                sign = _sign(report, at_work=at_work and silent < SILENT_IN_A_ROW)
                before = _seen(health)
                health.see(sign)
                is_news = is_first or _seen(health) != before
                is_first = False
                self._tell(pool, is_news, f"encoder of {pool.name}", health, report.detail)
            await asyncio.sleep(_pause(pool, health))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Logs a fault of ours in one round; it must not end the watch."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a server that nobody watches is lost for good
            self._telemetry.fault("prober", error)

    async def _probe(self, url: str, pool: Pool, *, with_tasks: bool) -> Report:
        shortest, longest = TIMEOUT_SECONDS
        timeout = max(shortest, min(pool.config.probe_seconds, longest))
        return await probe(self._client, url.rstrip("/"), timeout, with_tasks=with_tasks)

    def _tell(self, pool: Pool, is_news: bool, name: str, health: HealthTrack, detail: str) -> None:
        if is_news:
            self._telemetry.health_changed(pool.name, name, health.state, detail)
        self._changed(pool)


def take_in(worker: Worker, report: Report) -> None:
    """Tells a worker what its server says of itself."""
    worker.detail = report.detail
    if not report.is_good:
        return
    worker.capability.report(
        report.tasks, is_declared=report.is_declared, is_external=report.is_external
    )
    if report.tasks is not None:
        worker.said_to_stop = report.stops_on_disconnect
        worker.streams_progress = report.streams_progress
    if (load := report.load) is not None:
        in_hand = load.in_flight + load.waiting
        worker.report_load(in_hand, load.capacity, load.predicted_seconds or 0.0)


def _seen(health: HealthTrack) -> tuple[bool, bool]:
    """Returns what is told of a server's health; a single bad probe is not."""
    return health.is_up, health.is_silent


def _sign(report: Report, *, at_work: bool) -> Sign:
    if report.is_silent and at_work:
        return Sign.SILENT_AT_WORK
    return Sign.GOOD_PROBE if report.is_good else Sign.BAD_PROBE


def _pause(pool: Pool, health: HealthTrack) -> float:
    full = pool.config.probe_seconds
    return full if health.state is Health.UP else min(full, EAGER_SECONDS)
