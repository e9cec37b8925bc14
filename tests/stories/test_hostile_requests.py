"""Requests that are made to hurt are refused quickly, and others do not notice."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.house import code_of
from tests.support.pictures import B64
from tests.support.serve import until

pytestmark = pytest.mark.anyio

MILLION = 1_000_000
HOSTILE = {
    "a million images": ({"prompt": "p", "image": ["a"] * MILLION}, "too_many_images"),
    "a million empty lists": ({"prompt": "p", "image": [[]] * MILLION}, "too_many_images"),
    "a thousand wide objects": (
        {"prompt": "p", "image": {"type": "x", "more": [None] * MILLION}},
        "invalid_image",
    ),
    "a long name": ({"prompt": "p", "x" * 5 * MILLION: 1}, "unsupported_parameter"),
    "many names": ({"prompt": "p"} | {f"x{n}": 1 for n in range(100_000)}, "invalid_json"),
    "a deep image": (
        '{"prompt": "p", "image": ' + "[" * 900 + "1" + "]" * 900 + "}",
        "invalid_image",
    ),
    "much space": ('{"prompt": "p", "image": 7' + " " * 20 * MILLION + "}", "invalid_image"),
    "a long number": ('{"prompt": "p", "seed": ' + "9" * 4000 + "}", "invalid_value"),
    "wrapped base64": (
        {"prompt": "p", "image": "\n".join(["A" * 76] * 100_000)},
        "invalid_image",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_body_is_refused_and_holds_up_nobody(house, kind):
    """Each is a 400, no worker is touched, and the loop turns on meanwhile."""
    text, image = await house.two_tracks()
    body, code = HOSTILE[kind]
    content = body if isinstance(body, str) else json.dumps(body)
    call = asyncio.create_task(
        house.client.post(
            "/generate", content=content, headers={"content-type": "application/json"}
        )
    )
    turns, longest = 0, 0.0
    loop = asyncio.get_running_loop()
    while not call.done():
        before = loop.time()
        await asyncio.sleep(0.005)
        turns, longest = turns + 1, max(longest, loop.time() - before)
    assert (400, code) == code_of(call.result())[:2]
    assert (0, 0) == (text.hits, image.hits)
    assert longest < 10, "one body kept everybody waiting"


@pytest.mark.parametrize(
    "image",
    [
        {"image_url": None, "file_id": "file-abc"},
        {"url": "", "path": "/x.png"},
        {"b64_json": None, "image": B64},
        {"type": "image_url", "image_url": {"url": "", "file_id": "f"}},
        [{"url": None}, {"file": "x"}],
        {"b64_json": B64, "image": B64},
    ],
)
async def test_an_image_in_an_unknown_form_is_never_dropped(house, image):
    """An object that holds something, but no image that we know, is a 400 (R2)."""
    text, worker = await house.two_tracks()
    response = await house.generate(prompt="p", image=image)
    assert (400, "invalid_image", "image") == code_of(response)
    assert (0, 0) == (text.hits, worker.hits)


async def test_an_upload_that_outlasts_every_deadline_is_ended(house):
    """A body that never comes is a 408 after the longest deadline, and touched nobody."""
    text, image = await house.two_tracks(pool={"deadline_seconds": 0.4})
    host, port = house.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        b"POST /generate HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
        b'Content-Length: 1000\r\n\r\n{"prompt": "'
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()
    assert (0, 0) == (text.hits, image.hits)


async def test_a_deadline_that_passed_during_the_upload_costs_no_worker(house):
    """Where the upload took the whole deadline, the answer is 504 and no work begins."""
    text, image = await house.worker("T2I"), await house.worker()
    await house.open({"t2i": [text]}, pool={"deadline_seconds": 0.3})
    clock, house.runtime.clock = house.runtime.clock, lambda: clock() - 5
    response = await house.generate(prompt="p")
    assert (504, "deadline_exceeded", None) == code_of(response)
    assert (0, 0, 0) == (text.hits, image.hits, house.pool("t2i").workers[0].in_flight)


async def test_a_drain_answers_those_who_are_still_uploading(house):
    """An upload that a drain cuts off gets a 503 in the envelope, and the log a status."""
    await house.two_tracks(server={"drain_seconds": 0, "log_level": "error"})
    host, port = house.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        b"POST /generate HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
        b'Content-Length: 1000\r\n\r\n{"prompt": "'
    )
    await until(lambda: house.runtime.arriving)
    await house.runtime.drain(asyncio.Event())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1\r\n" in head
    assert b"draining" in await reader.read(400)
    writer.close()
    assert 'status="503"' in (await house.admin.get("/metrics")).text


@pytest.mark.parametrize("as_file", [True, False])
async def test_a_form_that_is_too_large_names_the_picture(house, as_file):
    """A picture over the limit, as a file or as a text part, is a 413 that names it (B09)."""
    text, image = await house.two_tracks(limits={"max_body_bytes": 4_000_000})
    large = "A" * 5_000_000
    part = ("a.png", large.encode()) if as_file else (None, large)
    files = [("prompt", (None, "p")), ("image", part)]
    response = await house.client.post("/v1/images/edits", files=files)
    assert (413, "request_too_large", "image") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)
    fits = [
        ("prompt", (None, "p")),
        ("image", (None, "data:image/png;base64," + B64 + " " * 3_000_000)),
    ]
    assert 200 == (await house.client.post("/v1/images/edits", files=fits)).status_code
