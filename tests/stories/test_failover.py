"""What happens when workers fail: served elsewhere if nothing began, never run twice."""

from __future__ import annotations

import asyncio

import pytest

from gateway.routing.health import Sign
from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import (
    after,
    hang,
    hang_up,
    status,
)
from tests.support.serve import dead_url, until

pytestmark = pytest.mark.anyio

NOT_IMPLEMENTED = (
    b"NotImplementedError: I2I mode is not supported yet via external SGLang encoder URL."
)


@pytest.mark.parametrize("code", [429, 503])
async def test_a_busy_worker_is_left_out_and_another_serves(house, code):
    """A worker that says busy never began: the other serves, one execution, two attempts (B45)."""
    first, second = await house.pair()
    first.script = status(code, b'{"error":"queue full"}', "application/json")
    response = await house.generate(prompt="p")
    assert (200, "2", "t2i-1") == (
        response.status_code,
        response.headers["x-turnout-attempts"],
        response.headers["x-turnout-worker"],
    )
    assert (1, 1) == (first.hits, second.hits)
    assert house.pool("t2i").workers[0].health.is_up, "busy is not ill (B52)"


async def test_a_refused_connection_is_served_by_another(house):
    """A worker that is gone began nothing: the other one serves, and the first is out (B45)."""
    first, second = await house.pair(pool={"probe_seconds": 60})
    await first.stop()
    response = await house.generate(prompt="p")
    assert (200, "2") == (response.status_code, response.headers["x-turnout-attempts"])
    assert (0, 1) == (first.hits, second.hits)
    assert not house.pool("t2i").workers[0].health.is_up


async def test_a_refused_connection_with_nobody_else_is_a_503(house):
    """Where the only worker refuses, the caller is told to come back."""
    only = await house.worker("T2I")
    await house.open({"t2i": [only]}, pool={"probe_seconds": 60})
    await only.stop()
    response = await house.generate(prompt="p")
    assert (503, "no_worker_available", None) == code_of(response)
    assert "x-should-retry" not in response.headers
    assert 1 <= int(response.headers["retry-after"]) <= 120


async def test_a_busy_worker_with_nobody_else_is_a_503(house):
    """Where the only worker is busy with others, the caller is told to come back."""
    only = await house.worker("T2I", script=status(503, b"busy"))
    await house.open({"t2i": [only]})
    assert (503, "no_worker_available", None) == code_of(await house.generate(prompt="p"))
    assert 1 == only.hits


async def test_a_worker_that_hangs_is_a_504_at_the_deadline(house):
    """A silent worker ends in 504; its slot stays taken, as nobody knows that it stopped (R10)."""
    first, second = await house.pair(pool={"deadline_seconds": 0.4})
    first.script = hang
    response = await house.generate(prompt="p")
    assert (504, "deadline_exceeded", None) == code_of(response)
    assert "false" == response.headers["x-should-retry"]
    assert (1, 0) == (first.hits, second.hits)
    worker = house.pool("t2i").workers[0]
    assert 1 == worker.in_flight
    await until(lambda: worker.in_flight == 0)  # a further deadline later it is given up
    assert "hung" in (await house.admin.get("/metrics")).text


async def test_a_late_answer_frees_the_slot(house):
    """After a 504 the slot is free as soon as the worker really ends."""
    gate = asyncio.Event()
    only = await house.worker("T2I", script=after(gate))
    await house.open({"t2i": [only]}, pool={"deadline_seconds": 2})
    calls = await asyncio.gather(*(house.generate(prompt="p") for _ in range(2)))
    assert [504, 504] == [call.status_code for call in calls]
    assert 1 == only.hits, "the second never left the line"
    gate.set()
    await until(lambda: house.pool("t2i").workers[0].in_flight == 0)
    assert 200 == (await house.generate(prompt="p")).status_code


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (500, NOT_IMPLEMENTED),
        (500, b"NotImplementedError"),
        (400, b'{"detail":"input_reference is not supported for T2I models."}'),
    ],
)
async def test_a_text_only_refusal_is_served_elsewhere(house, code, body):
    """A refusal as text-only comes before any work: another worker serves (B15)."""
    blind, sighted = await house.pair("i2i")
    blind.info = sighted.info = False
    await until(lambda: all(len(w.probes) > 4 for w in (blind, sighted)))
    blind.script = status(code, body)
    response = await house.generate(prompt="p", image=DATA8)
    assert (200, "i2i-1") == (response.status_code, response.headers["x-turnout-worker"])
    worker = house.pool("i2i").workers[0]
    assert worker.health.is_up, "it is a routing fault, not an illness"
    for _ in range(3):
        assert 200 == (await house.generate(prompt="p", image=DATA8)).status_code
    assert 1 == blind.hits, "it is never sent a picture again"
    text = (await house.admin.get("/metrics")).text
    assert 'turnout_worker_text_only{pool="i2i",worker="i2i-0"} 1.0' in text


@pytest.mark.parametrize("code", [400, 422])
async def test_a_request_that_the_model_cannot_take_is_the_callers_fault(house, code):
    """A worker's 400 is a 400 without the worker's words, and is asked of nobody else (R5)."""
    first, second = await house.pair()
    first.script = status(code, b'{"detail":"canary: prompt too long"}', "application/json")
    response = await house.generate(prompt="p")
    assert (400, "invalid_value", None) == code_of(response)
    assert (1, 0) == (first.hits, second.hits)
    assert "canary" not in response.text


async def test_a_text_only_refusal_with_nobody_else_is_a_503(house):
    """Where nobody sees, the caller gets 503 and not the worker's 500 (B15)."""
    blind = await house.worker("TI2I", script=status(500, NOT_IMPLEMENTED))
    await house.open({"i2i": [blind]})
    assert (503, "no_worker_available", None) == code_of(
        await house.generate(prompt="p", image=DATA8)
    )


async def test_a_worker_lost_at_work_is_out_until_a_probe_says_otherwise(house):
    """A worker that dies at work gets nothing more until it answers a probe (B47)."""
    first, second = await house.pair(pool={"probe_seconds": 60})
    first.script = hang_up
    assert 502 == (await house.generate(prompt="p")).status_code
    assert ["t2i-1"] * 3 == [
        (await house.generate(prompt="p")).headers["x-turnout-worker"] for _ in range(3)
    ]
    assert (1, 3) == (first.hits, second.hits)


async def test_those_who_wait_move_to_another_worker(house):
    """When a worker dies at work, the requests in line go to the other one (B47)."""
    first, second = await house.pair(pool={"probe_seconds": 60})
    gate = asyncio.Event()
    first.script, second.script = after(gate, hang_up), after(gate)
    calls = [asyncio.create_task(house.generate(prompt="p")) for _ in range(5)]
    await until(lambda: house.queue("t2i").waiting == 3)
    gate.set()
    codes = sorted([(await call).status_code for call in calls])
    assert [200, 200, 200, 200, 502] == codes
    assert (1, 4) == (first.hits, second.hits)


async def test_those_who_wait_move_to_another_pool_that_lists_their_task(house):
    """When their pool goes down, waiting T2I requests spill over where that is configured (R4)."""
    text, both = await house.worker("T2I"), await house.worker("TI2I")
    gate = asyncio.Event()
    text.script = after(gate, hang_up)
    await house.open({"t2i": [text], "both": [both]}, pool={"probe_seconds": 60})
    calls = [asyncio.create_task(house.generate(prompt="p")) for _ in range(3)]
    await until(lambda: house.queue("t2i").waiting == 2)
    gate.set()
    responses = await asyncio.gather(*calls)
    assert [200, 200, 502] == sorted(response.status_code for response in responses)
    assert {"both"} == {r.headers["x-turnout-pool"] for r in responses if r.status_code == 200}
    await text.stop()
    house.pool("t2i").workers[0].see(Sign.GOOD_PROBE, 0.0)  # it was well a moment ago
    response = await house.generate(prompt="p")
    assert (200, "both", "2") == (
        response.status_code,
        response.headers["x-turnout-pool"],
        response.headers["x-turnout-attempts"],
    )


async def test_a_worker_without_an_address_is_unreachable(house):
    """A name that does not resolve, or a dead port, is never up, and the other worker serves."""
    text = await house.worker("T2I")
    await house.open({"t2i": [dead_url(), text]}, wait=False)
    await until(lambda: house.pool("t2i").workers[1].health.is_up)
    assert 200 == (await house.generate(prompt="p")).status_code
    assert not house.pool("t2i").workers[0].health.is_up
