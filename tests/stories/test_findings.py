"""Faults that a review found once, each told as a story of the rule that it broke."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import after, answer, hang, status
from tests.support.serve import until

pytestmark = pytest.mark.anyio

BROKEN = status(500, b'{"error":"broken"}', "application/json")


async def test_a_page_that_goes_missing_makes_nobody_see(house):
    """A worker that said T2I gets no picture because its page answers 404 now (B15, B17)."""
    blind, sighted = await house.worker("T2I"), await house.worker("TI2I")
    await house.open({"both": [blind, sighted]})
    await until(lambda: house.pool("both").workers[0].capability.reported is not None)
    blind.info = False
    probes = len(blind.probes)
    await until(lambda: len(blind.probes) > probes + 8)
    for n in range(4):
        edit = await house.generate(prompt=f"{n}", image=DATA8)
        assert (200, "both-1") == (edit.status_code, edit.headers["x-turnout-worker"])
    assert 0 == blind.hits


async def test_old_work_does_not_stand_in_the_way_of_a_pools_trial(house):
    """After a pool's rest its idle workers are tried, though one of them hangs with old work."""
    gate = asyncio.Event()
    workers = [await house.worker("T2I") for _ in range(3)]
    await house.open({"t2i": workers})
    for each in workers:
        each.script = after(gate)
    old = asyncio.create_task(house.generate(prompt="old"))
    await until(lambda: sum(each.running for each in workers) == 1)
    for each in workers:
        if not each.running:
            each.script = BROKEN
    codes = [(await house.generate(prompt=f"{n}")).status_code for n in range(6)]
    assert [502] * 5 + [503] == codes
    for each in workers:
        if not each.running:
            each.script = answer
    house.clock.passed += 6
    assert 200 == (await house.generate(prompt="trial")).status_code
    gate.set()
    await old


async def test_a_worker_that_lets_deadlines_pass_is_rested(house):
    """A lone worker that hangs does not eat every request to its deadline (B47)."""
    only = await house.worker("T2I", script=hang, more_info={"stops_on_disconnect": True})
    only.more_info |= {"tasks": ["t2i"]}
    await house.open({"t2i": [only]}, pool={"deadline_seconds": 0.3})
    await until(lambda: house.pool("t2i").workers[0].stops_on_disconnect)
    codes = [(await house.generate(prompt=f"{n}")).status_code for n in range(5)]
    assert [504, 504, 504, 503, 503] == codes
    assert 3 == only.hits


async def test_callers_in_haste_rest_nobody(house):
    """Deadlines that callers set too short are not held against a worker."""
    gate = asyncio.Event()
    only = await house.worker("T2I", script=after(gate), more_info={"tasks": ["t2i"]})
    only.more_info |= {"stops_on_disconnect": True}
    await house.open({"t2i": [only]})
    await until(lambda: house.pool("t2i").workers[0].stops_on_disconnect)
    header = {"x-turnout-deadline-seconds": "0.2"}
    for n in range(5):
        assert 504 == (await house.generate(headers=header, prompt=f"{n}")).status_code
    assert house.pool("t2i").workers[0].is_in_service
    gate.set()


async def test_an_encoder_that_falls_silent_gets_no_more_work(house):
    """While an encoder is silent nothing new begins, and after three probes its pool is closed."""
    gate = asyncio.Event()
    text, encoder = await house.worker("T2I", script=after(gate)), await house.worker("T2I")
    options = {"encoder_url": encoder.url}
    await house.open({"t2i": [{"url": text.url, "capacity": 2}]}, pool=options)
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: text.running == 1)
    encoder.silent = True
    await until(lambda: house.pool("t2i").encoder.is_silent)
    waiting = asyncio.create_task(house.generate(prompt="q"))
    await until(lambda: house.queue("t2i").waiting == 1)
    assert 1 == text.hits
    assert (503, "no_worker_available", None) == code_of(await waiting)
    encoder.silent = False
    gate.set()
    assert 200 == (await running).status_code


async def test_a_deadline_that_another_pool_can_meet_is_not_refused(house):
    """Where the text pool is too busy for a deadline, a free worker that sees takes it."""
    gate = asyncio.Event()
    text, both = await house.worker("T2I"), await house.worker()
    await house.open({"t2i": [text], "both": [both]})
    for n in range(8):
        text.script = after(slow := asyncio.Event())
        call = asyncio.create_task(house.generate(prompt=f"{n}", size="256x256"))
        await until(lambda: text.running == 1)
        house.clock.passed += 10
        slow.set()
        assert 200 == (await call).status_code
    text.script = after(gate)
    running = asyncio.create_task(house.generate(prompt="p", size="256x256"))
    await until(lambda: text.running == 1)
    header = {"x-turnout-deadline-seconds": "15"}
    spilled = await house.generate(headers=header, prompt="q", size="256x256")
    assert (200, "both") == (spilled.status_code, spilled.headers["x-turnout-pool"])
    assert "turnout_shed_total{" not in (await house.admin.get("/metrics")).text
    gate.set()
    await running


async def test_a_pool_is_ready_while_it_serves_one_of_its_tasks(house):
    """A pool that has lost its eyes still serves text, and says what is missing."""
    blind = await house.worker("T2I")
    await house.open({"both": [blind]}, wait=False)
    await until(lambda: house.pool("both").workers[0].capability.reported is not None)
    await until(lambda: house.pool("both").workers[0].is_in_service)
    ready = await house.client.get("/readyz")
    assert 200 == ready.status_code
    assert "can do i2i" in ready.json()["pools"]["both"]["missing"]


@pytest.mark.parametrize("capacity", [1025, 10**400, 0, 1.5])
async def test_a_capacity_without_sense_is_refused(house, capacity):
    """What nobody can mean does not take the pool down."""
    await house.two_tracks()
    body = {"url": "http://127.0.0.1:9", "capacity": capacity}
    refused = await house.admin.post("/admin/pools/t2i/workers", json=body)
    assert (400, "invalid_value", "capacity") == code_of(refused)
    assert 200 == (await house.generate(prompt="p")).status_code


async def test_one_server_under_two_spellings_is_one_worker(house):
    """Addresses that mean the same are the same (B21)."""
    await house.two_tracks()
    for url in ("http://LOCALHOST:9", "http://localhost:9/"):
        answered = await house.admin.post("/admin/pools/t2i/workers", json={"url": url})
    assert (400, "invalid_value", "url") == code_of(answered)


async def test_the_description_follows_a_reload(house):
    """`/openapi.json` tells the limits that hold now, and gauges only of pools that are there."""
    text, image = await house.two_tracks()
    await house.client.get("/openapi.json")
    house.source = lambda: house.config({"t2i": [text]}, limits={"max_prompt_chars": 55})
    await house.admin.post("/admin/reload")
    assert '"maxLength":55' in (await house.client.get("/openapi.json")).text
    await until(lambda: len(house.runtime._queues) == 1)
    assert 'turnout_queue_depth{pool="i2i"}' not in (await house.admin.get("/metrics")).text
    assert image is not None
