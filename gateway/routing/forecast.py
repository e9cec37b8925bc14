"""Predicts how a line will move: who begins when, by predicted seconds on the pool's slots."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gateway.routing.pool import Pool
    from gateway.routing.ticket import Ticket


def waits(pool: Pool, ranked: Sequence[Ticket], now: float) -> dict[Ticket, float]:
    """Predicts the seconds until each begins; empty where no worker is in service."""
    slots = _slots(pool, now)
    begins: dict[Ticket, float] = {}
    for ticket in ranked if slots else ():
        begins[ticket] = slots[0]
        heapq.heapreplace(slots, slots[0] + ticket.predicted)
    return begins


def drained(pool: Pool, ranked: Iterable[Ticket], now: float) -> float:
    """Predicts the seconds until a slot is free with nobody waiting; 0 without any slot."""
    slots = _slots(pool, now)
    for ticket in ranked if slots else ():
        heapq.heapreplace(slots, slots[0] + ticket.predicted)
    return slots[0] if slots else 0.0


def can_be_met(pool: Pool, ticket: Ticket, now: float) -> bool:
    """Tells whether a ticket may end by its deadline if all goes as well as it ever did.

    Only what runs counts, with every worker well: who waits before it may leave, give up, be
    late, or be set back, so nobody is refused for him.
    """
    own = pool.least(ticket)
    soonest = min(_least_left(pool, now), default=0.0)
    return now + soonest + own <= ticket.deadline


def leaves_time(
    pool: Pool, ranked: Iterable[Ticket], ticket: Ticket, spare: float, now: float
) -> bool:
    """Tells whether a ticket could go first and each of these still end by its due time.

    `spare` is what each would have left at least, in seconds, for those who are still to come.
    """
    slots = _slots(pool, now)
    if not slots:
        return False
    heapq.heapreplace(slots, slots[0] + ticket.predicted)
    for other in ranked:
        if now + slots[0] + other.predicted + spare > other.due:
            return False
        heapq.heapreplace(slots, slots[0] + other.predicted)
    return True


def _least_left(pool: Pool, now: float) -> Iterator[float]:
    """Lists the least seconds until each slot is free."""
    for worker in pool.workers:
        for lease in worker.leases:
            yield max(0.0, pool.least(lease.ticket) - (now - lease.attempt.started))
        if worker.in_flight < worker.capacity:
            yield 0.0


def _slots(pool: Pool, now: float) -> list[float]:
    """Lists as a heap the seconds until each slot is free; slots of resting workers are none."""
    slots: list[float] = []
    for worker in pool.workers:
        if worker.is_in_service:
            left = [lease.remaining(now) for lease in worker.leases]
            slots += left + [0.0] * (worker.slots(now) - len(left))
    heapq.heapify(slots)
    return slots
