"""Probes: bounded in time and size, and what is learned from them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from gateway.routing.request import Task
from gateway.transport.probe import MAX_BYTES, probe, probe_client
from tests.support.scripted_worker import after
from tests.support.serve import dead_url, until

pytestmark = pytest.mark.anyio

BOTH = frozenset(Task)


@contextlib.asynccontextmanager
async def raw_server(respond):
    """Listens, lets a coroutine write the answer for each path, and yields the URL."""
    exchanges = set()

    async def serve(reader, writer):
        exchanges.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, EOFError):  # the prober may have seen enough
            head = await reader.readuntil(b"\r\n\r\n")
            await respond(writer, head.split()[1].decode())
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*exchanges)


def whole(body, status=200):
    """Answers a body at once, whatever is asked for."""

    async def respond(writer, path):
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)

    return respond


def pages(**bodies):
    """Answers each path that it knows with its body, and any other with 404."""

    async def respond(writer, path):
        name = path.removeprefix("/").replace("/", "_")
        body = bodies.get(name, b"{}")
        known = 200 if name in {"health", *bodies} else 404
        await whole(body, known)(writer, path)

    return respond


async def drip(writer, path):
    """Answers a byte at a time, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.01)


async def flood(writer, path):
    """Answers without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def look(url, seconds=0.5, **options):
    """Probes once."""
    async with probe_client() as client:
        return await probe(client, url, seconds, **({"with_tasks": True} | options))


@pytest.mark.parametrize(
    ("body", "tasks"),
    [
        (b'{"task_type": "TI2I"}', BOTH),
        (b'{"task_type": "T2I"}', frozenset({Task.T2I})),
        (b'{"task_type": "I2I"}', frozenset({Task.I2I})),
        (b'{"task_type": "T2I", "tasks": ["t2i", "i2i"]}', BOTH),
        (b'{"tasks": []}', frozenset()),
        (b'{"task_type": "T2V"}', None),
        (b"{}", None),
        (b"[]", None),
        (b"not json", None),
        (b"[" * 60_000, None),
    ],
)
async def test_what_a_server_says_it_can_do(body, tasks):
    """Our workers' `tasks` count before SGLang's `task_type`; anything else says nothing (B17)."""
    async with raw_server(whole(body)) as url:
        report = await look(url, seconds=2)
    assert (True, tasks) == (report.is_good, report.tasks)


TI2I, LISTED = b'{"task_type": "TI2I"}', b'{"data": [{"task_type": "T2I"}]}'
ENCODER = b'{"srt_encoder_url": "http://encoder"}'
NESTED = b'{"server_args": {"srt_encoder_url": "http://encoder"}}'


@pytest.mark.parametrize(
    ("bodies", "tasks", "is_declared"),
    [
        ({}, None, False),
        ({"model_info": b'{"tasks": ["i2i"]}'}, frozenset({Task.I2I}), True),
        (
            {"model_info": b'{"tasks": ["i2i"]}', "server_info": ENCODER},
            frozenset({Task.I2I}),
            True,
        ),
        ({"model_info": TI2I}, BOTH, False),
        ({"v1_models": LISTED}, frozenset({Task.T2I}), False),
        ({"model_info": TI2I, "v1_models": LISTED}, BOTH, False),
        ({"v1_models": b'{"data": []}'}, None, False),
        ({"v1_models": b'{"data": ["glm-image"]}'}, None, False),
        ({"model_info": TI2I, "server_info": ENCODER}, BOTH, False),
        ({"server_info": NESTED}, None, False),
        ({"model_info": TI2I, "server_info": b'{"server_args": []}'}, BOTH, False),
    ],
)
async def test_what_a_server_can_do_is_read_from_the_page_that_says_most(
    bodies, tasks, is_declared
):
    """Our own tasks, then SGLang's pages; an external encoder among its arguments sees nothing."""
    async with raw_server(pages(**bodies)) as url:
        report = await look(url, seconds=2)
    assert (True, tasks, is_declared) == (report.is_good, report.tasks, report.is_declared)
    names_encoder = bodies.get("server_info") in (ENCODER, NESTED) and not is_declared
    assert names_encoder is bool(report.is_external)


async def test_pages_that_take_too_long_say_nothing_and_harm_nobody():
    """A server whose `/health` is good is well, however slow its other pages are."""

    async def respond(writer, path):
        if path != "/health":
            await asyncio.sleep(1)
        await whole(b"{}")(writer, path)

    async with raw_server(respond) as url:
        report = await look(url, seconds=0.3)
    assert (True, None, False) == (report.is_good, report.tasks, report.is_silent)


@pytest.mark.parametrize(
    ("body", "side", "stops"),
    [
        (b'{"image_limits": {"max_side": 512}, "stops_on_disconnect": true}', 512, True),
        (b'{"tasks": [], "image_limits": {"max_side": 512}}', 512, False),
        (b'{"image_limits": [512], "stops_on_disconnect": "yes"}', None, False),
        (b'{"image_limits": {"max_side": "512"}}', None, False),
    ],
)
async def test_what_else_a_server_says_of_itself(body, side, stops):
    """A worker tells its largest side, and whether it stops when its caller hangs up."""
    async with raw_server(pages(model_info=body)) as url:
        report = await look(url, seconds=2)
    assert (side, stops) == (report.max_side, report.stops_on_disconnect)


async def test_a_refused_connection_and_a_bad_status_are_told_apart():
    """The report says what was seen."""
    assert "refuses the connection" == (await look(dead_url())).detail
    async with raw_server(whole(b"", 503)) as url:
        report = await look(url)
    assert (False, "/health answers 503", False) == (
        report.is_good,
        report.detail,
        report.is_silent,
    )


async def test_a_probe_ends_in_time_however_its_bytes_drip_in():
    """One clock runs around a whole probe."""
    async with raw_server(drip) as url:
        report = await look(url, seconds=0.3, with_tasks=False)
    assert (False, True) == (report.is_good, report.is_silent)


async def test_a_probe_reads_no_more_than_it_needs():
    """An answer without an end is cut, and means nothing more than its status."""
    async with raw_server(flood) as url:
        report = await look(url, seconds=5)
    assert (True, None) == (report.is_good, report.tasks)
    assert MAX_BYTES < 10**6


async def test_a_silent_encoder_at_work_is_busy_not_dead(house):
    """While a worker of the pool is at work, an encoder that does not answer keeps its place."""
    text, encoder = await house.worker("T2I"), await house.worker()
    await house.open({"t2i": [text]}, pool={"encoder_url": encoder.url, "probe_seconds": 0.2})
    gate = asyncio.Event()
    text.script = after(gate)
    call = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: text.running == 1)
    encoder.silent = True
    seen = encoder.begun
    await until(lambda: encoder.begun >= seen + 3, 20)
    assert house.pool("t2i").encoder.is_up
    gate.set()
    assert 200 == (await call).status_code
    await until(lambda: not house.pool("t2i").encoder.is_up)
    encoder.silent = False
    await until(lambda: house.pool("t2i").encoder.is_up)


async def test_a_lost_encoder_takes_its_pool_out(house):
    """A pool whose encoder refuses connections serves nothing, and says so, until it is back."""
    text, encoder = await house.worker("T2I"), await house.worker()
    await house.open({"t2i": [text]}, pool={"encoder_url": encoder.url})
    await encoder.stop()
    await until(lambda: not house.pool("t2i").encoder.is_up)
    refused = await house.generate(prompt="p")
    assert (503, 0) == (refused.status_code, text.hits)
    assert "the encoder of pool 't2i' does not answer" in refused.json()["error"]["message"]
    await encoder.start()
    await until(lambda: house.pool("t2i").encoder.is_up)
    assert 200 == (await house.generate(prompt="p")).status_code
