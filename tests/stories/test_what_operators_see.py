"""What is wrong with a worker can be seen: in the readiness, the pools, the metrics and the log."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.house import code_of
from tests.support.scripted_worker import after
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def worker_of(house, position=0):
    """Returns what the admin port says of one worker of the text pool."""
    return (await house.admin.get("/admin/pools")).json()["t2i"]["workers"][position]


async def test_a_silent_worker_is_seen(house):
    """A worker too busy to answer its probe is named, though its pool may still serve later."""
    gate = asyncio.Event()
    only = await house.worker("T2I", script=after(gate))
    await house.open({"t2i": [only]})
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: only.running == 1)
    only.silent = True
    await until(lambda: house.pool("t2i").workers[0].state == "silent")
    pool = (await house.client.get("/readyz")).json()["pools"]["t2i"]
    assert (True, "every worker of pool 't2i' is too busy to answer its probe") == (
        pool["ready"],
        pool["missing"],
    )
    assert "does not answer in time" == (await worker_of(house))["reason"]
    metrics = (await house.admin.get("/metrics")).text
    assert 'turnout_worker_up{pool="t2i",worker="t2i-0"} 0.0' in metrics
    house.clock.passed += 200
    waits = (await house.admin.get("/admin/pools")).json()["t2i"]["expected_wait_seconds"]
    assert waits > 60, "one that is overdue by far is not about to end"
    gate.set()
    assert 200 == (await running).status_code
    only.silent = False


async def test_each_state_has_its_reason(house):
    """Down, drained and resting workers say why; one that works says nothing."""
    text = await house.worker("T2I")
    await house.open({"t2i": [text, "http://127.0.0.1:9"]}, wait=False)
    await until(lambda: house.pool("t2i").workers[0].is_in_service)
    assert None is (await worker_of(house))["reason"]
    await until(lambda: "refuses" in house.pool("t2i").workers[1].detail)
    assert "refuses the connection" == (await worker_of(house, 1))["reason"]
    drained = (await house.admin.post("/admin/workers/t2i-0/drain")).json()
    assert "an operator took it out of service" == drained["reason"]
    assert (503, "no_worker_available", None) == code_of(await house.generate(prompt="p"))
    await house.admin.post("/admin/workers/t2i-0/resume")
    house.pool("t2i").workers[0].breaker.trip(house.clock(), "slow")
    resting = await worker_of(house)
    assert ("resting", "slow") == (resting["state"], resting["reason"])
    house.clock.passed += 6
    await until(lambda: house.pool("t2i").workers[0].state == "on_trial")
    assert "slow" == (await worker_of(house))["reason"]


async def test_text_only_says_that_a_task_of_the_pool_is_lacking(house):
    """A text worker in a text pool lacks nothing; in a pool for edits it does."""
    text, other = await house.worker("T2I"), await house.worker("T2I")
    await house.open({"t2i": [text], "both": [other]}, wait=False)
    await until(lambda: all(p.workers[0].capability.reported for p in house.runtime.routes.pools))
    pools = (await house.admin.get("/admin/pools")).json()
    assert (False, True) == tuple(
        pools[name]["workers"][0]["text_only"] for name in ("t2i", "both")
    )
    removed = (await house.admin.delete("/admin/workers/both-0")).json()
    assert not removed["text_only"], "it is in no pool any more"


async def test_what_operators_do_is_logged(house, capsys):
    """Each change of a worker is an event with its name."""
    text = await house.worker("T2I")
    await house.open({"t2i": [text]}, server={"log_level": "info", "log_format": "json"})
    await house.admin.post("/admin/workers/t2i-0/drain")
    await house.admin.post("/admin/workers/t2i-0/resume")
    said = [line for line in capsys.readouterr().out.splitlines() if '"operator"' in line]
    assert ["drain", "resume"] == [
        action for line in said for action in ("drain", "resume") if f'"{action}"' in line
    ]
