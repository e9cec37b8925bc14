"""The waiting line under cancellation: no place and no slot is ever lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import PoolConfig
from gateway.errors import DeadlineExceeded, Draining, NoWorker, QueueFull
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.pool import Pool
from gateway.routing.request import Deadline, Task
from gateway.routing.worker import Worker
from gateway.transport.admission import AdmissionQueue

pytestmark = pytest.mark.anyio
LATER = Deadline(1e9)


def line(capacities=(1,), **options):
    """Builds a pool of healthy workers and its line, on a clock that stands still."""
    pool = Pool("t2i", PoolConfig(tasks=("t2i",), **options))
    for position, capacity in enumerate(capacities):
        worker = Worker(f"w{position}", f"http://w{position}", capacity)
        worker.health.see(Sign.GOOD_PROBE)
        pool.add(worker)
    return pool, AdmissionQueue(pool, lambda: 0.0)


async def settle():
    """Lets every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_line_is_served_in_order():
    """A freed slot goes to the one who waits longest."""
    _, queue = line()
    held = await queue.lease(Task.T2I, LATER)
    waiters = [asyncio.create_task(queue.lease(Task.T2I, LATER)) for _ in range(3)]
    await settle()
    for expected in waiters:
        held.end(Cause.ANSWER, 0.0)
        held = await expected
    assert 0 == queue.waiting
    assert "<Pool t2i [waiting 0 | in flight 1/1 | workers 1 up]>" == repr(queue)


async def test_a_repeated_attempt_goes_to_the_head():
    """A request that is not new is served before all new ones, and fits into a full line."""
    _, queue = line(queue_limit=1)
    held = await queue.lease(Task.T2I, LATER)
    new = asyncio.create_task(queue.lease(Task.T2I, LATER))
    await settle()
    again = asyncio.create_task(queue.lease(Task.T2I, LATER, 2))
    await settle()
    held.end(Cause.ANSWER, 0.0)
    await settle()
    assert (True, False) == (again.done(), new.done())
    (await again).end(Cause.ANSWER, 0.0)
    await new


async def test_a_full_line_refuses():
    """Beyond the limit a new request is refused, and takes no place."""
    _, queue = line(queue_limit=0)
    await queue.lease(Task.T2I, LATER)
    with pytest.raises(QueueFull):
        await queue.lease(Task.T2I, LATER)
    assert 0 == queue.waiting


async def test_a_closed_line_lets_in_nobody_new():
    """A closed line refuses new requests, and serves those that are under way."""
    _, queue = line()
    queue.close()
    with pytest.raises(Draining):
        await queue.lease(Task.T2I, LATER)
    assert 1 == (await queue.lease(Task.T2I, LATER, is_admitted=True)).worker.in_flight


async def test_those_who_wait_are_told_when_nobody_is_left():
    """When the last worker goes down, whoever waits gets an error at once."""
    pool, queue = line()
    await queue.lease(Task.T2I, LATER)
    waiter = asyncio.create_task(queue.lease(Task.T2I, LATER))
    await settle()
    pool.workers[0].health.see(Sign.LOST_ATTEMPT)
    queue.wake()
    with pytest.raises(NoWorker):
        await waiter


async def test_a_deadline_that_has_passed():
    """A request whose deadline has passed gets no lease, and leaves no trace."""
    _, queue = line()
    held = await queue.lease(Task.T2I, LATER)
    with pytest.raises(DeadlineExceeded):
        await queue.lease(Task.T2I, Deadline(0.0))
    assert (0, 1) == (queue.waiting, held.worker.in_flight)


@given(st.lists(st.sampled_from(["take", "end", "cancel", "cancel at hand-over", "down", "up"])))
def test_no_slot_is_lost_whatever_is_cancelled_and_when(events):
    """After any sequence of events, cancelled hand-overs included, slots equal living leases."""

    async def play():
        pool, queue = line((1, 2), queue_limit=3)
        calls: list[asyncio.Task] = []

        def leases():
            done = [c for c in calls if c.done() and not c.cancelled() and not c.exception()]
            return [call.result() for call in done if not call.result().is_ended]

        for event in events:
            waiting = [call for call in calls if not call.done()]
            if event == "take":
                calls.append(asyncio.create_task(queue.lease(Task.T2I, LATER)))
            elif event == "end" and leases():
                leases()[0].end(Cause.ANSWER, 0.0)
            elif event == "cancel" and waiting:
                waiting[0].cancel()
            elif event == "cancel at hand-over" and waiting and leases():
                leases()[0].end(Cause.ANSWER, 0.0)  # gives the slot to the first who waits …
                waiting[0].cancel()  # … who is cancelled before it could see that
            elif event in ("down", "up"):
                sign = Sign.GOOD_PROBE if event == "up" else Sign.LOST_ATTEMPT
                pool.workers[0].health.see(sign)
                queue.wake()
            await settle()
            assert sum(worker.in_flight for worker in pool.workers) == len(leases())
            assert all(worker.in_flight <= worker.capacity for worker in pool.workers)
            assert queue.waiting == sum(not call.done() for call in calls) <= 3
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for lease in leases():
            lease.end(Cause.ANSWER, 0.0)
        assert 0 == sum(worker.in_flight for worker in pool.workers)
        assert 0 == queue.waiting

    asyncio.run(play())
