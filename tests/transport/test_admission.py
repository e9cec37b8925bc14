"""The waiting line: who is let in, who waits, who is served next, and who is told what."""

from __future__ import annotations

import asyncio

import pytest

from gateway.config import PoolConfig
from gateway.errors import DeadlineExceeded, Draining, NoWorker, QueueFull
from gateway.routing.cost import Cost
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.pool import Pool
from gateway.routing.request import Task
from gateway.routing.ticket import Ticket
from gateway.routing.worker import Worker
from gateway.transport.admission import AdmissionQueue

pytestmark = pytest.mark.anyio


def ticket(deadline=1e9, **options):
    """Makes a ticket of a picture that is predicted to take 10 seconds."""
    cost = Cost(0, 20_512_821)
    return Ticket(task=Task.T2I, cost=cost, arrived=0.0, deadline=deadline, **options)


def line(capacities=(1,), **options):
    """Builds a pool of healthy workers and its line, on a clock that stands still."""
    workers = []
    for position, capacity in enumerate(capacities):
        worker = Worker(f"w{position}", f"http://w{position}", capacity)
        worker.see(Sign.GOOD_PROBE, 0.0)
        workers.append(worker)
    pool = Pool("t2i", PoolConfig(tasks=("t2i",), **options), workers)
    return pool, AdmissionQueue(pool, lambda: 0.0)


def train(pool):
    """Lets the pool see enough to know that 10 seconds are never less than 9."""
    for _ in range(8):
        pool.costs[Task.T2I].learn(ticket().cost, 10.0)


async def settle():
    """Lets every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_line_is_served_in_order():
    """A freed slot goes to the one who waits longest."""
    _, queue = line()
    held = await queue.lease(ticket())
    waiters = [asyncio.create_task(queue.lease(ticket())) for _ in range(3)]
    await settle()
    assert 3 == queue.waiting
    for expected in waiters:
        held.end(Cause.ANSWER, 0.0)
        held = await expected
    assert 0 == queue.waiting
    assert "<Pool t2i [waiting 0 | in flight 1/1 | workers 1 up]>" == repr(queue)


async def test_a_repeated_attempt_goes_to_the_head():
    """A request that is not new is served before all new ones, and fits into a full line."""
    _, queue = line(queue_limit=1)
    held = await queue.lease(ticket())
    new = asyncio.create_task(queue.lease(ticket()))
    await settle()
    again = asyncio.create_task(queue.lease(ticket(number=2)))
    await settle()
    held.end(Cause.ANSWER, 0.0)
    await settle()
    assert (True, False) == (again.done(), new.done())
    (await again).end(Cause.ANSWER, 0.0)
    await new


@pytest.mark.parametrize(("limit", "seconds"), [(0, 10.0), (2, 30.0)])
async def test_a_full_line_refuses_and_says_when_it_will_have_drained(limit, seconds):
    """Beyond the limit a new request is refused, takes no place, and is told when to return."""
    _, queue = line(queue_limit=limit)
    await queue.lease(ticket())
    waiters = [asyncio.create_task(queue.lease(ticket())) for _ in range(limit)]
    await settle()
    with pytest.raises(QueueFull) as caught:
        await queue.lease(ticket())
    assert pytest.approx(seconds) == caught.value.retry_after
    assert limit == queue.waiting
    waiters.append(asyncio.create_task(queue.lease(ticket(), is_admitted=True)))
    await settle()
    assert limit + 1 == queue.waiting
    for waiter in waiters:
        waiter.cancel()


async def test_a_closed_line_lets_in_nobody_new():
    """A closed line refuses new requests, and serves those that are under way."""
    _, queue = line()
    assert queue.has_room(ticket())
    queue.close()
    assert not queue.has_room(ticket())
    with pytest.raises(Draining):
        await queue.lease(ticket())
    assert 1 == (await queue.lease(ticket(), is_admitted=True)).worker.in_flight


async def test_a_dismissed_line_tells_everybody():
    """Whoever waits when the line is dismissed is told that the gateway stops."""
    _, queue = line()
    held = await queue.lease(ticket())
    waiters = [asyncio.create_task(queue.lease(ticket())) for _ in range(3)]
    await settle()
    waiters[0].cancel()
    queue.dismiss()
    results = await asyncio.gather(*waiters, return_exceptions=True)
    kinds = [asyncio.CancelledError, Draining, Draining]
    assert kinds == [type(result) for result in results]
    assert (0, 1) == (queue.waiting, held.worker.in_flight)


async def test_a_line_has_room_while_a_slot_is_free_and_nobody_waits():
    """A line has room for who would be served at once."""
    _, queue = line((1, 1))
    first = await queue.lease(ticket())
    assert queue.has_room(ticket())
    assert not queue.has_room(ticket(without=(queue.pool.workers[1],)))
    await queue.lease(ticket())
    assert not queue.has_room(ticket())
    first.end(Cause.ANSWER, 0.0)
    assert queue.has_room(ticket())


async def test_those_who_wait_are_told_when_nobody_is_left():
    """When the last worker goes down, whoever waits gets an error at once, and so does the next."""
    pool, queue = line()
    await queue.lease(ticket())
    waiter = asyncio.create_task(queue.lease(ticket()))
    await settle()
    pool.workers[0].see(Sign.LOST_ATTEMPT, 0.0)
    queue.wake()
    with pytest.raises(NoWorker):
        await waiter
    with pytest.raises(NoWorker, match="no worker of pool 't2i' is up"):
        await queue.lease(ticket())


@pytest.mark.parametrize("free", [False, True])
async def test_a_deadline_that_has_passed(free):
    """A request whose deadline has passed gets no lease, not even of a free slot."""
    _, queue = line((2,) if free else (1,))
    held = await queue.lease(ticket())
    with pytest.raises(DeadlineExceeded):
        await queue.lease(ticket(deadline=0.0))
    assert (0, 1) == (queue.waiting, held.worker.in_flight)


@pytest.mark.parametrize(("free", "deadline"), [(True, 8.9), (False, 8.9), (False, 17.0)])
async def test_who_has_no_hope_is_told_at_once(free, deadline):
    """A request that cannot be met by its deadline is refused before it waits or runs."""
    pool, queue = line((2,) if free else (1,))
    train(pool)
    held = await queue.lease(ticket())
    with pytest.raises(DeadlineExceeded, match="allow more time"):
        await asyncio.wait_for(queue.lease(ticket(deadline=deadline)), 1)
    assert (0, [held]) == (queue.waiting, held.worker.leases)


async def test_a_wait_ends_with_the_deadline():
    """Who is not served in time is told, and leaves the line."""
    _, queue = line()
    await queue.lease(ticket())
    with pytest.raises(DeadlineExceeded, match="became free within the deadline"):
        await asyncio.wait_for(queue.lease(ticket(deadline=0.02)), 1)
    assert 0 == queue.waiting
