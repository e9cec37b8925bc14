"""Progress as server-sent events, in front of each kind of engine."""

import threading

import httpx
import pytest

from tests.workers.support import (
    error_of,
    events_of,
    fields,
    pattern,
    picture_of,
    png,
    running,
    running_fake,
    running_split,
    slow_decoder,
    wait_until,
)
from workers import FakeEngine, create_encoder_app
from workers.errors import EncoderLost, EncoderUnreachable

ACCEPT = {"accept": "text/event-stream"}


def events(client, path="/v1/images/generations", **call):
    """Every event of one request."""
    with client.stream("POST", path, headers=ACCEPT, **call) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(events_of(answer.iter_lines()))


def stages(found):
    """The progress in a list of events, with each stage in its order."""
    told = [data for name, data in found if name == "progress"]
    assert all(set(data) == {"stage", "done", "total"} for data in told)
    return [(data["stage"], data["done"], data["total"]) for data in told]


def test_every_step_is_told_and_then_the_answer():
    """Waiting, encoding, each denoising step, decoding, and the plain answer's JSON."""
    with running_fake(FakeEngine()) as client:
        body = fields(size="64x64", num_inference_steps=3, seed=7, negative_prompt="dogs")
        found = events(client, json=body)
        plain = client.post("/v1/images/generations", json=body)
    assert stages(found) == [
        ("waiting", 0, 0),
        ("encoding", 0, 1),
        *(("denoising", done, 3) for done in range(4)),
        ("decoding", 0, 1),
    ]
    name, answer = found[-1]
    assert name == "answer"
    assert answer["data"] == plain.json()["data"]
    assert set(answer) == set(plain.json())


@pytest.mark.parametrize("kind", ["full_worker", "split_worker"])
def test_a_real_worker_tells_tokens_and_steps(kind, request):
    """Tokens of an edit count up to their total, in process and from an encoder server."""
    client = request.getfixturevalue(kind)
    call = {
        "data": fields(size="96x64", num_inference_steps=2, seed=3),
        "files": {"image": ("a.png", png(pattern(64, 64)))},
    }
    found = events(client, "/v1/images/edits", **call)
    told = stages(found)
    order = [stage for at, (stage, *_) in enumerate(told) if at == 0 or told[at - 1][0] != stage]
    assert order == ["waiting", "encoding", "denoising", "decoding"]
    tokens = [(done, total) for stage, done, total in told if stage == "encoding"]
    assert (tokens[0], tokens[-1]) == ((0, 0), (7, 7))
    assert tokens == sorted(tokens)
    assert [done for stage, done, _ in told if stage == "denoising"] == [0, 1, 2]
    plain = client.post("/v1/images/edits", **call)
    assert found[-1][1]["data"] == plain.json()["data"]
    assert picture_of(plain).size == (96, 64)


def test_tokens_are_told_while_they_come(tiny):
    """With a slow encoder elsewhere, progress arrives before the tokens are complete."""
    encoder_app = create_encoder_app(tiny, "cpu", load=slow_decoder(tiny, 0.03))
    with (
        running(encoder_app) as encoder,
        running_split(tiny, str(encoder.base_url).rstrip("/")) as client,
    ):
        call = {
            "data": fields(size="256x128", num_inference_steps=1),
            "files": {"image": ("a.png", png(pattern(64, 64)))},
        }
        told = stages(events(client, "/v1/images/edits", **call))
    done = [done for stage, done, total in told if stage == "encoding" and total]
    assert len(done) > 4
    assert done == sorted(done)
    assert {total for stage, _, total in told if stage == "encoding"} == {0, 8 * 4 + 1}


class Failing(FakeEngine):
    """A fake that fails as told once it has begun."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def generate(self, requests, watch):
        watch.at("encoding", 0, 1)
        raise self.error


@pytest.mark.parametrize("error", [EncoderLost(), EncoderUnreachable(), ValueError("secret")])
def test_an_error_is_the_last_event_and_equals_the_plain_one(error):
    """Status, headers and envelope in the event are those of the plain answer."""
    with running_fake(Failing(error)) as client:
        plain = client.post("/v1/images/generations", json=fields())
        name, data = events(client, json=fields())[-1]
    assert name == "error"
    assert data["status"] == plain.status_code
    assert data["error"] == error_of(plain)
    assert all(plain.headers[key] == value for key, value in data["headers"].items())
    assert ("x-turnout-started" in data["headers"]) == ("x-turnout-started" in plain.headers)
    assert "secret" not in str(data)


def test_what_is_refused_at_once_has_a_status():
    """A bad request and a full line are plain answers, as nothing was begun."""
    with running_fake(FakeEngine(), waiting_limit=0) as client:
        for status, body in ((400, fields(size="0x0")), (503, fields())):
            answer = client.post("/v1/images/generations", json=body, headers=ACCEPT)
            assert answer.status_code == status
            assert error_of(answer)["message"]


def test_silence_is_filled_with_comments():
    """While nothing happens, comments show that the connection lives."""
    engine = FakeEngine()
    gate = threading.Event()
    engine.generate = lambda requests, watch: (
        gate.wait(10) and FakeEngine().generate(requests, watch)
    )
    with (
        running_fake(engine, heartbeat_seconds=0.05) as client,
        client.stream(
            "POST", "/v1/images/generations", headers=ACCEPT, json=fields(size="64x64")
        ) as answer,
    ):
        found = events_of(answer.iter_lines())
        assert next(found)[1]["stage"] == "waiting"
        assert [next(found)[0] for _ in range(3)] == [None] * 3
        gate.set()
        assert list(found)[-1][0] == "answer"


def test_a_listener_who_leaves_stops_the_work():
    """Closing the stream ends the running work, and frees the line."""
    engine = FakeEngine(seconds=30)
    with running_fake(engine) as client:
        body = fields(size="64x64", num_inference_steps=300)
        with (
            httpx.Client(base_url=client.base_url) as own,
            own.stream("POST", "/v1/images/generations", headers=ACCEPT, json=body) as answer,
        ):
            lines = answer.iter_lines()
            wait_until(lambda: "denoising" in next(lines), 5)
        wait_until(lambda: client.get("/health").json()["in_flight"] == 0, 5)
        assert engine.steps < 100
