"""The waiting line of one pool with those who wait in it: futures around `routing.line`.

Decide, then act: `_assign` is synchronous, asks the line who is next, and hands out what it says.
Whoever waits holds a future; a waiter that is cancelled leaves no trace.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.errors import DeadlineExceeded, Draining, GatewayError, NoWorker, QueueFull
from gateway.routing.line import Line
from gateway.routing.outcome import Attempt, Cause
from gateway.routing.routes import no_worker
from gateway.transport.events import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.routing.pool import Lease, Pool
    from gateway.routing.ticket import Ticket
    from gateway.transport.events import Listener

TELL_SECONDS: Final = 0.5


class AdmissionQueue:
    """Is the line before one pool; `clock` gives monotonic seconds."""

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        self.pool = pool
        self.line = Line(pool)
        self._clock = clock
        self._futures: dict[Ticket, asyncio.Future[Lease]] = {}
        self._is_closed = False
        pool.on_end.append(self._on_end)

    def __repr__(self) -> str:
        return repr(self.pool).replace("[", f"[waiting {self.waiting} | ", 1)

    @property
    def waiting(self) -> int:
        """Tells how many requests wait."""
        return len(self.line.tickets)

    def has_room(self, ticket: Ticket) -> bool:
        """Tells whether a ticket would be served at once."""
        now = self._clock()
        self.pool.look(now)
        return not (self._is_closed or self.line.tickets) and bool(self.pool.free(ticket, now))

    def close(self) -> None:
        """Takes no new request; those that wait keep their places."""
        self._is_closed = True

    def dismiss(self) -> None:
        """Sends away everybody who waits."""
        for ticket in tuple(self.line.tickets):
            self._dismiss(ticket, _draining())

    async def lease(self, ticket: Ticket, *, is_admitted: bool = False) -> Lease:
        """Waits for a slot on a worker that the ticket does not leave out.

        What belongs to an admitted request, and what is sent again, is refused neither for the
        line's length nor for a drain. Raises QueueFull, NoWorker, Draining, or DeadlineExceeded.
        """
        now = self._clock()
        is_admitted = is_admitted or ticket.number > 1
        try:
            if not is_admitted and self._is_closed:
                raise _draining()
            if self.line.tickets:
                self._assign()  # what has changed since is told to those who wait as well
            else:
                self.pool.look(now)
            if (reason := self.pool.missing(ticket.task, ticket.without)) is not None:
                raise self._no_worker(ticket, reason)
            if now + self.pool.least(ticket) >= ticket.deadline:
                if not self.pool.has_work:
                    self.pool.costs[ticket.task].doubt()
                raise self._too_late(ticket, now)
            self.line.join(ticket)
            self._futures[ticket] = asyncio.get_running_loop().create_future()
            self._assign()
            if not self._futures[ticket].done():
                self._hold_to_limits(ticket, now, is_admitted=is_admitted)
            return await self._wait(ticket)
        finally:
            self._leave(ticket)

    @contextmanager
    def telling(self, ticket: Ticket, listener: Listener | None) -> Iterator[None]:
        """Tells a listener, as long as this lasts, where in the line a ticket stands."""
        task = None if listener is None else asyncio.create_task(self._tell(ticket, listener))
        try:
            yield
        finally:
            if task is not None:
                task.cancel()

    async def _tell(self, ticket: Ticket, listener: Listener) -> None:
        told = None
        while True:
            waits = self.line.waits(self._clock())
            if ticket in waits:
                position = 1 + list(waits).index(ticket)
                wait = round(waits[ticket], 1)
                now = Progress(stage="waiting", position=position, expected_wait_seconds=wait)
                if now != told:
                    listener(told := now)
            await asyncio.sleep(TELL_SECONDS)

    def _hold_to_limits(self, ticket: Ticket, now: float, *, is_admitted: bool) -> None:
        """Raises QueueFull or DeadlineExceeded for one that may not wait, or would in vain."""
        limit = self.pool.config.queue_limit
        if self.waiting > limit and not is_admitted:
            self.line.leave(ticket)
            raise QueueFull(
                f"all {limit} waiting places of pool '{self.pool.name}' are taken; try again later",
                retry_after=self.line.drain_seconds(now),
            )
        if not self.line.can_be_met(ticket, now):
            raise self._too_late(ticket, now)

    def _too_late(self, ticket: Ticket, now: float) -> DeadlineExceeded:
        wait = self.line.waits(now).get(ticket, 0.0) + self.pool.predict(ticket)
        return DeadlineExceeded(
            f"this would be done in about {wait:.3g} seconds, and its deadline is in "
            f"{max(0.0, ticket.deadline - now):.3g}; allow more time, or ask for a smaller size "
            "or fewer steps"
        )

    async def _wait(self, ticket: Ticket) -> Lease:
        """Waits for the lease, as long as it may still be of use. Raises DeadlineExceeded."""
        left = ticket.deadline - self.pool.least(ticket) - self._clock()
        future = self._futures[ticket]
        try:
            async with asyncio.timeout(max(0.0, left)):
                lease = await future
        except TimeoutError:
            raise DeadlineExceeded(
                f"no worker of pool '{self.pool.name}' became free within the deadline"
            ) from None
        del self._futures[ticket]  # from here on the lease is the caller's
        return lease

    def _leave(self, ticket: Ticket) -> None:
        """Takes a waiter out; a lease that it was given and did not see goes back."""
        self.line.leave(ticket)
        future = self._futures.pop(ticket, None)
        if future is None or not future.done() or future.cancelled():
            return
        if future.exception() is None:
            future.result().end(Cause.CLIENT_LEFT, self._clock())

    def _dismiss(self, ticket: Ticket, error: GatewayError) -> None:
        self.line.leave(ticket)
        if not self._futures[ticket].done():
            self._futures[ticket].set_exception(error)

    def wake(self) -> None:
        """Looks at the line again, after a worker has become free, well, or ill."""
        self._assign()

    def _on_end(self, attempt: Attempt) -> None:
        self._assign()

    def _assign(self) -> None:
        """Gives free slots to those who are next, and tells those whom nobody can serve."""
        for ticket in tuple(self.line.tickets):
            if self._futures[ticket].done():  # cancelled, and not run since
                self.line.leave(ticket)
        for lease in self.line.assign(self._clock()):
            self._futures[lease.ticket].set_result(lease)
        for ticket, reason in self.line.unserved():
            self._dismiss(ticket, self._no_worker(ticket, reason))

    def _no_worker(self, ticket: Ticket, reason: str) -> NoWorker:
        return no_worker(ticket.task, reason, self.pool.retry_after(self._clock()))


def _draining() -> Draining:
    return Draining("this gateway is stopping; send the request again", retry_after=1)
