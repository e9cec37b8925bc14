"""The waiting line of one pool: bounded, first come first served, and it hands out leases.

Decide, then act: `_assign` is synchronous, looks at line and pool, and gives what is free.
Whoever waits holds a future; a waiter that is cancelled leaves no trace.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.errors import DeadlineExceeded, Draining, QueueFull
from gateway.routing.outcome import Attempt, Cause
from gateway.routing.routes import no_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gateway.routing.pool import Lease, Pool
    from gateway.routing.request import Deadline, Task
    from gateway.routing.worker import Worker

RETRY_AFTER_FULL_SECONDS: Final = 10.0


class Waiter:
    """Is one request in the line."""

    __slots__ = ("future", "number", "task", "without")

    def __init__(self, task: Task, number: int, without: Collection[Worker]) -> None:
        self.task = task
        self.number = number
        self.without = without
        self.future: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()


class AdmissionQueue:
    """Is the line before one pool; `clock` gives monotonic seconds."""

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        self.pool = pool
        self._clock = clock
        self._line: list[Waiter] = []
        self._is_closed = False
        pool.on_end.append(self._on_end)

    def __repr__(self) -> str:
        return repr(self.pool).replace("[", f"[waiting {self.waiting} | ", 1)

    @property
    def waiting(self) -> int:
        """Tells how many requests wait."""
        return len(self._line)

    def close(self) -> None:
        """Takes no new request; those that wait keep their places."""
        self._is_closed = True

    def dismiss(self) -> None:
        """Sends away everybody who waits."""
        for waiter in self._line:
            if not waiter.future.done():
                waiter.future.set_exception(_draining())
        self._line.clear()

    async def lease(
        self,
        task: Task,
        deadline: Deadline,
        number: int = 1,
        without: Collection[Worker] = (),
        *,
        is_admitted: bool = False,
    ) -> Lease:
        """Waits for a slot on a worker that is not left out.

        A repeated attempt (number above 1) goes to the head of the line. What belongs to an
        admitted request is refused neither for the line's length nor for a drain.
        Raises QueueFull, NoWorker, Draining, or DeadlineExceeded.
        """
        is_admitted = is_admitted or number > 1
        if not is_admitted and self._is_closed:
            raise _draining()
        if not deadline.remaining(self._clock()):
            raise self._too_late()
        if (reason := self.pool.missing(task, without)) is not None:
            raise no_worker(task, reason)
        waiter = Waiter(task, number, without)
        self._line.insert(0 if number > 1 else len(self._line), waiter)
        self._assign()
        is_over = self.waiting > self.pool.config.queue_limit
        if is_over and not is_admitted and not waiter.future.done():
            self._line.remove(waiter)
            raise QueueFull(
                f"all {self.pool.config.queue_limit} waiting places of pool '{self.pool.name}' "
                "are taken; try again later",
                retry_after=RETRY_AFTER_FULL_SECONDS,
            )
        return await self._wait(waiter, deadline)

    async def _wait(self, waiter: Waiter, deadline: Deadline) -> Lease:
        try:
            async with asyncio.timeout(deadline.remaining(self._clock())):
                return await waiter.future
        except TimeoutError:
            self._leave(waiter)
            raise self._too_late() from None
        except BaseException:
            self._leave(waiter)
            raise

    def _too_late(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"no worker of pool '{self.pool.name}' became free within the deadline"
        )

    def _leave(self, waiter: Waiter) -> None:
        """Takes a waiter out; a lease that it was given and did not see goes back."""
        if waiter in self._line:
            self._line.remove(waiter)
        future = waiter.future
        if future.done() and not future.cancelled() and future.exception() is None:
            future.result().end(Cause.CLIENT_LEFT, self._clock())

    def wake(self) -> None:
        """Looks at the line again, after a worker has become free, well, or ill."""
        self._assign()

    def _on_end(self, attempt: Attempt) -> None:
        self._assign()

    def _assign(self) -> None:
        """Gives free slots to those who wait, in order; tells those whom nobody can serve."""
        for waiter in tuple(self._line):
            if waiter.future.done():
                self._line.remove(waiter)
            elif (reason := self.pool.missing(waiter.task, waiter.without)) is not None:
                self._line.remove(waiter)
                waiter.future.set_exception(no_worker(waiter.task, reason))
            else:
                lease = self.pool.take(waiter.task, waiter.number, self._clock(), waiter.without)
                if lease is not None:
                    self._line.remove(waiter)
                    waiter.future.set_result(lease)


def _draining() -> Draining:
    return Draining("this gateway is stopping; send the request again", retry_after=1)
