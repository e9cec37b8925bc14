"""What SGLang does when a client leaves, when work fails, and when a server dies."""

from __future__ import annotations

import time
from contextlib import closing
from http.client import HTTPConnection
from threading import Thread

import httpx
import pytest

from tests.conformance.asking import FIELDS, LONG_TOKENS, edit, generate, get, plan, post
from tests.support.process import wait_for

PAINTED = "[GlmImageDecodingStage] finished"


def running(encoder):
    """Counts what the encoder decodes now."""
    return get(encoder, "/v1/loads").json()["loads"][0]["num_running_reqs"]


def test_a_client_that_leaves_does_not_stop_the_picture(fleet, seen):
    """The diffusion server paints on for nobody, and the next request waits for that."""
    before = fleet.in_process.text().count(PAINTED)
    body = FIELDS | {"num_inference_steps": 30}
    with pytest.raises(httpx.ReadTimeout):
        post(fleet.in_process, "/v1/images/generations", seconds=0.5, json=body)
    assert before == fleet.in_process.text().count(PAINTED)
    assert 200 == generate(fleet.in_process).status_code
    assert before + 2 == fleet.in_process.text().count(PAINTED)
    seen("in process (mended)", "a client that leaves", "its picture is painted to the end")


def test_a_client_that_leaves_stops_the_encoder(fleet, seen):
    """The encoder notices within seconds that its client has left, and stops decoding."""
    with pytest.raises(httpx.ReadTimeout):
        post(fleet.encoder, "/generate", seconds=2, json=plan(LONG_TOKENS))
    assert running(fleet.encoder) > 0
    wait_for(lambda: running(fleet.encoder) == 0, 20, every=0.5)
    seen("encoder", "a client that leaves", "its decoding is stopped within seconds")


def test_abort_request_stops_the_encoder(fleet, seen):
    """`/abort_request` ends a call by its `rid`: 200, but with too few tokens."""
    answers = []
    body = plan(LONG_TOKENS, rid="conformance")
    caller = Thread(
        target=lambda: answers.append(post(fleet.encoder, "/generate", json=body)), daemon=True
    )
    caller.start()
    wait_for(lambda: running(fleet.encoder) > 0, 60, every=0.2)
    aborted = post(fleet.encoder, "/abort_request", json={"rid": "conformance"})
    assert (200, "") == (aborted.status_code, aborted.text)
    caller.join(60)
    [answer] = answers
    assert 200 == answer.status_code
    assert "abort" == answer.json()["meta_info"]["finish_reason"]["type"]
    assert len(answer.json()["output_ids"]) < LONG_TOKENS
    seen("encoder", "`/abort_request`", "200, empty, whether it knows the `rid` or not")
    seen("encoder", "the aborted call", "200, too few `output_ids`, `finish_reason.type` abort")
    unknown = post(fleet.encoder, "/abort_request", json={"rid": "nobody"})
    assert (200, "") == (unknown.status_code, unknown.text)


def test_a_failure_closes_the_connection(fleet, seen):
    """After a plain 500 SGLang hangs up without a word: no connection may be used again."""
    form = httpx.Request(
        "POST",
        fleet.external.url,
        data={key: str(value) for key, value in FIELDS.items()},
        files={"image": ("a.png", b"no picture", "image/png")},
    )
    with closing(HTTPConnection(form.url.host, form.url.port, timeout=60)) as connection:
        head = {"content-type": form.headers["content-type"]}
        connection.request("POST", "/v1/images/edits", form.read(), head)
        answer = connection.getresponse()
        assert (500, None) == (answer.status, answer.getheader("connection"))
        answer.read()
        assert b"" == connection.sock.recv(1)
    seen("external", "the connection of a 500", "closed, without `connection: close`")


def test_edits_in_process_as_it_comes(sglang, seen):
    """Stock SGLang in process, with the transformers that it pins, fails every edit with a 500."""
    with sglang.diffusion("sglang-as-it-comes") as server:
        answer = edit(server.wait())
        assert (500, "Internal Server Error") == (answer.status_code, answer.text)
        assert "channels, but got 1 channels instead" in server.text()
        assert 200 == generate(server).status_code
    seen("in process", "an edit", "500, `Internal Server Error`; log: 32 channels expected, 1 got")
    seen("in process", "T2I after that edit", "200")


def test_an_encoder_that_dies(sglang, seen):
    """One id outside the vocabulary ends the encoder; the diffusion server stays healthy."""
    with sglang.encoder("sglang-encoder-to-die") as encoder:
        encoder.wait()
        with sglang.diffusion("sglang-orphan", encoder_url=encoder.url) as orphan:
            orphan.wait()
            with pytest.raises(httpx.HTTPError):
                post(encoder, "/generate", json=plan(4, input_ids=[300, 10**6, 256]))
            encoder.process.wait(60)
            seen("encoder", "an id outside the vocabulary", "closed connection, the process ends")
            assert 200 == get(orphan, "/health").status_code
            seen("external, encoder dead", "`/health`", "200")
            begun = time.monotonic()
            answer = generate(orphan)
            assert (500, "Internal Server Error") == (answer.status_code, answer.text)
            assert time.monotonic() - begun < 60
            seen("external, encoder dead", "T2I", "500, `Internal Server Error`")
