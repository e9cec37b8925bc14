"""One attempt on real sockets: which failure means that nothing can have begun."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from gateway.config import ModelConfig
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.request import ImageRequest, InputImage, Size, Task
from gateway.routing.worker import Worker
from gateway.transport.upstream import Failure, Upstream, cause_of
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
    ("code", "body", "started", "task", "cause"),
    [
        (503, b"", False, Task.T2I, Cause.BUSY),
        (429, b"", False, Task.T2I, Cause.BUSY),
        (503, b"out of memory", True, Task.T2I, Cause.BAD_STATUS),
        (500, b"CUDA Out Of Memory", False, Task.I2I, Cause.OUT_OF_MEMORY),
        (500, b"torch.OutOfMemoryError", False, Task.T2I, Cause.OUT_OF_MEMORY),
        (500, b"NotImplementedError", False, Task.I2I, Cause.TEXT_ONLY),
        (500, b"I2I mode is not supported yet", False, Task.I2I, Cause.TEXT_ONLY),
        (500, b"NotImplementedError", False, Task.T2I, Cause.BAD_STATUS),
        (500, b"Internal Server Error", False, Task.I2I, Cause.BAD_STATUS),
        (404, b"", False, Task.T2I, Cause.BAD_STATUS),
    ],
)
async def test_what_a_status_means(code, body, started, task, cause):
    """Each answer other than 200 has one meaning."""
    assert cause is cause_of(code, body, started, task)


@pytest.mark.parametrize("echo", ['p"rompt\n', "ünïcode prompt", "plain prompt"])
async def test_a_workers_error_is_kept_for_the_log_without_the_prompt(upstream, scripted, echo):
    """Workers repeat the prompt in their errors; the detail for the log does not."""
    import json

    for ascii_only in (True, False):
        body = json.dumps({"detail": [{"input": echo}], "n": "x" * 5000}, ensure_ascii=ascii_only)
        scripted.script = status(500, body.encode())
        request = dataclasses.replace(REQUEST, prompt=echo)
        with pytest.raises(Failure) as raised:
            await upstream.send(Worker("w", scripted.url), request, ModelConfig(), {}, 1)
        assert raised.value.detail.startswith('500 {"detail": [{"input": "[prompt]"}]')
        assert len(raised.value.detail) < 2100
