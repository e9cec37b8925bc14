"""A client that leaves frees its place in line at once, and a slot only when the worker ends."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
import pytest

from tests.support.pictures import DATA8
from tests.support.scripted_worker import after
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def leave(call):
    """Closes a client's connection while it waits for its answer."""
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError, httpx.HTTPError):
        await call


async def test_a_client_that_leaves_the_line_frees_its_place(house):
    """Three of five clients leave the line: they are out, and never reach a worker (B46)."""
    _, image = await house.two_tracks()
    gate = asyncio.Event()
    image.script = after(gate)
    calls = []
    for number in range(6):
        fields = {"prompt": f"p{number}", "image": DATA8}
        calls.append(asyncio.create_task(house.generate(**fields)))
        await until(lambda: house.queue("i2i").waiting + image.running == len(calls))
    for call in calls[2:5]:
        await leave(call)
    await until(lambda: house.queue("i2i").waiting == 2)
    assert "[waiting 2 | in flight 1/1" in repr(house.queue("i2i"))
    gate.set()
    assert [200] * 3 == [(await calls[n]).status_code for n in (0, 1, 5)]
    assert ["p0", "p1", "p5"] == [request.texts["prompt"] for request in image.requests]


async def test_a_client_that_leaves_at_work_frees_nothing_until_the_worker_ends(house):
    """The slot of an abandoned request stays taken, and the next one waits for it (R10, B46)."""
    _, image = await house.two_tracks()
    gate = asyncio.Event()
    image.script = after(gate)
    first = asyncio.create_task(house.generate(prompt="one", image=DATA8))
    await until(lambda: image.running == 1)
    await leave(first)
    second = asyncio.create_task(house.generate(prompt="two", image=DATA8))
    await until(lambda: house.queue("i2i").waiting == 1)
    await until(lambda: len(image.probes) > 6)
    assert (1, 1) == (image.hits, image.running), "the second is not sent on top of the first"
    assert not image.requests[0].peer_left
    gate.set()
    assert 200 == (await second).status_code
    assert (2, 1) == (image.hits, image.peak)
    metrics = (await house.admin.get("/metrics")).text
    assert 'cause="client_left",outcome="abandoned",pool="i2i",worker="i2i-0"} 1.0' in metrics
    assert 'status="499"' in metrics


async def test_a_worker_that_stops_on_disconnect_is_hung_up_on(house):
    """Where the worker stops when its caller hangs up, it is told so, and its slot is free."""
    image = await house.worker()
    image.script = after(asyncio.Event())
    await house.open({"i2i": [{"url": image.url, "stops_on_disconnect": True}]})
    call = asyncio.create_task(house.generate(prompt="one", image=DATA8))
    await until(lambda: image.running == 1)
    await leave(call)
    await until(lambda: image.requests[0].peer_left)
    await until(lambda: house.pool("i2i").workers[0].in_flight == 0)


async def test_a_client_that_leaves_while_uploading_leaves_no_trace(house):
    """An upload that is broken off never takes a place or a slot."""
    text, image = await house.two_tracks()
    _, writer = await asyncio.open_connection(*house.url.removeprefix("http://").split(":"))
    writer.write(
        b"POST /generate HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
        b'Content-Length: 1000\r\n\r\n{"prompt": "'
    )
    await writer.drain()
    await until(lambda: len(house.runtime.arriving) == 1)
    writer.close()
    await until(lambda: not house.runtime.arriving)
    assert (0, 0) == (text.hits, image.hits)
    assert 'status="499"' in (await house.admin.get("/metrics")).text


async def test_keep_alive_connections_serve_many_requests(house):
    """Watching for a disconnect does not disturb a connection that is used again."""
    await house.two_tracks()
    for _ in range(5):
        assert 200 == (await house.generate(prompt="p", image="A" * 0)).status_code
    assert 'status="499"' not in (await house.admin.get("/metrics")).text
