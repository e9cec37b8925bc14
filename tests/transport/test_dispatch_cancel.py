"""A caller may leave at any await of an attempt: no slot and no place in line is ever lost."""

from __future__ import annotations

import asyncio

import pytest

from gateway.config import ModelConfig, PoolConfig, ServerConfig
from gateway.record import RequestRecord, Trace
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.pool import Pool
from gateway.routing.request import ImageRequest, Task
from gateway.routing.worker import Worker
from gateway.telemetry import Telemetry
from gateway.transport.admission import AdmissionQueue
from gateway.transport.dispatch import Dispatcher
from gateway.transport.errand import Errand
from gateway.transport.replies import Failure
from gateway.transport.upstream import Answer
from tests.routing.builders import ticket

STEPS = 14


class Border:
    """Stands for the workers: each call takes some steps of the loop, then ends as told."""

    def __init__(self, ends):
        self.ends = ends
        self.calls = 0

    async def send(self, worker, *_):
        self.calls += 1
        for _ in range(3):
            await asyncio.sleep(0)
        end = self.ends[(self.calls - 1) % len(self.ends)]
        if end is not Cause.ANSWER:
            raise Failure(end)
        return Answer(picture=b"", seed=1, worker=worker.name)

    async def until_stopped(self, worker):
        for _ in range(2):
            await asyncio.sleep(0)


def house(border, stops):
    """Builds a dispatcher over one pool of two workers, on a clock that stands still."""
    workers = [Worker(f"w-{n}", f"http://w-{n}") for n in range(2)]
    for each in workers:
        each.see(Sign.GOOD_PROBE, 0.0)
        each.said_to_stop = stops
    pool = Pool("t2i", PoolConfig(tasks=("t2i",)), workers)
    queue = AdmissionQueue(pool, lambda: 0.0)
    telemetry = Telemetry(ServerConfig(log_level="error"))
    return pool, queue, Dispatcher(border, {pool: queue}, telemetry, lambda: 0.0)


def errands(pool, count):
    """Makes the errands of one request for so many pictures."""
    record = RequestRecord("id", "POST", "/generate", 0.0)
    request = ImageRequest(task=Task.T2I, prompt="p")
    one = ticket(deadline=1e9)
    return [Errand(request, ModelConfig(), (pool,), one, {}, record, Trace()) for _ in range(count)]


@pytest.mark.parametrize("stops", [True, False], ids=["stops on disconnect", "goes on"])
@pytest.mark.parametrize(
    "ends",
    [(Cause.ANSWER,), (Cause.BUSY, Cause.ANSWER), (Cause.LOST,), (Cause.TEXT_ONLY,)],
    ids=lambda ends: ends[0].value,
)
@pytest.mark.parametrize("pictures", [1, 3])
def test_a_caller_that_leaves_at_any_step_costs_nothing(ends, pictures, stops):
    """Whatever step of its request a caller is cancelled at, all slots and places come back."""

    async def play(step):
        pool, queue, dispatcher = house(Border(ends), stops)
        leaving = asyncio.create_task(dispatcher.run_all(errands(pool, pictures)))
        staying = asyncio.create_task(dispatcher.run_all(errands(pool, 1)))
        for _ in range(step):
            await asyncio.sleep(0)
        leaving.cancel()
        done = await asyncio.gather(leaving, staying, return_exceptions=True)
        for _ in range(40):
            await asyncio.sleep(0)
        assert (0, 0) == (queue.waiting, sum(worker.in_flight for worker in pool.workers))
        assert not any(isinstance(each, KeyError | AssertionError) for each in done)
        await dispatcher.close()
        return isinstance(done[0], asyncio.CancelledError)

    left = [asyncio.run(play(step)) for step in range(STEPS * pictures)]
    assert left[0], "the first steps are soon enough to leave"


@pytest.mark.parametrize("step", range(STEPS))
def test_a_gateway_that_closes_at_any_step_holds_nothing(step):
    """When the dispatcher is closed every call is cut, and every slot given back."""

    async def play():
        pool, queue, dispatcher = house(Border((Cause.ANSWER,)), stops=False)
        calls = [asyncio.create_task(dispatcher.run_all(errands(pool, 1))) for _ in range(4)]
        for _ in range(step):
            await asyncio.sleep(0)
        queue.dismiss()
        await dispatcher.close()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await dispatcher.close()
        for _ in range(20):
            await asyncio.sleep(0)
        assert (0, 0) == (queue.waiting, sum(worker.in_flight for worker in pool.workers))

    asyncio.run(play())
