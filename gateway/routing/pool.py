"""A pool of like workers, and the lease: the only way to load a worker.

A lease is taken here and ended exactly once, by a synchronous call, when the worker has
really stopped; so the count of leases is the count of requests in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.routing.health import HealthTrack, Sign
from gateway.routing.outcome import MEANINGS, Attempt, Cause
from gateway.routing.request import Task

if TYPE_CHECKING:
    from gateway.config import PoolConfig
    from gateway.routing.worker import Worker

OnEnd = Callable[[Attempt], None]


class Lease:
    """Is one taken slot on one worker."""

    __slots__ = ("attempt", "pool", "worker")

    def __init__(self, pool: Pool, worker: Worker, attempt: Attempt) -> None:
        self.pool = pool
        self.worker = worker
        self.attempt = attempt
        worker.in_flight += 1

    def __repr__(self) -> str:
        ended = self.attempt.cause.value if self.attempt.cause else "held"
        return f"<Lease {self.worker.name} #{self.attempt.number} {ended}>"

    @property
    def is_ended(self) -> bool:
        """Tells whether the slot was given back."""
        return self.attempt.cause is not None

    def end(self, cause: Cause, now: float) -> None:
        """Gives the slot back; a second call does nothing."""
        if self.is_ended:
            return
        self.attempt.cause = cause
        self.attempt.ended = now
        self.worker.in_flight -= 1
        self.pool.ended(self)


class Pool:
    """Is a named set of workers that serve the same tasks from the same waiting line."""

    def __init__(self, name: str, config: PoolConfig, workers: Iterable[Worker] = ()) -> None:
        self.name = name
        self.config = config
        self.tasks = tuple(Task(task) for task in config.tasks)
        self.workers = list(workers)
        self.leaving: list[Worker] = []
        """Removed workers that still hold a lease; they get nothing new."""
        self.encoder = HealthTrack() if config.encoder_url else None
        self.on_end: list[OnEnd] = []

    def __repr__(self) -> str:
        in_flight = sum(worker.in_flight for worker in self.workers)
        slots = sum(worker.capacity for worker in self.workers)
        up = sum(worker.health.is_up for worker in self.workers)
        leaving = f" | leaving {len(self.leaving)}" if self.leaving else ""
        return f"<Pool {self.name} [in flight {in_flight}/{slots} | workers {up} up{leaving}]>"

    def add(self, worker: Worker) -> None:
        """Takes a worker in."""
        self.workers.append(worker)
        if worker in self.leaving:
            self.leaving.remove(worker)

    def remove(self, worker: Worker) -> None:
        """Lets a worker go: no new work, and forgotten when its last lease ends."""
        self.workers.remove(worker)
        if worker.in_flight:
            self.leaving.append(worker)

    def missing(self, task: Task, without: Iterable[Worker] = ()) -> str | None:
        """Says why no worker can serve the task, even after a wait; None when one can."""
        left_out = set(without)
        if task not in self.tasks:
            return f"pool '{self.name}' does not serve {task.value}"
        if not self.workers:
            return f"pool '{self.name}' has no workers"
        if self.encoder is not None and not self.encoder.is_up:
            return f"the encoder of pool '{self.name}' does not answer"
        rest = [worker for worker in self.workers if worker not in left_out]
        other = "other " if len(rest) < len(self.workers) else ""
        if not rest:
            return f"every worker of pool '{self.name}' was asked and refused"
        if not any(worker.health.is_up for worker in rest):
            return f"no {other}worker of pool '{self.name}' is up"
        if not any(worker.is_fit(task) for worker in rest):
            return f"no {other}worker of pool '{self.name}' that is up can do {task.value}"
        return None

    def take(
        self, task: Task, number: int, now: float, without: Iterable[Worker] = ()
    ) -> Lease | None:
        """Takes a slot on the least loaded available worker, None when there is none."""
        left_out = set(without)
        if self.missing(task, left_out) is not None:
            return None
        free = [w for w in self.workers if w.is_available(task) and w not in left_out]
        if not free:
            return None
        worker = min(free, key=lambda worker: worker.in_flight / worker.capacity)
        return Lease(self, worker, Attempt(number, worker.name, self.name, now))

    def ended(self, lease: Lease) -> None:
        """Draws the conclusions from an ended lease, then tells the hooks."""
        attempt, worker = lease.attempt, lease.worker
        assert attempt.cause is not None
        if attempt.cause is Cause.TEXT_ONLY:
            worker.is_blind = True
        if MEANINGS[attempt.cause].is_ill:
            worker.see(Sign.LOST_ATTEMPT)
        if worker in self.leaving and not worker.in_flight:
            self.leaving.remove(worker)
        for hook in self.on_end:
            hook(attempt)
