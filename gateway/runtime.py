"""Owns everything that lives as long as the process: pools, lines, clients, probes, telemetry.

Opened and closed outside the web app, so that a drain can finish before anything is taken away.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from gateway.config import WorkerConfig
from gateway.errors import InvalidRequest
from gateway.routing.addresses import HostRule
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
    from collections.abc import Callable, Iterator

    from gateway.config import Config
    from gateway.routing.outcome import Attempt
    from gateway.routing.pool import Pool
    from gateway.routing.worker import Worker


LIVE_SERVER_KEYS = ("drain_delay_seconds", "drain_seconds", "public_url")
"""Keys of `server` that can change while it runs; the others need a restart."""


class Runtime:
    """Is the house without its doors; used as an asynchronous context manager.

    `source` reads the configuration again, `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        config: Config,
        source: Callable[[], Config] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self._source = source
        self.clock = clock
        self.telemetry = Telemetry(config.server)
        self.routes = RouteTable.build(config)
        self.is_draining = False
        self._queues: dict[Pool, AdmissionQueue] = {}
        for pool in self.routes.pools:
            self._open_line(pool)
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
        self.dispatcher = Dispatcher(self._upstream, self._queues, self.telemetry, self.clock)
        self._prober = Prober(self.telemetry, self._look, self.clock)
        self._prober.follow(self._queues)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._prober.close()
        await self.dispatcher.close()
        await self._upstream.close()
        self.pictures.close()
        self.fetcher.close()
        await self.artifacts.close()

    @property
    def queues(self) -> dict[str, AdmissionQueue]:
        """Lists the lines of the pools that are in the route table, by name."""
        return {pool.name: self._queues[pool] for pool in self.routes.pools}

    def _open_line(self, pool: Pool) -> None:
        self._queues[pool] = AdmissionQueue(pool, self.clock)
        if self.is_draining:
            self._queues[pool].close()
        pool.on_trip.append(self.telemetry.rested)
        pool.on_end.append(self._wake_others)

    def _wake_others(self, attempt: Attempt) -> None:
        """Looks at the other lines too: a worker that was moved has a slot free for its new one."""
        for queue in tuple(self._queues.values()):
            if queue.waiting and queue.pool.name != attempt.pool:
                queue.wake()

    def _look(self, pool: Pool) -> None:
        """Looks at a line after a probe; a pool that has left the table is dropped when idle."""
        queue = self._queues.get(pool)
        if queue is None:
            return
        queue.wake()
        if pool not in self.routes.pools and not queue.waiting and not pool.has_work:
            pool.replace(())  # whoever still knows it is told that nobody serves there
            del self._queues[pool]
            self._prober.follow(self._queues)

    def reload(self) -> list[str]:
        """Takes in the configuration as it is now; returns the keys that need a restart.

        What is wrong with it changes nothing. Raises InvalidRequest.
        """
        if self._source is None:
            raise InvalidRequest("this gateway was started without a configuration file")
        before, config = self.config, self._source()
        server = before.server.model_copy(
            update={key: getattr(config.server, key) for key in LIVE_SERVER_KEYS}
        )
        fixed = {"server": server, "artifacts": before.artifacts}
        self.config = config.model_copy(update=fixed)
        self.routes = self.routes.evolve(self.config)
        for pool in self.routes.pools:
            if pool not in self._queues:
                self._open_line(pool)
        self.pictures.limits = self.config.limits
        self.fetcher.rule = HostRule(self.config.fetch.allow_hosts)
        self.changed()
        asked = {f"server.{key}" for key, value in config.server if getattr(server, key) != value}
        asked |= {"artifacts"} if config.artifacts != before.artifacts else set()
        self.telemetry.reloaded(sorted(asked))
        return sorted(asked)

    def add_worker(self, pool: str, section: bytes) -> Worker:
        """Takes a worker into a pool by the JSON of its section.

        Raises NotFound for the pool, InvalidRequest for the section.
        """
        try:
            config = WorkerConfig.model_validate_json(section)
        except ValidationError as error:
            fault = error.errors()[0]
            field = ".".join(map(str, fault["loc"]))
            text = f"{field or 'the body'}: {fault['msg'].lower()}"
            raise InvalidRequest(text, param=field or None) from error
        return self.routes.add_worker(pool, config)

    def changed(self) -> None:
        """Looks at everything again after workers came or went."""
        self._prober.follow(self._queues)
        for pool in tuple(self._queues):
            self._look(pool)

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
        """Turns readiness off, after a delay admission too, then lets running work end.

        What has not ended within `drain_seconds`, or when `hurry` is set, is cut: those still
        arriving, those in line and those at work are answered with an error.
        """
        self.is_draining = True
        server = self.config.server
        with suppress(TimeoutError):
            async with asyncio.timeout(server.drain_delay_seconds):
                await hurry.wait()
        for queue in self._queues.values():
            queue.close()
        ends = [asyncio.create_task(event.wait()) for event in (self._idle, hurry)]
        seconds = server.drain_seconds
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (*ends, *self.arriving):
            task.cancel()
        for queue in self._queues.values():
            queue.dismiss()
        await self.dispatcher.close()

    def readiness(self) -> dict[str, Any]:
        """Tells per pool whether it can serve a task of its, and what is missing for the others."""
        pools = {}
        now = self.clock()
        for pool in self.routes.pools:
            pool.look(now)
            reasons = [pool.missing(task) for task in pool.tasks]
            missing = next((reason for reason in reasons if reason is not None), None)
            is_ready = None in reasons and not self.is_draining
            missing = missing or pool.waits_for()
            if self.is_draining:
                missing = "this gateway is stopping"
            pools[pool.name] = {
                "ready": is_ready,
                "workers": len(pool.workers),
                "available": sum(
                    any(worker.is_available(task, now) for task in pool.tasks)
                    for worker in pool.workers
                ),
                "missing": missing,
            }
        return {"ready": any(pool["ready"] for pool in pools.values()), "pools": pools}
