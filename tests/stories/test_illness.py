"""Workers that fall ill in every way: rested, tried again, no reason for a second run."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import after, answer, changed, hang_up, status
from tests.support.serve import until

pytestmark = pytest.mark.anyio

MEMORY = status(500, b"CUDA out of memory. Tried to allocate 2.00 GiB")
BROKEN = status(500, b'{"error":"connection to the encoder failed"}', "application/json")
BUSY = status(503, b"busy")


async def test_a_pool_whose_work_fails_is_rested_and_comes_back(house):
    """T looks healthy, its encoder is gone: three failures, then 503, later a trial (B16)."""
    only = await house.worker("T2I", script=BROKEN)
    await house.open({"t2i": [only]})
    codes = [code_of(await house.generate(prompt=f"{n}"))[0] for n in range(30)]
    assert [502] * 3 + [503] * 27 == codes
    assert 3 == only.hits
    refused = await house.generate(prompt="p")
    assert 1 <= int(refused.headers["retry-after"]) <= 5
    assert not house.runtime.readiness()["ready"]
    text = (await house.admin.get("/metrics")).text
    assert 'turnout_rests_total{pool="t2i",reason="bad_status",worker="t2i-0"} 1.0' in text
    house.clock.passed += 5
    assert 502 == (await house.generate(prompt="p")).status_code, (
        "the trial fails, and rest doubles"
    )
    house.clock.passed += 6
    assert 503 == (await house.generate(prompt="p")).status_code
    only.script = answer
    house.clock.passed += 5
    assert [200, 200] == [(await house.generate(prompt="p")).status_code for _ in range(2)]


async def test_a_pool_that_is_rested_spills_over_where_configured(house):
    """While the text pool is rested its requests go to the workers that see, if they may (B16)."""
    text, both = await house.worker("T2I", script=BROKEN), await house.worker()
    await house.open({"t2i": [text], "both": [both]})
    pools = [await house.generate(prompt=f"{n}") for n in range(6)]
    assert [502] * 3 + [200] * 3 == [response.status_code for response in pools]
    assert "both" == pools[-1].headers["x-turnout-pool"]


async def test_a_lost_encoder_closes_its_pool_within_two_probes(house):
    """A pool whose encoder stops answering refuses at once, and serves when it is back (B16)."""
    text, encoder = await house.worker("T2I"), await house.worker("T2I")
    await house.open({"t2i": [text]}, pool={"encoder_url": encoder.url})
    assert 200 == (await house.generate(prompt="p")).status_code
    await encoder.stop()
    await until(lambda: house.pool("t2i").missing(house.pool("t2i").tasks[0]))
    refused = await house.generate(prompt="p")
    assert (503, "no_worker_available", None) == code_of(refused)
    assert 1 == text.hits
    await encoder.start()
    await until(lambda: house.runtime.readiness()["ready"])
    assert 200 == (await house.generate(prompt="p")).status_code


async def test_spilled_text_leaves_one_slot_for_edits(house):
    """Text that spills over to two workers that see holds one of them at most."""
    gate = asyncio.Event()
    one, two = await house.worker(script=after(gate)), await house.worker(script=after(gate))
    await house.open({"t2i": ["http://127.0.0.1:9"], "both": [one, two]}, wait=False)
    await until(lambda: sum(w.is_in_service for w in house.pool("both").workers) == 2)
    calls = [asyncio.create_task(house.generate(prompt=f"{n}")) for n in range(3)]
    await until(lambda: one.hits + two.hits == 1 and house.queue("both").waiting == 2)
    calls.append(asyncio.create_task(house.generate(prompt="p", image=DATA8)))
    await until(lambda: one.hits + two.hits == 2)
    assert 1 == sum(request.path.endswith("edits") for request in one.requests + two.requests)
    gate.set()
    assert {200} == {(await call).status_code for call in calls}


async def test_out_of_memory_once_is_nothing_and_three_times_is_a_rest(house):
    """Once: 503 and the worker stays. Three in a row: it is rested, others serve (B49)."""
    first, second = await house.pair()
    first.script = MEMORY
    once = await house.generate(prompt="p")
    assert (503, "worker_out_of_memory", None) == code_of(once)
    assert 1 <= int(once.headers["retry-after"]) <= 120
    assert house.pool("t2i").workers[0].is_in_service
    await house.admin.post("/admin/workers/t2i-1/drain")
    for _ in range(2):
        assert 503 == (await house.generate(prompt="p")).status_code
    await house.admin.post("/admin/workers/t2i-1/resume")
    assert "resting" == house.pool("t2i").workers[0].state
    assert {200} == {(await house.generate(prompt="p")).status_code for _ in range(4)}
    assert (3, 4) == (first.hits, second.hits)
    assert (
        'turnout_worker_resting{pool="t2i",worker="t2i-0"} 1.0'
        in (await house.admin.get("/metrics")).text
    )


async def test_a_slow_worker_is_noticed_and_gets_nothing_new(house):
    """A worker that is far slower than the others is rested while its slow request still runs."""
    gate = asyncio.Event()
    first, second = await house.pair()
    for n in range(20):
        assert 200 == (await house.generate(prompt=f"{n}")).status_code
    first.script = second.script = after(gate)
    calls = [asyncio.create_task(house.generate(prompt="slow"))]
    await until(lambda: first.running + second.running == 1)
    slow = house.pool("t2i").workers[0 if first.running else 1]
    house.clock.passed += 60
    await until(lambda: slow.state == "resting")
    assert "slow" == slow.breaker.reason
    gate.set()
    assert 200 == (await calls[0]).status_code
    before = (first if slow.name == "t2i-0" else second).hits
    assert {200} == {(await house.generate(prompt="p")).status_code for _ in range(4)}
    assert before == (first if slow.name == "t2i-0" else second).hits


async def test_a_worker_too_busy_to_answer_probes_keeps_its_work(house):
    """A silent worker gets nothing new, ends what it has, and is used right after (B50)."""
    gate = asyncio.Event()
    only = await house.worker(script=after(gate))
    await house.open({"i2i": [{"url": only.url, "capacity": 2}]})
    running = asyncio.create_task(house.generate(prompt="p", image=DATA8))
    await until(lambda: only.running == 1)
    only.silent = True
    worker = house.pool("i2i").workers[0]
    await until(lambda: worker.state == "silent")
    waiting = asyncio.create_task(house.generate(prompt="q", image=DATA8))
    await until(lambda: house.queue("i2i").waiting == 1)
    assert 1 == only.hits
    gate.set()
    assert [200, 200] == [(await call).status_code for call in (running, waiting)]
    only.silent = False


async def test_late_and_returning_workers_are_used_without_any_call(house):
    """A gateway starts without workers, and uses each when it comes, goes and comes again (B51)."""
    only = await house.worker()
    await only.stop()
    await house.open({"both": [only]}, wait=False)
    assert (200, 503) == (
        (await house.client.get("/health")).status_code,
        (await house.client.get("/readyz")).status_code,
    )
    for _ in range(3):
        await only.start()
        await until(lambda: house.runtime.readiness()["ready"])
        assert 200 == (await house.generate(prompt="p")).status_code
        await only.stop()
        await until(lambda: not house.runtime.readiness()["ready"])


async def test_a_request_that_breaks_workers_does_not_take_the_pool_with_it(house):
    """The same request breaks a second worker, and that is not held against it."""
    first, second = await house.pair(pool={"probe_seconds": 60})
    first.script = second.script = hang_up
    assert 502 == (await house.generate(prompt="poison", seed=1)).status_code
    assert 502 == (await house.generate(prompt="poison", seed=1)).status_code
    assert (1, 1) == (first.hits, second.hits)
    up = [worker.health.is_up for worker in house.pool("t2i").workers]
    assert [False, True] == up, "the first is out, the second is not"


async def test_resends_have_a_budget(house):
    """Where every worker says busy, ten resends in ten seconds are made and no more (R7)."""
    first, second = await house.pair()
    first.script = second.script = BUSY
    for n in range(20):
        assert 503 == (await house.generate(prompt=f"{n}")).status_code
    assert 20 + 10 == first.hits + second.hits
    text = (await house.admin.get("/metrics")).text
    assert 'turnout_resends_denied_total{pool="t2i"}' in text


async def test_token_counts_give_an_external_encoder_away(house):
    """A stock worker that counts tokens in a text answer never gets a picture (B15)."""
    usage = {"prompt_tokens": 20, "completion_tokens": 65}
    first, second = await house.worker(script=changed(usage=usage)), await house.worker()
    await house.open({"both": [first, second]})
    assert 200 == (await house.generate(prompt="p")).status_code
    assert {"both-1"} == {
        (await house.generate(prompt="p", image=DATA8)).headers["x-turnout-worker"]
        for _ in range(3)
    }
    text = (await house.admin.get("/metrics")).text
    assert 'turnout_worker_text_only{pool="both",worker="both-0"} 1.0' in text


async def test_quick_bare_failures_of_edits_give_an_external_encoder_away(house):
    """Two edits that fail at once while text works: text-only, and the second is served (B15)."""
    first = await house.worker("T2I")  # it fails edits exactly as the real one does
    second = await house.worker()
    first.info = second.info = False
    await house.open({"both": [first, second]})
    assert 200 == (await house.generate(prompt="p")).status_code
    answers = [await house.generate(prompt=f"{n}", image=DATA8) for n in range(4)]
    assert [502, 200, 200, 200] == [response.status_code for response in answers]
    assert "2" == answers[1].headers["x-turnout-attempts"]
    assert 2 == sum(request.path.endswith("edits") for request in first.requests)
    assert house.pool("both").workers[0].capability.is_blind


async def test_configured_tasks_win_over_what_a_worker_reports(house):
    """`tasks` of a worker beat its report, in both directions (B17)."""
    blind, sighted = await house.worker("T2I", script=answer), await house.worker("TI2I")
    sections = [{"url": blind.url, "tasks": ["t2i"]}, {"url": sighted.url}]
    await house.open({"both": sections})
    sighted.task_type = "T2I"
    await until(lambda: house.pool("both").missing(house.pool("both").tasks[0]))
    assert 503 == (await house.generate(prompt="p", image=DATA8)).status_code
    sighted.task_type = "TI2I"
    await until(lambda: not house.pool("both").missing(house.pool("both").tasks[0]))
    edit = await house.generate(prompt="p", image=DATA8)
    assert (200, "both-1") == (edit.status_code, edit.headers["x-turnout-worker"])
