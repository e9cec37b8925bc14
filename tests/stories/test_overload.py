"""The line before a pool: bounded, first come first served, and each pool has its own."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import after
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def test_the_line_is_bounded_and_the_other_pool_is_not_touched(house):
    """Of 30 edits 1 + 8 are taken and 21 refused with Retry-After; text goes on (B52)."""
    text, image = await house.two_tracks(pool={"queue_limit": 8})
    gate = asyncio.Event()
    image.script = after(gate)
    calls = [asyncio.create_task(house.generate(prompt=f"{n}", image=DATA8)) for n in range(30)]
    await until(lambda: sum(call.done() for call in calls) == 21)
    refused = [call.result() for call in calls if call.done()]
    assert {(429, "queue_full", None)} == {code_of(response) for response in refused}
    assert all(1 <= int(response.headers["retry-after"]) <= 120 for response in refused)
    assert 200 == (await house.generate(prompt="p")).status_code
    gate.set()
    statuses = [(await call).status_code for call in calls]
    assert (9, 21) == (statuses.count(200), statuses.count(429))
    assert (9, 1) == (image.hits, image.peak)
    assert 1 == text.hits


async def test_first_come_first_served(house):
    """Requests reach the worker in the order in which they came."""
    _, image = await house.two_tracks()
    gate = asyncio.Event()
    image.script = after(gate)
    calls = []
    for number in range(6):
        call = house.generate(prompt=str(number), image=DATA8)
        calls.append(asyncio.create_task(call))
        await until(lambda: house.queue("i2i").waiting + image.hits == len(calls))
    gate.set()
    await asyncio.gather(*calls)
    assert list("012345") == [request.texts["prompt"] for request in image.requests]


async def test_capacity_is_never_exceeded_and_load_is_shared(house):
    """Twenty requests over two workers of capacity 2: never more than 2 each, both work (B20)."""
    first, second = await house.worker("T2I"), await house.worker("T2I")
    gate = asyncio.Event()
    first.script = second.script = after(gate)
    await house.open({"t2i": [{"url": w.url, "capacity": 2} for w in (first, second)]})
    calls = [asyncio.create_task(house.generate(prompt="p")) for _ in range(20)]
    await until(lambda: (first.running, second.running) == (2, 2))
    await until(lambda: house.queue("t2i").waiting == 16)
    gate.set()
    assert {200} == {(await call).status_code for call in calls}
    assert (2, 2) == (first.peak, second.peak)
    assert 20 == first.hits + second.hits


async def test_waiting_ends_at_the_deadline(house):
    """A request that is still in line at its deadline gets 504 and never reaches a worker (B52)."""
    _, image = await house.two_tracks(pool={"deadline_seconds": 0.5})
    gate = asyncio.Event()
    image.script = after(gate)
    calls = [asyncio.create_task(house.generate(prompt="p", image=DATA8)) for _ in range(3)]
    responses = await asyncio.gather(*calls)
    assert [(504, "deadline_exceeded", None)] * 3 == [code_of(response) for response in responses]
    assert 1 == image.hits
    assert 0 == house.queue("i2i").waiting
