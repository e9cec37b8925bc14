"""Decides who of the waiting goes next: priority, then fairness between callers, then time.

Each order is one function from a ticket and the time to a key; the smallest key goes first.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from gateway.routing.caller import Caller
    from gateway.routing.ticket import Ticket

Key = tuple[float, ...]
REMEMBERED: Final = 1024
"""Callers whose share is remembered after they have left."""


def fifo(ticket: Ticket, now: float) -> Key:
    """Puts first whoever came first."""
    return (ticket.arrived,)


def sjf(ticket: Ticket, now: float) -> Key:
    """Puts the shortest job first."""
    return (ticket.predicted,)


def edf(ticket: Ticket, now: float) -> Key:
    """Puts the earliest due time first, late or not."""
    return (ticket.due,)


def on_time(ticket: Ticket, now: float) -> Key:
    """Puts the earliest due time first; one that would be late steps aside behind all others.

    The late go by how long they have waited for their size, so none of them is forgotten.
    """
    if is_late(ticket, now):
        return (1.0, (ticket.arrived - now) / ticket.predicted)
    return (0.0, ticket.due)


def is_late(ticket: Ticket, now: float) -> bool:
    """Tells whether a ticket would miss its due time even if it began now."""
    return now + ticket.predicted > ticket.due


ORDERS: Final[Mapping[str, Callable[[Ticket, float], Key]]] = MappingProxyType(
    {"on_time": on_time, "fifo": fifo, "sjf": sjf, "edf": edf}
)


class Shares:
    """Is what each caller has been given since anybody last had to wait, in predicted seconds.

    A caller that is more than `slack` seconds ahead of the least served of those he competes with
    steps behind them; so a flood of one caller delays the next by no more than that. Between
    callers that are about even, the order alone decides. Callers compete within a class, and for
    what is free now.
    """

    __slots__ = ("_given", "_levels")

    def __init__(self) -> None:
        self._given: dict[Caller, float] = {}
        self._levels: dict[int, float] = {}
        """Where a newcomer begins, by class: level with the least served of the last round."""

    def join(self, caller: Caller) -> None:
        """Lets in a caller who does not wait yet.

        Nobody saves up claims while he is away, and nobody loses a debt by coming back.
        """
        level = self._levels.get(caller.priority, 0.0)
        self._given[caller] = max(level, self.given(caller))

    def charge(self, caller: Caller, seconds: float, rivals: Iterable[Caller]) -> None:
        """Counts what a caller is given in competition with others of his class."""
        least = min(self.given(rival) for rival in (caller, *rivals))
        level = self._levels.get(caller.priority, 0.0)
        self._levels[caller.priority] = max(level, least)
        self._given[caller] = self.given(caller) + seconds

    def given(self, caller: Caller) -> float:
        """Tells what a caller has been given; one that is not remembered is level with others."""
        level = self._levels.get(caller.priority, 0.0)
        return self._given.get(caller, level)

    def forget(self) -> None:
        """Starts afresh, when nobody waits: what was free then was at nobody's cost."""
        self._given.clear()
        self._levels.clear()

    def prune(self, waiting: Collection[Caller]) -> None:
        """Drops those with the smallest debts, when far more have left than are remembered."""
        if len(self._given) - len(waiting) <= 2 * REMEMBERED:
            return
        gone = [caller for caller in self._given if caller not in waiting]
        gone.sort(key=lambda caller: self._given[caller] - self._levels.get(caller.priority, 0.0))
        for caller in gone[: len(gone) - REMEMBERED]:
            del self._given[caller]

    def ahead(self, rivals: Iterable[Caller], slack: float) -> frozenset[Caller]:
        """Names those who have been given too much more than another of their class."""
        rivals = set(rivals)
        least: dict[int, float] = {}
        for caller in rivals:
            given = self.given(caller)
            least[caller.priority] = min(given, least.get(caller.priority, given))
        return frozenset(
            caller for caller in rivals if self.given(caller) - least[caller.priority] > slack
        )
