"""One attempt on real sockets: which failure means that nothing can have begun."""

from __future__ import annotations

import dataclasses
import html
import json
import socket
from urllib.parse import quote

import pytest

from gateway.config import ModelConfig
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.request import ImageRequest, InputImage, Size, Task
from gateway.routing.worker import Worker
from gateway.transport.replies import Failure, cause_of, without_echo
from gateway.transport.upstream import Upstream
from tests.support.pictures import PNG8, facts
from tests.support.scripted_worker import ScriptedWorker, half, hang_up, status
from tests.support.serve import dead_url

pytestmark = pytest.mark.anyio

REQUEST = ImageRequest(task=Task.T2I, prompt="p", seed=1, size=Size(64, 32), output_format="png")
EDIT = dataclasses.replace(
    REQUEST, task=Task.I2I, images=(InputImage(PNG8, "png", 8, 8), InputImage(PNG8, "png", 8, 8))
)


@pytest.fixture
async def upstream():
    """Offers the client."""
    client = Upstream()
    yield client
    await client.close()


@pytest.fixture
async def scripted():
    """Offers a scripted worker."""
    worker = ScriptedWorker()
    await worker.start()
    yield worker
    await worker.stop()


async def attempt(upstream, url, request=REQUEST, seconds=1.0):
    """Returns the answer, or the cause of the failure."""
    try:
        return await upstream.send(Worker("w", url), request, ModelConfig(), {}, seconds)
    except Failure as failure:
        return failure.cause


async def full_backlog():
    """Opens a listener that never accepts and whose backlog is full: connecting hangs."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    for _ in range(4):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        waiting.append(sock)
    return listener, waiting


async def test_an_answer(upstream, scripted):
    """A good answer is a checked picture of the size and format asked for."""
    answer = await attempt(upstream, scripted.url)
    assert ("png", 64, 32) == facts(answer.picture)
    assert 1 == answer.seed


async def test_an_edit_is_a_form_with_our_own_file_names(upstream, scripted):
    """Pictures go as file parts `image`, in order, named by us (B02, B41)."""
    await attempt(upstream, scripted.url, EDIT)
    [request] = scripted.requests
    assert "/v1/images/edits" == request.path
    assert [("image", f"image_{n}.png", "image/png", PNG8) for n in (0, 1)] == request.files
    assert ("p", "64x32", "1") == tuple(request.texts[name] for name in ("prompt", "size", "seed"))
    assert int(request.headers["content-length"]) == len(request.body)


async def test_a_refused_connection_never_began(upstream):
    """A refused connection may be followed by another attempt."""
    assert Cause.UNREACHABLE is await attempt(upstream, dead_url())


async def test_a_name_that_does_not_resolve_never_began(upstream):
    """Nor did a request to a name that nobody knows begin."""
    assert Cause.UNREACHABLE is await attempt(upstream, "http://nobody.invalid:1")


async def test_a_connection_that_does_not_come_about_never_began(upstream):
    """Nor one whose connection was not accepted in time."""
    listener, waiting = await full_backlog()
    host, port = listener.getsockname()
    assert Cause.UNREACHABLE is await attempt(upstream, f"http://{host}:{port}", seconds=0.2)
    for sock in (listener, *waiting):
        sock.close()


@pytest.mark.parametrize("script", [hang_up, half])
async def test_a_lost_connection_may_have_begun(upstream, scripted, script):
    """Once connected, any loss may have cost a run: no other attempt, one hit."""
    scripted.script = script
    cause = await attempt(upstream, scripted.url)
    assert Cause.LOST is cause
    assert not MEANINGS[cause].may_resend
    assert 1 == scripted.hits


async def test_every_generation_has_a_connection_of_its_own(upstream, scripted):
    """No kept connection is used again, so none can be closed under a request (B44)."""
    for _ in range(3):
        await attempt(upstream, scripted.url)
    assert ["close"] * 3 == [request.headers["connection"] for request in scripted.requests]


@pytest.mark.parametrize(
    ("code", "text", "started", "task", "cause"),
    [
        (503, "", False, Task.T2I, Cause.BUSY),
        (429, "", False, Task.T2I, Cause.BUSY),
        (503, "out of memory", True, Task.T2I, Cause.OUT_OF_MEMORY),
        (500, "NotImplementedError", True, Task.I2I, Cause.BAD_STATUS),
        (500, "CUDA Out Of Memory", False, Task.I2I, Cause.OUT_OF_MEMORY),
        (500, "torch.OutOfMemoryError", False, Task.T2I, Cause.OUT_OF_MEMORY),
        (400, "out of memory", False, Task.T2I, Cause.REJECTED),
        (500, "NotImplementedError", False, Task.I2I, Cause.TEXT_ONLY),
        (500, "I2I mode is not supported yet", False, Task.I2I, Cause.TEXT_ONLY),
        (400, "NotImplementedError", False, Task.I2I, Cause.REJECTED),
        (400, "input_reference is not supported for T2I models.", False, Task.I2I, Cause.TEXT_ONLY),
        (500, "NotImplementedError", False, Task.T2I, Cause.BAD_STATUS),
        (500, "Internal Server Error", False, Task.I2I, Cause.BAD_STATUS),
        (422, "", False, Task.T2I, Cause.REJECTED),
        (404, "", False, Task.T2I, Cause.BAD_STATUS),
    ],
)
async def test_what_a_status_means(code, text, started, task, cause):
    """Each answer other than 200 has one meaning, and the caller's words have no part in it."""
    assert cause is cause_of(code, text, started, task)


LONG = "a portrait of \u00c9lo\u00efse & her cat, \u5929\u72d7, in the style of nobody"


@pytest.mark.parametrize(
    "echo",
    [
        LONG,
        json.dumps(LONG),
        json.dumps({"input": LONG}, ensure_ascii=False),
        html.escape(LONG),
        quote(LONG),
        LONG.upper(),
        LONG[:40] + "\u2026",
        LONG[20:],
    ],
)
def test_an_error_that_repeats_the_prompt_is_withheld(echo):
    """Whole, cut or escaped: an error that holds a part of the prompt does not reach the log."""
    request = dataclasses.replace(REQUEST, prompt=LONG)
    body = f"Error: {echo} is not allowed".encode()
    assert f"[withheld: {len(body)} bytes that repeat the prompt]" == without_echo(body, request)


@pytest.mark.parametrize("prompt", [LONG, "p", "fox", "\u72d0", ""])
def test_an_error_that_does_not_is_kept(prompt):
    """An error without the prompt is kept for the log; a prompt of a letter or two hides none."""
    request = dataclasses.replace(REQUEST, prompt=prompt)
    body = b"Invalid size: 1024x1024, sides must be 1 to 512. \xff"
    assert body.decode("utf-8", "replace") == without_echo(body, request)


async def test_the_detail_of_a_failure_is_cut(upstream, scripted):
    """A worker's error goes to the log, cut to 2 kB, and nowhere else."""
    scripted.script = status(500, b"<html>" + b"x" * 5000)
    with pytest.raises(Failure) as raised:
        await upstream.send(Worker("w", scripted.url), REQUEST, ModelConfig(), {}, 1)
    assert raised.value.detail.startswith("500 <html>xxx")
    assert 2052 == len(raised.value.detail)
