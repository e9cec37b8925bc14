"""POST /generate as a stream of events: the place in line, the stages, the answer or the error."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import (
    after,
    answer_body,
    hang_up,
    status,
)
from tests.support.serve import until

pytestmark = pytest.mark.anyio

EVENTS = {"accept": "text/event-stream"}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(name, **data):
    """Writes one event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def stream(*events, gate=None):
    """Answers as our workers do: events, then the answer."""

    async def script(worker, request, writer):
        assert request.headers["accept"] == "text/event-stream"
        writer.write(HEAD)
        for each in events:
            writer.write(each)
            await writer.drain()
        if gate is not None:
            await gate.wait()
        writer.write(event("answer", **json.loads(answer_body(request))))
        await writer.drain()

    return script


async def listen(house, **fields):
    """Posts to /generate and returns every event as (name, data)."""
    seen = []
    async with house.client.stream("POST", "/generate", json=fields, headers=EVENTS) as response:
        assert 200 == response.status_code
        assert "text/event-stream" == response.headers["content-type"].split(";")[0]
        name = None
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                seen.append((name, json.loads(line.removeprefix("data: "))))
    (at,) = [n for n, (name, _) in enumerate(seen) if name == "headers"]
    assert len(seen) - 2 == at, "the headers come last but one"
    assert seen.pop(at)[1]["x-request-id"]
    return seen


STAGES = (
    event("progress", stage="encoding", done=12, total=65),
    b": still here\n\n",
    event("progress", stage="denoising", done=1, total=8),
)


async def telling(house, *events, **options):
    """Opens a gateway over one worker that says that it tells its progress."""
    worker = await house.worker("TI2I", **options)
    worker.more_info = {"tasks": ["t2i", "i2i"], "streams_progress": True}
    worker.script = stream(*events)
    await house.open({"both": [worker]})
    await until(lambda: house.pool("both").workers[0].streams_progress)
    return worker


@pytest.mark.parametrize("image", [{}, {"image": DATA8}])
async def test_stages_come_as_the_worker_tells_them(house, image):
    """What a worker tells of encoding and denoising reaches the client, and then the answer."""
    worker = await telling(house, *STAGES)
    *progress, (name, answer) = await listen(house, prompt="p", seed=3, size="64x64", **image)
    assert [
        ("progress", {"stage": "encoding", "done": 12, "total": 65, "picture": 0}),
        ("progress", {"stage": "denoising", "done": 1, "total": 8, "picture": 0}),
    ] == progress
    assert ("answer", 3, "64x64") == (name, answer["seed"], answer["size"])
    assert {"id", "created", "task", "pool", "data", "timings"} <= answer.keys()
    assert 1 == worker.hits


async def test_what_was_ignored_is_told_too(house):
    """What a plain answer says in its headers is an event before the last."""

    async def ignoring(worker, request, writer):
        head = HEAD.replace(b"\r\n\r\n", b"\r\nx-turnout-ignored: negative_prompt\r\n\r\n")
        writer.write(head + event("answer", **json.loads(answer_body(request))))
        await writer.drain()

    worker = await telling(house)
    worker.script = ignoring
    body = {"prompt": "p", "negative_prompt": "dogs"}
    text = (await house.client.post("/generate", json=body, headers=EVENTS)).text
    (data,) = [part for part in text.split("\n\n") if part.startswith("event: headers")]
    said = json.loads(data.split("data: ")[1])
    assert ("negative_prompt", "both", "both-0", "1") == tuple(
        said[f"x-turnout-{name}"] for name in ("ignored", "pool", "worker", "attempts")
    )


async def test_the_place_in_line_comes_first(house):
    """Who waits is told the position and the expected wait, and when they change."""
    gate = asyncio.Event()
    text = await house.worker("T2I", script=after(gate))
    await house.open({"t2i": [text]})
    running = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: text.running == 1)
    waiting = asyncio.create_task(listen(house, prompt="q"))
    await until(lambda: house.queue("t2i").waiting == 1)
    await asyncio.sleep(0.2)
    gate.set()
    (name, first), *_, last = await waiting
    assert ("progress", "waiting", 1) == (name, first["stage"], first["position"])
    assert first["expected_wait_seconds"] > 0
    assert "answer" == last[0]
    await running


async def test_several_pictures_are_told_apart(house):
    """Each event names its picture, and the answer holds all of them."""
    await telling(house, *STAGES)
    *progress, (name, answer) = await listen(house, prompt="p", n=2)
    assert {0, 1} == {data["picture"] for _, data in progress}
    assert ("answer", 2) == (name, len(answer["data"]))


async def test_a_worker_that_tells_nothing_is_asked_as_ever(house):
    """Stock workers are asked plainly, and the stream holds the answer alone."""
    text, _ = await house.two_tracks()
    assert ["answer"] == [name for name, _ in await listen(house, prompt="p")]
    assert "text/event-stream" not in str(text.requests[0].headers)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (hang_up, (502, "worker_error")),
        (status(500, b"CUDA out of memory"), (503, "worker_out_of_memory")),
        (status(422, b"{}"), (400, "invalid_value")),
    ],
)
async def test_what_goes_wrong_then_is_the_last_event(house, script, expected):
    """After the stream has begun an error is an event with status, headers and envelope."""
    text, _ = await house.two_tracks()
    text.script = script
    *_, (name, data) = await listen(house, prompt="p")
    assert ("error", *expected) == (name, data["status"], data["error"]["code"])
    assert {"message", "type", "param", "code"} == data["error"].keys()
    metrics = (await house.admin.get("/metrics")).text
    assert f'status="{expected[0]}"' in metrics


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"status": 503, "headers": {"x-turnout-started": "true"}}, (502, 1)),
        ({"status": 503, "headers": {}}, (None, 2)),
        ({"status": 500, "headers": {}, "error": {"message": "out of memory"}}, (503, 1)),
    ],
)
async def test_an_error_event_of_a_worker_means_what_its_status_means(house, data, expected):
    """A worker's error event is its plain error: only what had not begun is sent elsewhere."""
    first, second = await house.worker(), await house.worker()
    for each in (first, second):
        each.more_info = {"tasks": ["t2i", "i2i"], "streams_progress": True}
        each.script = stream(*STAGES)

    async def failing(worker, request, writer):
        writer.write(HEAD + STAGES[0] + event("error", **data))
        await writer.drain()

    first.script = failing
    await house.open({"both": [first, second]})
    await until(lambda: all(w.streams_progress for w in house.pool("both").workers))
    *_, (_, last) = await listen(house, prompt="p")
    assert expected == (last.get("status"), first.hits + second.hits)


@pytest.mark.parametrize(
    "events",
    [
        (STAGES[0],),
        (event("answer", data=[]),),
        (b"event: error\ndata: {\n\n",),
        (b"event: answer\ndata: \xff\xfe\n\n",),
    ],
)
async def test_a_stream_that_ends_badly_is_a_502(house, events):
    """Events without an answer, or with one that cannot be read, are not a picture."""

    async def broken(worker, request, writer):
        writer.write(HEAD + b"".join(events))
        await writer.drain()

    worker = await telling(house)
    worker.script = broken
    *_, (name, data) = await listen(house, prompt="p")
    assert ("error", 502, "worker_error") == (name, data["status"], data["error"]["code"])
    assert 1 == worker.hits


async def test_what_is_wrong_with_the_request_is_a_plain_error(house):
    """Before there is anything to stream, an error has its status."""
    await house.two_tracks()
    refused = await house.generate(headers=EVENTS, prompt="")
    assert (400, "missing_prompt", "prompt") == code_of(refused)


async def test_events_are_sent_on_at_once(house):
    """An event reaches the client before the worker has answered."""
    gate = asyncio.Event()
    worker = await telling(house)
    worker.script = stream(*STAGES, gate=gate)
    async with house.client.stream("POST", "/generate", json={"prompt": "p"}, headers=EVENTS) as r:
        lines = r.aiter_lines()
        while "encoding" not in await anext(lines):
            pass
        assert 1 == worker.running
        gate.set()
        assert any([line.startswith("event: answer") async for line in lines])
