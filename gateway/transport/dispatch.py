"""Runs attempts until one answers or none may follow; nothing else.

The call to a worker runs in a task of its own: a caller that leaves, or a deadline that passes,
ends the wait but not the call, and the slot stays taken until the worker has really stopped.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from gateway.errors import (
    BadAnswer,
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    NoWorker,
    OutOfMemory,
)
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.routes import choose
from gateway.transport.upstream import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.config import ModelConfig
    from gateway.record import RequestRecord, Trace
    from gateway.routing.pool import Lease, Pool
    from gateway.routing.request import Deadline, ImageRequest
    from gateway.routing.worker import Worker
    from gateway.telemetry import Telemetry
    from gateway.transport.admission import AdmissionQueue
    from gateway.transport.upstream import Answer, Upstream

RETRY_AFTER_MEMORY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Errand:
    """Is what stays the same over all attempts of one picture."""

    request: ImageRequest
    model: ModelConfig
    choices: tuple[Pool, ...]
    deadline: Deadline
    headers: Mapping[str, str]
    record: RequestRecord
    trace: Trace


class Dispatcher:
    """Is the attempt loop; `clock` gives monotonic seconds."""

    def __init__(
        self,
        upstream: Upstream,
        queues: Mapping[str, AdmissionQueue],
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
            raise _worst(failures, errands) from failures
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
                    raise _error(failure, lease.pool) from failure
                trace.is_begun = False
                left_out.append(lease.worker)
                lease = None
            else:
                errand.record.ignored += answer.ignored
                return answer
        raise AssertionError("unreachable")

    async def _lease(
        self, errand: Errand, number: int, left_out: list[Worker], *, is_admitted: bool = False
    ) -> Lease:
        """Waits in the line of the first pool that can serve, and in the next if that fails it."""
        record, task = errand.record, errand.request.task
        asked = self._clock()
        try:
            while True:
                record.pool = record.pool or errand.choices[0].name
                pool = choose(errand.choices, task, left_out)
                record.pool = pool.name
                try:
                    return await self._queues[pool.name].lease(
                        task, errand.deadline, number, left_out, is_admitted=is_admitted
                    )
                except NoWorker:
                    if pool.missing(task, left_out) is None:
                        raise
        finally:
            errand.trace.queue_seconds += self._clock() - asked

    async def _attempt(self, lease: Lease, errand: Errand) -> Answer:
        call = asyncio.create_task(self._call(lease, errand))
        self._calls.add(call)
        call.add_done_callback(partial(self._forget, lease))
        try:
            await asyncio.wait({call}, timeout=errand.deadline.remaining(self._clock()))
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
        limit = errand.deadline.remaining(self._clock()) + config.deadline_seconds
        cause, detail = Cause.CLIENT_LEFT, ""
        try:
            async with asyncio.timeout(limit):
                answer = await self._upstream.send(
                    lease.worker,
                    errand.request,
                    errand.model,
                    errand.headers,
                    config.connect_seconds,
                )
            cause = Cause.ANSWER
            return answer
        except Failure as failure:
            cause, detail = failure.cause, failure.detail
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
                self._telemetry.health_changed(lease.pool.name, name, False, cause.value)
            self._telemetry.attempt_ended(lease.attempt, errand.record.id, detail)

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


def _worst(failures: BaseExceptionGroup[BaseException], errands: Sequence[Errand]) -> BaseException:
    """Picks the error to tell: a fault of ours, else one after which work may have run.

    Where others of several pictures have begun, "come back later" would be the wrong advice.
    """
    errors = failures.exceptions
    if faults := [error for error in errors if not isinstance(error, GatewayError)]:
        return faults[0]
    known = [error for error in errors if isinstance(error, GatewayError)]
    worst = min(known, key=lambda error: error.resend_safe)
    has_begun = len(errands) > 1 and any(errand.trace.is_begun for errand in errands)
    if has_begun and worst.retry_after is not None:
        return BadAnswer(f"one of {len(errands)} pictures failed when others had begun: {worst}")
    return worst


def _error(failure: Failure, pool: Pool) -> GatewayError:
    if failure.cause is Cause.REJECTED:
        return InvalidRequest(
            "the worker's model cannot take this request; most often its size is out of range, "
            "else the prompt is too long or an input image unusable"
        )
    if failure.cause is Cause.OUT_OF_MEMORY:
        return OutOfMemory(
            "the worker ran out of memory; ask for a smaller size or try again later",
            retry_after=RETRY_AFTER_MEMORY_SECONDS,
        )
    if failure.cause in (Cause.DEADLINE, Cause.HUNG):
        seconds = pool.config.deadline_seconds
        return DeadlineExceeded(
            f"no answer within {seconds:g} seconds; ask for fewer steps, fewer "
            "pictures or a smaller size"
        )
    return BadAnswer(
        "the worker did not give a usable answer; the work may have run, so it was not sent again"
    )
