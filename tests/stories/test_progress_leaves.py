"""A client that leaves a stream ends the work, and its slot is free when the worker has stopped."""

from __future__ import annotations

import asyncio

import pytest

from tests.stories.test_progress import STAGES, listen, stream, telling
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def test_a_listener_that_leaves_ends_the_work(house):
    """Closing the stream hangs up on a worker that stops then, and frees its slot."""
    gate = asyncio.Event()
    worker = await telling(house)
    worker.more_info |= {"stops_on_disconnect": True}
    await until(lambda: house.pool("both").workers[0].stops_on_disconnect)
    worker.script = stream(*STAGES, gate=gate)
    listening = asyncio.create_task(listen(house, prompt="p"))
    await until(lambda: worker.running == 1)
    await asyncio.sleep(0.1)
    listening.cancel()
    await until(lambda: worker.requests[0].peer_left)
    gate.set()
    await until(lambda: house.pool("both").workers[0].in_flight == 0)


async def test_a_slot_is_free_when_the_worker_has_stopped(house):
    """A worker that tells what it has in hand keeps its slot until it says that it stopped."""
    gate = asyncio.Event()
    worker = await telling(house)
    worker.more_info |= {"stops_on_disconnect": True}
    worker.health = {"in_flight": 1, "waiting": 0, "capacity": 1, "predicted_seconds": 9.0}
    await until(lambda: house.pool("both").workers[0].reports_load)
    await until(lambda: house.pool("both").workers[0].stops_on_disconnect)
    worker.script = stream(*STAGES, gate=gate)
    listening = asyncio.create_task(listen(house, prompt="p"))
    await until(lambda: worker.running == 1)
    listening.cancel()
    await until(lambda: worker.requests[0].peer_left)
    await asyncio.sleep(0.4)
    assert 1 == house.pool("both").workers[0].in_flight
    worker.health = {"in_flight": 0, "waiting": 0, "capacity": 1, "predicted_seconds": 0.0}
    await until(lambda: house.pool("both").workers[0].in_flight == 0)
    gate.set()
