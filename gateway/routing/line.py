"""The waiting line of one pool as rules: who stands where, who is given what, who has no hope.

Late binding: a ticket meets a worker only when that worker has a free slot. Knows nothing about
tasks or futures; the gateway and the simulator drive the same line, each with its own clock.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gateway.routing import forecast
from gateway.routing.order import ORDERS, Key, Shares, is_late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.routing.caller import Caller
    from gateway.routing.pool import Lease, Pool
    from gateway.routing.ticket import Ticket
    from gateway.routing.worker import Worker

    Order = Callable[[Ticket], Key]

SPARE = 1.5
"""Times its own seconds that a late one has to leave to those who wait before it may go first."""
SLACK_ROUNDS = 2.0
"""How far a caller may be ahead of another, in rounds: the mean job on every slot of the pool."""


class Line:
    """Is the line before one pool; `now` is in seconds on the clock of its tickets."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tickets: list[Ticket] = []
        self._shares = Shares()
        self._callers: Counter[Caller] = Counter()
        """How many tickets of each caller wait."""
        self._turns = 0

    def join(self, ticket: Ticket) -> None:
        """Puts a ticket in, its duration predicted and its due time set."""
        ticket.predicted = self.pool.predict(ticket)
        ticket.due = ticket.arrived + self.pool.config.slo_factor * ticket.predicted
        self._turns += 1
        ticket.turn = self._turns
        if not self._callers[ticket.caller]:
            self._shares.join(ticket.caller)
        self._callers[ticket.caller] += 1
        self.tickets.append(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Takes a ticket out; one that is not in it changes nothing."""
        if ticket not in self.tickets:
            return
        self.tickets.remove(ticket)
        self._callers[ticket.caller] -= 1
        if not self._callers[ticket.caller]:
            del self._callers[ticket.caller]
        if not self.tickets:
            self._shares.forget()
        self._shares.prune(self._callers)

    def unserved(self) -> list[tuple[Ticket, str]]:
        """Lists those whom nobody can serve, even after a wait, and why."""
        reasons: dict[tuple[object, ...], str | None] = {}
        found = []
        for ticket in self.tickets:
            kind = (ticket.task, *ticket.without)
            if kind not in reasons:
                reasons[kind] = self.pool.missing(ticket.task, ticket.without)
            if (reason := reasons[kind]) is not None:
                found.append((ticket, reason))
        return found

    def assign(self, now: float) -> list[Lease]:
        """Gives every free slot to whoever is next for it; those leave the line."""
        self.pool.look(now)
        leases: list[Lease] = []
        while able := self._able(now):
            key = self._key(able, now)
            chosen = min(able, key=key)
            worker = self.pool.choose(chosen, able[chosen], now)
            together = (chosen, *self._mates(chosen, worker, able, key, now))
            rivals = {each.caller for each in able if _class(each) == _class(chosen)}
            for ticket in together:
                if ticket.number == 1:  # what was refused by a worker is charged already
                    self._shares.charge(ticket.caller, ticket.predicted, rivals)
                self.leave(ticket)
                leases.append(self.pool.take(ticket, worker, now))
        return leases

    def _able(self, now: float) -> dict[Ticket, list[Worker]]:
        """Lists who could be served now, and by whom."""
        own_waits = not all(ticket.is_spill for ticket in self.tickets)
        free: dict[tuple[object, ...], list[Worker]] = {}
        able: dict[Ticket, list[Worker]] = {}
        if all(worker.is_full(now) for worker in self.pool.workers if worker.is_in_service):
            return able
        for ticket in self.tickets:
            kind = (ticket.task, ticket.is_spill, *ticket.without)
            if kind not in free:
                free[kind] = self.pool.free(ticket, now, own_waits=own_waits)
            if free[kind] and self._is_worth_it(ticket, now):
                able[ticket] = free[kind]
        return able

    def _is_worth_it(self, ticket: Ticket, now: float) -> bool:
        """Tells whether a ticket may run now: in time for its deadline, and no second suspect."""
        left = ticket.deadline - now
        in_time = left > 2 * ticket.predicted or left >= self.pool.least(ticket)
        return in_time and not self.pool.poison.has_to_wait(ticket.digest, now)

    def _mates(
        self,
        ticket: Ticket,
        worker: Worker,
        able: dict[Ticket, list[Worker]],
        key: Order,
        now: float,
    ) -> list[Ticket]:
        """Lists those of the same shape and class that fill the batch of an idle worker."""
        places = worker.slots(now) - 1
        if worker.in_flight or not places or self.pool.circuit.is_on_trial:
            return []
        top = max(map(_class, able))
        alike = [
            other
            for other, free in able.items()
            if other is not ticket
            and other.shape == ticket.shape
            and not other.is_spill
            and _class(other) == top
            and not self.pool.poison.knows(other.digest, now)
            and worker in free
        ]
        return sorted(alike, key=key)[:places] if len(alike) >= places else []

    def _key(self, rivals: Iterable[Ticket], now: float) -> Order:
        """Builds the key by which the smallest is next: repeats, priority, fairness, order."""
        order = ORDERS[self.pool.config.order]
        mean = sum(ticket.predicted for ticket in self.tickets) / max(1, len(self.tickets))
        slots = sum(worker.capacity for worker in self.pool.workers)
        callers = {ticket.caller for ticket in rivals}
        ahead = self._shares.ahead(callers, SLACK_ROUNDS * mean * slots)
        favoured = self._favoured(rivals, now)

        def key(ticket: Ticket) -> Key:
            return (
                ticket.number == 1,  # who was refused by a worker had been at the head already
                -_class(ticket),
                ticket.caller in ahead,
                ticket is not favoured,
                *order(ticket, now),
                ticket.turn,
            )

        return key

    def _favoured(self, rivals: Iterable[Ticket], now: float) -> Ticket | None:
        """Names the shortest of the late, where it may go first and nobody is late for it."""
        late = [ticket for ticket in rivals if is_late(ticket, now)]
        if self.pool.config.order != "on_time" or not late:
            return None
        shortest = min(late, key=lambda ticket: (ticket.predicted, ticket.turn))
        others = (ticket for ticket in self.tickets if not is_late(ticket, now))
        by_due = sorted(others, key=lambda ticket: (ticket.due, ticket.turn))
        spare = SPARE * shortest.predicted
        may_go = forecast.leaves_time(self.pool, by_due, shortest, spare, now)
        return shortest if may_go else None

    def ranked(self, now: float) -> list[Ticket]:
        """Lists the line in the order in which it would be served now."""
        return sorted(self.tickets, key=self._key(self.tickets, now))

    def waits(self, now: float) -> dict[Ticket, float]:
        """Predicts for each who waits the seconds until it begins, in order."""
        return forecast.waits(self.pool, self.ranked(now), now)

    def drain_seconds(self, now: float) -> float:
        """Predicts the seconds until everybody who waits has begun and a slot is free again."""
        return forecast.drained(self.pool, self.tickets, now)

    def can_be_met(self, ticket: Ticket, now: float) -> bool:
        """Tells whether a ticket may end by its deadline, if all goes as well as it ever did."""
        return forecast.can_be_met(self.pool, ticket, now)


def _class(ticket: Ticket) -> int:
    return ticket.caller.priority
