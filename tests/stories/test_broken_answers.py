"""Answers that are none: told as an error of the worker, never sent again, never passed on."""

from __future__ import annotations

import base64
import gzip

import pytest

from tests.support.house import code_of
from tests.support.pictures import facts_of, picture
from tests.support.scripted_worker import (
    answer,
    answer_body,
    changed,
    half,
    hang_up,
    send,
    status,
)

pytestmark = pytest.mark.anyio

RUBBISH = {
    "closes without an answer": hang_up,
    "dies half-way": half,
    "html error": status(502, b"<html>Bad Gateway</html>", "text/html"),
    "html success": status(200, b"<html>hello</html>", "text/html"),
    "empty 500": status(500, b""),
    "plain 500": status(500),
    "404": status(404, b'{"detail":"Not Found"}', "application/json"),
    "redirect": status(307, b"", location="http://127.0.0.1:1/"),
    "deep json": status(200, b'{"data":' + b"[" * 5000 + b"]" * 5000 + b"}", "application/json"),
    "no data": status(200, b'{"created":1}', "application/json"),
    "no pictures": changed(data=[]),
    "two pictures": changed(data=[{"b64_json": ""}, {"b64_json": ""}]),
    "url instead": changed(datum={"b64_json": None, "url": "/v1/images/1/content"}),
    "not base64": changed(datum={"b64_json": "?!"}),
    "not a picture": changed(datum={"b64_json": "AAAA"}),
    "503 after it started": status(503, b"{}", "application/json", x_turnout_started="true"),
}


@pytest.mark.parametrize("kind", RUBBISH)
async def test_rubbish_is_a_502_and_is_never_sent_again(house, kind):
    """Work that may have begun is not sent to the healthy second worker (B44, B45, B47, B48)."""
    first, second = await house.pair()
    first.script = RUBBISH[kind]
    response = await house.generate(prompt="p")
    assert (502, "worker_error", None) == code_of(response)
    assert "false" == response.headers["x-should-retry"]
    assert (1, 0) == (first.hits, second.hits)
    assert ("1", "t2i-0") == (
        response.headers["x-turnout-attempts"],
        response.headers["x-turnout-worker"],
    )
    assert "html" not in response.text
    assert 0 == house.pool("t2i").workers[0].in_flight


async def test_a_picture_of_another_size_is_rubbish(house):
    """An answer that is a picture, but not of the size asked for, is a 502."""
    first, _ = await house.pair()

    async def small(worker, request, writer):
        request.texts["size"] = "32x32"
        await answer(worker, request, writer)

    first.script = small
    assert (502, "worker_error", None) == code_of(await house.generate(prompt="p", size="64x64"))


async def test_out_of_memory_is_said_and_the_worker_stays(house):
    """One out-of-memory answer is a 503 with a way out; the worker keeps its place (B49)."""
    first, second = await house.pair()
    first.script = status(500, b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
    response = await house.generate(prompt="p")
    assert (503, "worker_out_of_memory", None) == code_of(response)
    assert int(response.headers["retry-after"]) >= 1
    assert (1, 0) == (first.hits, second.hits)
    assert house.pool("t2i").workers[0].health.is_up


async def test_a_gzip_answer_is_read_and_nothing_of_its_headers_goes_on(house):
    """The worker's encoding, cookies and server name end here (B36)."""

    async def zipped(worker, request, writer):
        body = gzip.compress(answer_body(request))
        await send(writer, 200, body, content_encoding="gzip", set_cookie="a=b", server="x")

    only = await house.worker("T2I", script=zipped)
    await house.open({"t2i": [only]})
    response = await house.generate(prompt="p", size="64x64")
    assert 200 == response.status_code
    assert not {"content-encoding", "set-cookie", "server"} & set(response.headers)
    assert len(response.content) == int(response.headers["content-length"])


async def test_a_jpeg_from_the_worker_becomes_the_png_that_was_asked_for(house):
    """A worker that answers in another format is corrected, not blamed."""
    jpeg = base64.b64encode(picture(64, 64, fmt="jpeg")).decode()
    only = await house.worker("T2I", script=changed(datum={"b64_json": jpeg}))
    await house.open({"t2i": [only]})
    response = await house.generate(prompt="p", size="64x64")
    assert ("png", 64, 64) == facts_of(response.json()["data"][0])
