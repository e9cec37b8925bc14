"""Workers and configuration change while the gateway runs, and nothing that runs is lost."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import InvalidRequest
from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import after
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def state_of(house, name):
    """Returns what the admin port says of a worker, None where it is not there."""
    pools = (await house.admin.get("/admin/pools")).json()
    workers = [worker for pool in pools.values() for worker in pool["workers"]]
    return next((worker for worker in workers if worker["name"] == name), None)


async def test_a_worker_is_added_and_used(house):
    """A worker that is added is probed, gets work, and has the next free name."""
    first, second = await house.worker("T2I"), await house.worker("T2I")
    await house.open({"t2i": [first]})
    answer = await house.admin.post("/admin/pools/t2i/workers", json={"url": second.url})
    assert (201, "t2i-1", "down") == (
        answer.status_code,
        answer.json()["name"],
        answer.json()["state"],
    )
    await until(lambda: house.pool("t2i").workers[1].is_in_service)
    await first.stop()
    assert "t2i-1" == (await house.generate(prompt="p")).headers["x-turnout-worker"]


@pytest.mark.parametrize(
    ("pool", "body", "expected"),
    [
        ("nobody", {"url": "http://127.0.0.1:9"}, (404, "not_found", None)),
        ("t2i", {"url": "ftp://x"}, (400, "invalid_value", "url")),
        ("t2i", {}, (400, "invalid_value", "url")),
        ("t2i", {"url": "http://127.0.0.1:9", "size": 1}, (400, "invalid_value", "size")),
        ("t2i", {"url": "http://127.0.0.1:9", "name": "t2i-0"}, (400, "invalid_value", "name")),
        ("t2i", [], (400, "invalid_value", None)),
    ],
)
async def test_a_worker_that_cannot_be_added_is_refused(house, pool, body, expected):
    """What is wrong with a new worker is told, and nothing changes."""
    await house.two_tracks()
    assert expected == code_of(await house.admin.post(f"/admin/pools/{pool}/workers", json=body))
    assert 1 == len(house.pool("t2i").workers)


async def test_a_worker_is_not_added_twice(house):
    """A worker at an address that is known is refused."""
    text, _ = await house.two_tracks()
    again = await house.admin.post("/admin/pools/i2i/workers", json={"url": text.url})
    assert (400, "invalid_value", "url") == code_of(again)


async def test_a_drained_worker_ends_its_work_and_gets_nothing_new(house):
    """Drained: what runs ends well, the rest goes elsewhere; resumed: it is used again."""
    first, _second = await house.pair()
    gate = asyncio.Event()
    first.script = after(gate)
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: first.running == 1)
    drained = (await house.admin.post("/admin/workers/t2i-0/drain")).json()
    assert ("drained", 1) == (drained["state"], drained["in_flight"])
    for _ in range(3):
        assert "t2i-1" == (await house.generate(prompt="p")).headers["x-turnout-worker"]
    gate.set()
    assert "t2i-0" == (await running).headers["x-turnout-worker"]
    assert 1 == first.hits
    assert "up" == (await house.admin.post("/admin/workers/t2i-0/resume")).json()["state"]
    await house.admin.post("/admin/workers/t2i-1/drain")
    assert "t2i-0" == (await house.generate(prompt="p")).headers["x-turnout-worker"]


async def test_a_removed_worker_ends_its_work(house):
    """A worker that is removed while it works answers its caller, and is gone from the list."""
    first, _second = await house.pair()
    gate = asyncio.Event()
    first.script = after(gate)
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: first.running == 1)
    assert 200 == (await house.admin.delete("/admin/workers/t2i-0")).status_code
    assert None is await state_of(house, "t2i-0")
    assert "t2i-1" == (await house.generate(prompt="p")).headers["x-turnout-worker"]
    gate.set()
    assert 200 == (await running).status_code
    assert (404, "not_found", None) == code_of(await house.admin.delete("/admin/workers/t2i-0"))
    probes = len(first.probes)
    await asyncio.sleep(0.3)
    assert probes == len(first.probes), "nobody asks after it any more"


async def test_operators_routes_are_not_for_clients(house):
    """The clients' port knows no admin route."""
    await house.two_tracks()
    for path in ("/admin/reload", "/admin/workers/t2i-0/drain", "/admin/pools/t2i/workers"):
        assert 404 == (await house.client.post(path)).status_code


async def test_a_reload_keeps_what_stays(house):
    """Workers that stay keep their work and their health; limits hold from then on."""
    first, second = await house.worker("T2I"), await house.worker("T2I")
    await house.open({"t2i": [first]})
    gate = asyncio.Event()
    first.script = after(gate)
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: first.running == 1)
    kept = house.pool("t2i").workers[0]
    limits = {"max_prompt_chars": 5}
    house.source = lambda: house.config({"t2i": [first, second]}, limits=limits)
    assert {"needs_restart": ["artifacts"]} == (await house.admin.post("/admin/reload")).json()
    assert kept is house.pool("t2i").workers[0]
    assert (1, True) == (kept.in_flight, kept.health.is_up)
    await until(lambda: house.pool("t2i").workers[1].is_in_service)
    assert "t2i-1" == (await house.generate(prompt="p")).headers["x-turnout-worker"]
    assert 400 == (await house.generate(prompt="too long")).status_code
    gate.set()
    assert 200 == (await running).status_code


async def test_a_reload_with_a_mistake_changes_nothing(house):
    """A configuration that cannot be read is refused with its reason, and all goes on."""
    await house.two_tracks()
    routes = house.runtime.routes

    def broken():
        raise InvalidRequest("pools.t2i.queue_limt: unknown key; did you mean 'queue_limit'?")

    house.source = broken
    refused = await house.admin.post("/admin/reload")
    assert (400, "invalid_value", None) == code_of(refused)
    assert "queue_limit" in refused.json()["error"]["message"]
    assert routes is house.runtime.routes
    assert 200 == (await house.generate(prompt="p")).status_code


async def test_a_pool_that_is_gone_serves_those_who_wait_in_it(house):
    """Who waits in a pool that a reload takes away is still served; new requests are not."""
    text, image = await house.two_tracks()
    gate = asyncio.Event()
    image.script = after(gate)
    calls = [asyncio.create_task(house.generate(prompt=f"{n}", image=DATA8)) for n in range(3)]
    await until(lambda: house.queue("i2i").waiting == 2)
    house.source = lambda: house.config({"t2i": [text]})
    await house.admin.post("/admin/reload")
    refused = await house.generate(prompt="p", image=DATA8)
    assert (503, "no_worker_available", None) == code_of(refused)
    gate.set()
    assert [200, 200, 200] == [(await call).status_code for call in calls]
    probes = len(image.probes)
    await until(lambda: len(house.runtime._queues) == 1)
    await asyncio.sleep(0.3)
    assert len(image.probes) <= probes + 4, "an idle pool that is gone is forgotten"


async def test_a_drain_waits_before_it_refuses(house):
    """In the drain's delay `/readyz` is 503 and new requests are still served (B55)."""
    text, _ = await house.two_tracks(server={"log_level": "error", "drain_delay_seconds": 0.6})
    hurry = asyncio.Event()
    gate = asyncio.Event()
    text.script = after(gate)
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: text.running == 1)
    drain = asyncio.create_task(house.runtime.drain(hurry))
    await until(lambda: house.runtime.is_draining)
    assert 503 == (await house.client.get("/readyz")).status_code
    queued = asyncio.create_task(house.generate(prompt="q"))
    await until(lambda: house.queue("t2i").waiting == 1)
    await asyncio.sleep(0.7)
    assert (503, "draining", None) == code_of(await house.generate(prompt="r"))
    gate.set()
    assert [200, 200] == [(await call).status_code for call in (running, queued)]
    await drain
