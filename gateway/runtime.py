"""Owns everything that lives as long as the process: pools, lines, clients, probes, telemetry.

Opened and closed outside the web app, so that a drain can finish before anything is taken away.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gateway.routing.routes import RouteTable
from gateway.telemetry import Telemetry
from gateway.transport.admission import AdmissionQueue
from gateway.transport.artifacts import ArtifactStore, default_directory
from gateway.transport.dispatch import Dispatcher
from gateway.transport.fetch import Fetcher
from gateway.transport.pictures import PictureLoader
from gateway.transport.prober import Prober
from gateway.transport.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.config import Config
    from gateway.routing.pool import Pool


class Runtime:
    """Is the house without its doors; used as an asynchronous context manager."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.clock = time.monotonic
        self.telemetry = Telemetry(config.server)
        self.routes = RouteTable.build(config)
        self.queues = {pool.name: AdmissionQueue(pool, self.clock) for pool in self.routes.pools}
        self.is_draining = False
        self.fetcher = Fetcher(config.fetch.allow_hosts)
        section = config.artifacts
        self.artifacts = ArtifactStore(
            Path(section.directory) if section.directory else default_directory(),
            section.max_bytes,
            section.ttl_seconds,
            section.key.get_secret_value().encode() if section.key else None,
            faulted=lambda fault: self.telemetry.fault("artifacts", fault),
        )
        self.arriving: set[asyncio.Task[Any]] = set()
        """Tasks of requests that have not arrived as a whole yet."""
        self.requests_open = 0
        """Requests that have arrived as a whole and are not answered yet."""
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> Self:
        await self.artifacts.start()  # first: it may fail, and nothing else is open yet
        self.pictures = PictureLoader(self.config.limits)
        self._upstream = Upstream()
        self.dispatcher = Dispatcher(self._upstream, self.queues, self.telemetry, self.clock)
        self._prober = Prober(self.routes.pools, self.telemetry, self._wake)
        self._prober.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._prober.close()
        await self.dispatcher.close()
        await self._upstream.close()
        self.pictures.close()
        self.fetcher.close()
        await self.artifacts.close()

    def _wake(self, pool: Pool) -> None:
        self.queues[pool.name].wake()

    @contextmanager
    def arrival(self) -> Iterator[None]:
        """Covers a request until it has arrived and been understood; a drain may cut it off."""
        task = asyncio.current_task()
        assert task is not None
        self.arriving.add(task)
        try:
            yield
        finally:
            self.arriving.discard(task)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Covers a request from then on; a drain waits for it."""
        self.requests_open += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.requests_open -= 1
            if not self.requests_open:
                self._idle.set()

    async def drain(self, hurry: asyncio.Event) -> None:
        """Turns readiness off and admission away, then lets running work end.

        What has not ended within `drain_seconds`, or when `hurry` is set, is cut: those still
        arriving, those in line and those at work are answered with an error.
        """
        self.is_draining = True
        for queue in self.queues.values():
            queue.close()
        ends = [asyncio.create_task(event.wait()) for event in (self._idle, hurry)]
        seconds = self.config.server.drain_seconds
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (*ends, *self.arriving):
            task.cancel()
        for queue in self.queues.values():
            queue.dismiss()
        await self.dispatcher.close()

    def readiness(self) -> dict[str, Any]:
        """Tells per pool whether it can serve all its tasks, and if not, what is missing."""
        pools = {}
        for pool in self.routes.pools:
            reasons = (pool.missing(task) for task in pool.tasks)
            missing = next((reason for reason in reasons if reason is not None), None)
            if self.is_draining:
                missing = "this gateway is stopping"
            pools[pool.name] = {
                "ready": missing is None,
                "workers": len(pool.workers),
                "available": sum(
                    any(worker.is_available(task) for task in pool.tasks) for worker in pool.workers
                ),
                "missing": missing,
            }
        return {"ready": any(pool["ready"] for pool in pools.values()), "pools": pools}
