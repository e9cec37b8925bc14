"""The metrics of one runtime: every name once, and the gauges that are read when asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.routing.line import Line
    from gateway.routing.pool import Pool

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)


class Metrics:
    """Is the registry and what is counted in it."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=registry)
        self.requests = counter(
            "turnout_requests",
            "Finished requests.",
            (
                "route",
                "task",
                "pool",
                "status",
            ),
        )
        self.request_seconds = histogram(
            "turnout_request_seconds",
            "Time from arrival to answer.",
            (
                "route",
                "task",
            ),
        )
        self.queue_seconds = histogram(
            "turnout_queue_seconds", "Time in the waiting line.", ("pool",)
        )
        self.attempts = counter(
            "turnout_attempts",
            "Ended attempts, by what was seen.",
            (
                "pool",
                "worker",
                "outcome",
                "cause",
            ),
        )
        self.shed = counter(
            "turnout_shed",
            "Requests refused at the line.",
            (
                "pool",
                "code",
            ),
        )
        self.slo = counter(
            "turnout_slo",
            "Answers, by whether they met their due time.",
            (
                "pool",
                "met",
            ),
        )
        self.rests = counter(
            "turnout_rests",
            "Times a worker, or a whole pool, was rested.",
            (
                "pool",
                "worker",
                "reason",
            ),
        )
        self.resends_denied = counter(
            "turnout_resends_denied", "Requests not sent again, for want of budget.", ("pool",)
        )
        self._depth = gauge("turnout_queue_depth", "Requests that wait.", ("pool",))
        self._wait = gauge(
            "turnout_expected_wait_seconds", "What one more would have to wait.", ("pool",)
        )
        self._in_flight = gauge(
            "turnout_in_flight",
            "Slots taken.",
            (
                "pool",
                "worker",
            ),
        )
        self._up = gauge(
            "turnout_worker_up",
            "1 while it is given work.",
            (
                "pool",
                "worker",
            ),
        )
        self._resting = gauge(
            "turnout_worker_resting",
            "1 while it is rested.",
            (
                "pool",
                "worker",
            ),
        )
        self._pool_resting = gauge(
            "turnout_pool_resting", "1 while the whole pool is rested.", ("pool",)
        )
        self._pace = gauge(
            "turnout_worker_pace",
            "What it takes for a second of usual work.",
            (
                "pool",
                "worker",
            ),
        )
        self._unable = gauge(
            "turnout_worker_text_only",
            "1 for a worker that says or showed that it cannot do a task of its pool.",
            (
                "pool",
                "worker",
            ),
        )

    def scrape(self, lines: Iterable[Line], now: float) -> bytes:
        """Returns the metrics in Prometheus' text form."""
        of_pools = (self._depth, self._wait, self._pool_resting)
        for gauge in (
            *of_pools,
            self._in_flight,
            self._up,
            self._resting,
            self._pace,
            self._unable,
        ):
            gauge.clear()  # a worker or a pool that has left leaves no series behind
        for line in lines:
            pool = line.pool
            pool.look(now)
            self._depth.labels(pool.name).set(len(line.tickets))
            self._wait.labels(pool.name).set(line.drain_seconds(now))
            self._pool_resting.labels(pool.name).set(pool.circuit.is_open)
            self._scrape_workers(pool)
        return generate_latest(self.registry)

    def _scrape_workers(self, pool: Pool) -> None:
        for worker in pool.workers:
            labels = (pool.name, worker.name)
            self._in_flight.labels(*labels).set(worker.in_flight)
            self._up.labels(*labels).set(worker.is_in_service and not worker.health.is_silent)
            self._resting.labels(*labels).set(worker.breaker.is_open)
            self._pace.labels(*labels).set(worker.pace)
            self._unable.labels(*labels).set(bool(pool.lacks(worker)))
