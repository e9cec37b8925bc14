"""Runs attempts until one answers or none may follow; nothing else.

The call to a worker runs in a task of its own: a caller that leaves, or a deadline that passes,
ends the wait but not the call, and the slot stays taken until the worker has really stopped.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from gateway.errors import BadAnswer, DeadlineExceeded, GatewayError, NoWorker, QueueFull
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.routes import choose, no_worker
from gateway.transport.errand import error_of, worst
from gateway.transport.replies import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.routing.pool import Lease, Pool
    from gateway.routing.worker import Worker
    from gateway.telemetry import Telemetry
    from gateway.transport.admission import AdmissionQueue
    from gateway.transport.errand import Errand
    from gateway.transport.upstream import Answer, Upstream


class Dispatcher:
    """Is the attempt loop; `clock` gives monotonic seconds."""

    def __init__(
        self,
        upstream: Upstream,
        queues: Mapping[Pool, AdmissionQueue],
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._upstream = upstream
        self._queues = queues
        self._telemetry = telemetry
        self._clock = clock
        self._calls: set[asyncio.Task[Answer]] = set()

    async def run_all(self, errands: Sequence[Errand]) -> list[Answer]:
        """Runs the pictures of one request side by side; one failure fails the whole.

        The others join the line when the first has a worker, so a request that is refused never
        touches one. Raises the GatewayError that says most.
        """
        first, *others = errands
        lease = await self._lease(first, 1, [])
        try:
            async with asyncio.TaskGroup() as group:
                runs = [group.create_task(self.run(first, lease))]
                runs += [group.create_task(self.run(errand, is_admitted=True)) for errand in others]
        except BaseExceptionGroup as failures:
            raise worst(failures, errands) from failures
        return [run.result() for run in runs]

    async def run(
        self, errand: Errand, lease: Lease | None = None, *, is_admitted: bool = False
    ) -> Answer:
        """Returns the answer of the first worker that gives one; `lease` is the first's, if taken.

        Raises GatewayError.
        """
        left_out: list[Worker] = []
        trace = errand.trace
        for number in count(1):
            lease = lease or await self._lease(errand, number, left_out, is_admitted=is_admitted)
            trace.attempts += 1
            trace.worker = lease.worker.name
            trace.is_begun = True
            try:
                answer = await self._attempt(lease, errand)
            except Failure as failure:
                if not MEANINGS[failure.cause].may_resend:
                    raise error_of(failure, errand, self._expected_wait(lease.pool)) from failure
                trace.is_begun = False
                left_out.append(lease.worker)
                lease = None
            else:
                errand.record.ignored += answer.ignored
                return answer
        raise AssertionError("unreachable")

    def _spend(self, pool: Pool, errand: Errand) -> None:
        """Takes a resend out of the pool's budget. Raises NoWorker where it is used up."""
        if not pool.budget.spend(self._clock()):
            self._telemetry.resend_denied(pool.name)
            reason = f"many workers of pool '{pool.name}' refuse, so nothing is sent again"
            raise no_worker(errand.request.task, reason, pool.retry_after(self._clock()))

    def _expected_wait(self, pool: Pool) -> float:
        queue = self._queues.get(pool)
        return queue.line.drain_seconds(self._clock()) if queue is not None else 0.0

    async def _lease(
        self, errand: Errand, number: int, left_out: list[Worker], *, is_admitted: bool = False
    ) -> Lease:
        """Waits in the line of the first pool that can serve, and in the next if that fails it.

        Where the line is full, another pool that lists the task and has a slot free takes it.
        """
        record, task = errand.record, errand.request.task
        asked = self._clock()
        may_send = number == 1
        try:
            while True:
                record.pool = record.pool or errand.choices[0].name
                pool = choose(errand.choices, task, self._clock(), left_out)
                if not may_send:
                    self._spend(pool, errand)
                    may_send = True
                ticket = errand.ticket_for(pool, number, left_out)
                record.pool = pool.name
                queue = self._queues[pool]
                try:
                    with queue.telling(ticket, errand.listener):
                        return await queue.lease(ticket, is_admitted=is_admitted)
                except NoWorker:
                    if pool.missing(task, left_out) is None:
                        raise
                except (QueueFull, DeadlineExceeded):
                    for other in errand.choices:
                        spilled = errand.ticket_for(other, number, left_out)
                        second = self._queues.get(other)
                        if other is not pool and second is not None and second.has_room(spilled):
                            record.pool = other.name
                            return await second.lease(spilled)
                    raise
        except GatewayError as error:
            self._telemetry.shed(record.pool or "none", error)
            raise
        finally:
            errand.trace.queue_seconds += self._clock() - asked

    async def _attempt(self, lease: Lease, errand: Errand) -> Answer:
        call = asyncio.create_task(self._call(lease, errand))
        self._calls.add(call)
        call.add_done_callback(partial(self._forget, lease))
        try:
            await asyncio.wait({call}, timeout=self._left(errand))
        except asyncio.CancelledError:
            _give_up(lease, call, Cause.CLIENT_LEFT)
            raise
        finally:
            errand.trace.worker_seconds += self._clock() - lease.attempt.started
        if not call.done():
            _give_up(lease, call, Cause.DEADLINE)
            raise Failure(Cause.DEADLINE)
        if call.cancelled():
            raise BadAnswer("this gateway stopped before the worker answered; the work may go on")
        return call.result()

    async def _call(self, lease: Lease, errand: Errand) -> Answer:
        config = lease.pool.config
        limit = self._left(errand) + config.deadline_seconds
        cause, detail = Cause.CLIENT_LEFT, ""
        try:
            async with asyncio.timeout(limit):
                answer = await self._upstream.send(
                    lease.worker,
                    errand.request,
                    errand.model,
                    errand.headers,
                    config.connect_seconds,
                    errand.listener,
                )
            cause = Cause.ANSWER
            lease.attempt.counts_tokens = answer.usage is not None
            return answer
        except Failure as failure:
            cause, detail = failure.cause, failure.detail
            if failure.is_bare and self._is_refusal(lease):
                cause = Cause.TEXT_ONLY
                raise Failure(cause, detail) from None
            raise
        except asyncio.CancelledError:
            if lease.attempt.given_up is not None:
                await self._upstream.until_stopped(lease.worker)
            raise
        except TimeoutError:
            cause = Cause.HUNG
            raise Failure(cause) from None
        finally:
            if lease.attempt.given_up is not None and not MEANINGS[cause].is_ill:
                cause = lease.attempt.given_up
            was_up = lease.worker.health.is_up
            lease.end(cause, self._clock())
            if was_up and not lease.worker.health.is_up:
                name = lease.worker.name
                state = lease.worker.health.state
                self._telemetry.health_changed(lease.pool.name, name, state, cause.value)
            self._telemetry.attempt_ended(lease.attempt, errand.record.id, detail)
            if cause is Cause.ANSWER:
                is_on_time = self._clock() <= lease.ticket.due
                self._telemetry.answered(lease.pool.name, is_on_time=is_on_time)

    def _left(self, errand: Errand) -> float:
        return max(0.0, errand.ticket.deadline - self._clock())

    def _is_refusal(self, lease: Lease) -> bool:
        """Tells whether a bare failure is how this worker says that it sees no pictures."""
        seconds = self._clock() - lease.attempt.started
        ticket = lease.ticket
        return lease.worker.capability.refused(ticket.task, seconds, ticket.digest)

    def _forget(self, lease: Lease, call: asyncio.Task[Answer]) -> None:
        self._calls.discard(call)
        lease.end(Cause.CLIENT_LEFT, self._clock())  # only for a call cut before its first step
        if call.cancelled():
            return
        error = call.exception()
        if error is not None and not isinstance(error, Failure):
            self._telemetry.fault("attempt", error)

    async def close(self) -> None:
        """Cuts every call that still runs; whoever waits for one gets an error."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


def _give_up(lease: Lease, call: asyncio.Task[Answer], cause: Cause) -> None:
    lease.attempt.given_up = cause
    if lease.worker.stops_on_disconnect:
        call.cancel()
