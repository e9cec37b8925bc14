"""Decides which of the free workers gets a picture; each balance is one function."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.routing.pool import Pool
    from gateway.routing.ticket import Ticket
    from gateway.routing.worker import Worker


def least_expected_work(free: Sequence[Worker], ticket: Ticket, pool: Pool, now: float) -> Worker:
    """Takes the worker that would be done first, by what it has in hand and by its pace.

    One that has just returned counts as up to twice as slow.
    """
    return min(free, key=lambda worker: expected_work(worker, ticket, now))


def expected_work(worker: Worker, ticket: Ticket, now: float) -> float:
    """Predicts the seconds until a worker would be done with what it has and a ticket."""
    own = ticket.predicted * worker.pace * (2.0 - worker.warmth(now))
    left = sum(lease.remaining(now) for lease in worker.leases)
    return own + max(left, worker.others_seconds)


def least_in_flight(free: Sequence[Worker], ticket: Ticket, pool: Pool, now: float) -> Worker:
    """Takes the worker with the smallest share of its slots taken."""
    return min(free, key=lambda worker: worker.in_flight / worker.capacity)


def round_robin(free: Sequence[Worker], ticket: Ticket, pool: Pool, now: float) -> Worker:
    """Takes the next one in the pool's order after the last."""
    order = pool.workers[pool.turn :] + pool.workers[: pool.turn]
    chosen = next(worker for worker in order if worker in free)
    pool.turn = (pool.workers.index(chosen) + 1) % len(pool.workers)
    return chosen


BALANCES: Final[Mapping[str, Callable[[Sequence[Worker], Ticket, Pool, float], Worker]]] = (
    MappingProxyType(
        {
            "least_expected_work": least_expected_work,
            "least_in_flight": least_in_flight,
            "round_robin": round_robin,
        }
    )
)
