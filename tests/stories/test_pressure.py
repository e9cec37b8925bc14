"""More work than workers: who goes first, who is told what, and who is refused at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import after
from tests.support.serve import until

pytestmark = pytest.mark.anyio

SMALL, LARGE = {"size": "256x256"}, {"size": "1024x1024"}


async def hold(house, *, pool=None, **worker):
    """Opens one pool of one worker that is at work until the returned gate opens."""
    gate = asyncio.Event()
    only = await house.worker("T2I", script=after(gate), **worker)
    await house.open({"t2i": [only]}, pool=pool)
    first = asyncio.create_task(house.generate(prompt="first", **SMALL))
    await until(lambda: only.hits == 1)
    return gate, only, first


async def line_up(house, only, *calls):
    """Sends requests, each after the one before stands in line; returns their tasks."""
    tasks = []
    for headers, prompt, size in calls:
        call = house.generate(headers=headers, prompt=prompt, **size)
        tasks.append(asyncio.create_task(call))
        await until(lambda: house.queue("t2i").waiting == len(tasks))
    return tasks


async def train(house, only, seconds, count=8):
    """Lets the gateway learn that a small picture takes so many seconds."""
    for n in range(count):
        gate = asyncio.Event()
        only.script = after(gate)
        call = asyncio.create_task(house.generate(prompt=f"{n}", **SMALL))
        await until(lambda: only.running == 1)
        house.clock.passed += seconds
        gate.set()
        assert 200 == (await call).status_code


@pytest.mark.parametrize(
    ("order", "served"),
    [
        ("on_time", ["small", "large"]),
        ("sjf", ["small", "large"]),
        ("edf", ["small", "large"]),
        ("fifo", ["large", "small"]),
    ],
)
async def test_a_small_picture_does_not_wait_behind_a_large_one(house, order, served):
    """Every order but first come first served puts the one that is due sooner first."""
    gate, only, first = await hold(house, pool={"order": order})
    calls = await line_up(house, only, (None, "large", LARGE), (None, "small", SMALL))
    gate.set()
    await asyncio.gather(first, *calls)
    assert served == [request.texts["prompt"] for request in only.requests][1:]


async def test_a_flood_of_one_caller_does_not_keep_another_waiting(house):
    """Behind twelve requests of one key, the one of another is served among the first."""
    gate, only, first = await hold(house, pool={"order": "fifo"})
    flood = [({"authorization": "Bearer a"}, f"a{n}", SMALL) for n in range(12)]
    calls = await line_up(house, only, *flood, ({"authorization": "Bearer b"}, "b", SMALL))
    gate.set()
    await asyncio.gather(first, *calls)
    assert [r.texts["prompt"] for r in only.requests].index("b") <= 4


async def test_a_full_line_says_when_to_come_back(house):
    """`Retry-After` is the time that the line needs, as learned from what was finished."""
    gate, only, first = await hold(house, pool={"queue_limit": 3})
    gate.set()
    await first
    await train(house, only, seconds=10)
    gate = asyncio.Event()
    only.script = after(gate)
    first = asyncio.create_task(house.generate(prompt="first", **SMALL))
    await until(lambda: only.running == 1)
    calls = await line_up(house, only, *[(None, f"{n}", SMALL) for n in range(3)])
    refused = await house.generate(prompt="one too many", **SMALL)
    assert (429, "queue_full", None) == code_of(refused)
    assert 35 <= int(refused.headers["retry-after"]) <= 55
    gate.set()
    await asyncio.gather(first, *calls)


async def test_position_and_expected_wait_are_known(house):
    """The admin port lists who waits in the order of service, with the wait of each."""
    gate, only, first = await hold(house)
    calls = await line_up(house, only, (None, "large", LARGE), (None, "small", SMALL))
    pool = (await house.admin.get("/admin/pools")).json()["t2i"]
    small, large = pool["line"]
    assert (1, 2) == (small["position"], large["position"])
    assert small["predicted_seconds"] < large["predicted_seconds"]
    assert 0 < small["expected_wait_seconds"] < large["expected_wait_seconds"]
    assert large["expected_wait_seconds"] < pool["expected_wait_seconds"]
    gate.set()
    ids = [(await call).headers["x-request-id"] for call in calls]
    assert ids == [large["id"], small["id"]]
    await first


async def test_a_deadline_that_cannot_be_met_is_refused_at_once(house):
    """What could not be done in time, even if all went well, waits for nothing (504 at once)."""
    only = await house.worker("T2I")
    await house.open({"t2i": [only]})
    await train(house, only, seconds=10)
    gate = asyncio.Event()
    only.script = after(gate)
    running = asyncio.create_task(house.generate(prompt="running", **SMALL))
    await until(lambda: only.running == 1)
    hits = only.hits
    short = {"x-turnout-deadline-seconds": "15"}
    refused = await house.generate(headers=short, prompt="p", **SMALL)
    assert (504, "deadline_exceeded", None) == code_of(refused)
    assert "false" == refused.headers["x-should-retry"]
    assert float(refused.headers["x-turnout-queue-seconds"]) < 1
    enough = {"x-turnout-deadline-seconds": "25"}
    waiting = asyncio.create_task(house.generate(headers=enough, prompt="p", **SMALL))
    await until(lambda: house.queue("t2i").waiting == 1)
    gate.set()
    assert [200, 200] == [(await call).status_code for call in (running, waiting)]
    assert hits + 1 == only.hits


async def test_a_caller_may_ask_for_less_time_and_not_for_more(house):
    """The header shortens the pool's deadline; a longer one changes nothing."""
    _, only, first = await hold(house, pool={"deadline_seconds": 1.5})
    for seconds in ("0.3", "1000"):
        header = {"x-turnout-deadline-seconds": seconds}
        late = await house.generate(headers=header, prompt="p", **SMALL)
        assert (504, "deadline_exceeded", None) == code_of(late)
    assert 1 == only.hits
    await first


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1e3", "nan", "", "0.0"])
async def test_a_deadline_that_is_no_time_is_a_400(house, value):
    """A deadline header that is no number of seconds above zero is the caller's mistake."""
    await house.two_tracks()
    header = {"x-turnout-deadline-seconds": value}
    response = await house.generate(headers=header, prompt="p")
    assert (400, "invalid_value", "x-turnout-deadline-seconds") == code_of(response)


async def test_requests_of_one_size_fill_a_worker_that_batches(house):
    """Three of one size go together to a worker of three, past one of another size."""
    gate = asyncio.Event()
    only = await house.worker("T2I", script=after(gate))
    await house.open({"t2i": [{"url": only.url, "capacity": 3}]}, pool={"order": "fifo"})
    first = asyncio.create_task(house.generate(prompt="first", **LARGE))
    await until(lambda: only.hits == 1)
    only.silent = True  # too busy to say that it has two slots left
    await until(lambda: house.pool("t2i").workers[0].state == "silent")
    waiting = [SMALL, LARGE, SMALL, SMALL]
    calls = await line_up(house, only, *[(None, f"{n}", size) for n, size in enumerate(waiting)])
    only.script = after(then := asyncio.Event())
    gate.set()
    await first
    await until(lambda: only.running == 3)
    assert {"256x256"} == {request.texts["size"] for request in only.requests[1:]}
    only.silent = False
    then.set()
    await asyncio.gather(*calls)


async def test_text_overflows_to_a_free_worker_that_sees(house):
    """Where the text line is full, a pool that lists text and has a slot free takes one more."""
    gate = asyncio.Event()
    text, both = await house.worker("T2I", script=after(gate)), await house.worker()
    await house.open({"t2i": [text], "both": [both]}, pool={"queue_limit": 0})
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: text.running == 1)
    assert "both" == (await house.generate(prompt="q")).headers["x-turnout-pool"]
    both.script = after(gate)
    edit = asyncio.create_task(house.generate(prompt="p", image=DATA8))
    await until(lambda: both.running == 1)
    assert (429, "queue_full", None) == code_of(await house.generate(prompt="r"))
    gate.set()
    assert [200, 200] == [(await call).status_code for call in (running, edit)]
