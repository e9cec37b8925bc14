"""A pool of like workers, and the lease: the only way to load a worker.

A lease is taken here and ended exactly once, by a synchronous call, when the worker has
really stopped; so the count of leases is the count of requests in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.routing.balance import BALANCES
from gateway.routing.breaker import Breaker
from gateway.routing.budget import RetryBudget
from gateway.routing.conclusions import conclude, look_for_slow
from gateway.routing.cost_model import CostModel
from gateway.routing.health import HealthTrack
from gateway.routing.outcome import Attempt, Cause
from gateway.routing.poison import Poison
from gateway.routing.request import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from gateway.config import PoolConfig
    from gateway.routing.ticket import Ticket
    from gateway.routing.worker import Worker

    OnEnd = Callable[[Attempt], None]
    OnTrip = Callable[[str, str, str], None]

FAILURES_IN_A_ROW: Final = 5
"""Failed answers over all workers, none between them good, after which a pool is rested."""
RETRY_AFTER_SECONDS: Final = 5.0
"""When to come back where nothing better is known: most outages are found over by then."""


class Lease:
    """Is one taken slot on one worker."""

    __slots__ = ("attempt", "is_slow", "pool", "ticket", "worker")

    def __init__(self, pool: Pool, worker: Worker, ticket: Ticket, now: float) -> None:
        self.pool = pool
        self.worker = worker
        self.ticket = ticket
        self.attempt = Attempt(ticket.number, worker.name, pool.name, now)
        self.is_slow = False
        """Whether it was noticed to take far too long."""
        worker.leases.append(self)

    def __repr__(self) -> str:
        ended = self.attempt.cause.value if self.attempt.cause else "held"
        return f"<Lease {self.worker.name} #{self.attempt.number} {ended}>"

    @property
    def is_ended(self) -> bool:
        """Tells whether the slot was given back."""
        return self.attempt.cause is not None

    def remaining(self, now: float) -> float:
        """Predicts the seconds until it ends; one that is overdue may take that long again."""
        expected = self.ticket.predicted * self.worker.pace
        elapsed = now - self.attempt.started
        return max(abs(expected - elapsed), 0.1 * expected)

    def end(self, cause: Cause, now: float) -> None:
        """Gives the slot back; a second call does nothing."""
        if self.is_ended:
            return
        self.attempt.cause = cause
        self.attempt.ended = now
        self.worker.leases.remove(self)
        self.pool.ended(self, now)


class Pool:
    """Is a named set of workers that serve the same tasks from the same waiting line."""

    def __init__(self, name: str, config: PoolConfig, workers: Iterable[Worker] = ()) -> None:
        self.name = name
        self.workers = list(workers)
        self.leaving: list[Worker] = []
        """Removed workers that still hold a lease; they get nothing new."""
        self.config = config
        self.tasks = tuple(Task(task) for task in config.tasks)
        self.encoder = HealthTrack() if config.encoder_url else None
        self.costs = {task: CostModel() for task in Task}
        self.circuit = Breaker(FAILURES_IN_A_ROW)
        """Opens where all workers fail alike, so that what they share must be at fault."""
        self.poison = Poison()
        self.budget = RetryBudget()
        self.turn = 0
        """Where `round_robin` goes on."""
        self.on_end: list[OnEnd] = []
        self.on_trip: list[OnTrip] = []
        """Told the pool's name, the worker's (empty: the whole pool), and the reason."""

    def __repr__(self) -> str:
        in_flight = sum(worker.in_flight for worker in self.workers)
        slots = sum(worker.capacity for worker in self.workers)
        up = sum(worker.is_in_service for worker in self.workers)
        leaving = f" | leaving {len(self.leaving)}" if self.leaving else ""
        return f"<Pool {self.name} [in flight {in_flight}/{slots} | workers {up} up{leaving}]>"

    def configure(self, config: PoolConfig) -> None:
        """Takes in a configuration; an encoder at the same address keeps its health."""
        if config.encoder_url != self.config.encoder_url:
            self.encoder = HealthTrack() if config.encoder_url else None
        self.config = config
        self.tasks = tuple(Task(task) for task in config.tasks)

    def replace(self, workers: Sequence[Worker]) -> None:
        """Puts others in the place of its workers; those that are in both stay as they are."""
        for worker in self.workers:
            if worker not in workers and self._has_work_of_ours(worker):
                self.leaving.append(worker)
        self.leaving = [worker for worker in self.leaving if worker not in workers]
        self.workers = list(workers)
        self.turn = 0

    @property
    def has_work(self) -> bool:
        """Tells whether anything runs for it."""
        return any(map(self._has_work_of_ours, self.workers))

    def _has_work_of_ours(self, worker: Worker) -> bool:
        return any(lease.pool is self for lease in worker.leases)

    def look(self, now: float) -> None:
        """Lets time pass: rests end, and who is far too slow with what he has is seen."""
        for breaker in (self.circuit, *(worker.breaker for worker in self.workers)):
            breaker.look(now)
        look_for_slow(self, now)

    def missing(self, task: Task, without: Iterable[Worker] = ()) -> str | None:
        """Says why no worker can serve the task, even after a wait; None when one can."""
        left_out = set(without)
        if task not in self.tasks:
            return f"pool '{self.name}' does not serve {task.value}"
        if not self.workers:
            return f"pool '{self.name}' has no workers"
        if self.encoder is not None and not self.encoder.is_up:
            return f"the encoder of pool '{self.name}' does not answer"
        if self.circuit.is_open:
            return f"the last requests to pool '{self.name}' all failed, and it is rested"
        rest = [worker for worker in self.workers if worker not in left_out]
        other = "other " if len(rest) < len(self.workers) else ""
        if not rest:
            return f"every worker of pool '{self.name}' was asked and refused"
        if not any(worker.health.is_up for worker in rest):
            return f"no {other}worker of pool '{self.name}' is up"
        if not any(worker.is_in_service for worker in rest):
            return f"no {other}worker of pool '{self.name}' is in service"
        if not any(worker.is_fit(task) for worker in rest):
            return f"no {other}worker of pool '{self.name}' that is up can do {task.value}"
        return None

    def lacks(self, worker: Worker) -> list[Task]:
        """Lists the pool's tasks that a worker cannot do."""
        return [task for task in self.tasks if not worker.capability.can(task)]

    def waits_for(self) -> str | None:
        """Says what nothing new can begin without, though it is expected back; None else."""
        if self.encoder is not None and self.encoder.is_silent:
            return f"the encoder of pool '{self.name}' is too busy to answer its probe"
        serving = [worker for worker in self.workers if worker.is_in_service]
        if serving and all(worker.health.is_silent for worker in serving):
            return f"every worker of pool '{self.name}' is too busy to answer its probe"
        return None

    def retry_after(self, now: float) -> float:
        """Tells the seconds after which what is missing may be there again."""
        if self.circuit.is_open:
            return self.circuit.until - now
        resting = (worker.breaker for worker in self.workers if worker.breaker.is_open)
        return min((breaker.until - now for breaker in resting), default=RETRY_AFTER_SECONDS)

    def predict(self, ticket: Ticket) -> float:
        """Predicts the seconds that a ticket needs at a worker of usual pace."""
        return self.costs[ticket.task].seconds(ticket.cost)

    def least(self, ticket: Ticket) -> float:
        """Returns the seconds below which nothing like it was ever done; 0 while unknown."""
        return self.costs[ticket.task].least_seconds(ticket.cost)

    def free(self, ticket: Ticket, now: float, *, own_waits: bool = False) -> list[Worker]:
        """Lists the workers that could take a ticket, or another of its kind, now.

        `own_waits` tells whether work of the pool's own waits, not only spilled work.
        """
        if self.missing(ticket.task, ticket.without) is not None:
            return []
        if self.encoder is not None and self.encoder.is_silent:
            return []
        if self.circuit.is_on_trial and self._is_tried():
            return []
        kept = self._kept(own_waits, now) if ticket.is_spill else ()
        return [
            worker
            for worker in self.workers
            if worker.is_available(ticket.task, now)
            and worker not in ticket.without
            and worker not in kept
        ]

    def _is_tried(self) -> bool:
        """Tells whether the trial of the whole pool is running."""
        leases = (lease for worker in self.workers for lease in worker.leases)
        return any(self.circuit.is_trial(lease.attempt.started) for lease in leases)

    def _kept(self, own_waits: bool, now: float) -> Collection[Worker]:
        """Lists the workers that no spilled work may have now: one slot is left for the own.

        Where the own has one slot in all nothing could ever spill, so there the own goes first.
        """
        fit = [worker for worker in self.workers if worker.is_fit(self.tasks[0])]
        slots = sum(worker.slots(now) for worker in fit if not worker.health.is_silent)
        spilled = sum(lease.ticket.is_spill for worker in fit for lease in worker.leases)
        has_room = spilled + 1 < slots if slots > 1 else not own_waits
        return () if has_room else fit

    def choose(self, ticket: Ticket, free: Sequence[Worker], now: float) -> Worker:
        """Returns the worker that the pool's balance takes among the free.

        Those who can do less of what the pool serves go first, so that the others stay free for it.
        """
        lacks = {worker: len(self.lacks(worker)) for worker in free}
        free = [worker for worker in free if lacks[worker] == max(lacks.values())]
        return BALANCES[self.config.balance](free, ticket, self, now)

    def take(self, ticket: Ticket, worker: Worker, now: float) -> Lease:
        """Takes a slot on a worker."""
        if ticket.number == 1:
            self.budget.began(now)
        self.poison.began(ticket.digest)
        return Lease(self, worker, ticket, now)

    def tripped(self, worker: str, reason: str) -> None:
        """Tells the hooks that a worker, or the whole pool, is rested."""
        for hook in self.on_trip:
            hook(self.name, worker, reason)

    def ended(self, lease: Lease, now: float) -> None:
        """Draws the conclusions from an ended lease, then tells the hooks."""
        self.poison.ended(lease.ticket.digest)
        conclude(self, lease, now)
        if lease.worker in self.leaving and not self._has_work_of_ours(lease.worker):
            self.leaving.remove(lease.worker)
        for hook in self.on_end:
            hook(lease.attempt)
