"""Drives a line through simulated time: tickets arrive, run for given seconds, and are given up."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from gateway.routing.outcome import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.routing.line import Line
    from gateway.routing.ticket import Ticket


@dataclass
class Played:
    """Is what happened: when each began and ended, and what the line had said of its hopes."""

    began: dict[Ticket, float] = field(default_factory=dict)
    ended: dict[Ticket, float] = field(default_factory=dict)
    hopes: dict[Ticket, bool] = field(default_factory=dict)

    def is_answered(self, ticket: Ticket) -> bool:
        """Tells whether a ticket ended within its deadline."""
        return ticket in self.ended and self.ended[ticket] <= ticket.deadline


def play(line: Line, seconds: Mapping[Ticket, float], cause: Cause = Cause.CLIENT_LEFT) -> Played:
    """Lets tickets arrive at their times and run for their seconds; nobody is refused.

    Who can no longer end by the deadline leaves, as its caller would. By default the pool's
    models learn nothing on the way.
    """
    played = Played()
    coming = sorted(seconds, key=lambda ticket: ticket.arrived)
    running: list[tuple[float, int, object]] = []
    while coming or running:
        now = min([coming[0].arrived] if coming else [], default=None)
        if running and (now is None or running[0][0] <= now):
            now, _, lease = heappop(running)
            lease.end(cause, now)
            played.ended[lease.ticket] = now
            new = None
        else:
            new = coming.pop(0)
            line.join(new)
        for ticket in tuple(line.tickets):
            if now + line.pool.least(ticket) > ticket.deadline:
                line.leave(ticket)
                played.hopes.setdefault(ticket, False)
        for lease in line.assign(now):
            played.began[lease.ticket] = now
            played.hopes.setdefault(lease.ticket, True)
            heappush(running, (now + seconds[lease.ticket], len(played.began), lease))
        if new is not None and new not in played.hopes:
            played.hopes[new] = line.can_be_met(new, now)
    return played
