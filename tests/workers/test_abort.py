"""Work that nobody waits for ends within one step, wherever it is done: steps are counted."""

import threading

import httpx
import pytest

from tests.workers.stock import StockEncoder
from tests.workers.support import (
    fields,
    leave_when,
    metric,
    pattern,
    png,
    running,
    running_fake,
    running_split,
    slow_decoder,
    wait_until,
)
from workers import FakeEngine, PictureRequest, create_encoder_app
from workers.errors import CallerLeft
from workers.watch import Watch

STEP_SECONDS = 0.08


def leaving_at(stage, done):
    """A watch whose caller leaves once the work has come so far."""

    def hear(progress):
        if progress.stage == stage and progress.done >= done:
            watch.leave()

    watch = Watch(hear)
    return watch


@pytest.fixture
def calls_of():
    """Counts the forward calls of a module."""
    hooks = []

    def count(module):
        calls = []
        hooks.append(module.register_forward_pre_hook(lambda *_: calls.append(1)))
        return calls

    yield count
    for hook in hooks:
        hook.remove()


def test_denoising_stops_within_one_step(engine, calls_of):
    """Who leaves at step 3 of 50 costs one more step at most."""
    passes = calls_of(engine._pipeline.transformer)
    request = PictureRequest("a cat", 64, 64, 50, 1.0, 1)
    with pytest.raises(CallerLeft):
        engine.generate([request], leaving_at("denoising", 3))
    assert 3 <= len(passes) <= 4


def test_decoding_in_process_stops_within_one_step(engine, model, calls_of):
    """Who leaves before the first of 261 tokens gets none decoded."""
    passes = calls_of(model.model.language_model)
    with pytest.raises(CallerLeft):
        engine.generate([PictureRequest("a cat", 64, 64, 1, 1.5, 1)], leaving_at("encoding", 0))
    assert len(passes) <= 1


def test_a_caller_who_leaves_stops_the_engine():
    """Over HTTP, a closed connection ends the running work within one step."""
    engine = FakeEngine(seconds=100 * STEP_SECONDS)
    with running_fake(engine) as client:
        body = fields(size="64x64", num_inference_steps=100)
        leave_when(client, lambda: engine.steps == 3, "/v1/images/generations", json=body)
        wait_until(lambda: client.get("/health").json()["in_flight"] == 0, 5)
        assert engine.steps <= 3 + 1


@pytest.fixture(scope="module")
def slow_encoder(tiny):
    """Our encoder server whose every step takes a while."""
    load = slow_decoder(tiny, STEP_SECONDS)
    with running(create_encoder_app(tiny, "cpu", load=load)) as client:
        yield client


@pytest.fixture(scope="module")
def slow_worker(tiny, slow_encoder):
    """A worker of the third kind with that encoder behind it."""
    with running_split(tiny, str(slow_encoder.base_url).rstrip("/")) as client:
        yield client


def steps(encoder):
    return metric(encoder, "turnout_encoder_steps_total")


@pytest.fixture
def edit():
    """An edit that takes many steps of the encoder."""
    return {
        "data": fields(size="256x256", num_inference_steps=1),
        "files": {"image": ("a.png", png(pattern(64, 64)))},
    }


def stops(encoder, left_at):
    """Whether the encoder becomes idle within one step of what it had done."""
    wait_until(lambda: encoder.get("/health").json()["in_flight"] == 0, 5)
    return steps(encoder) <= left_at + 1


def test_a_caller_who_leaves_stops_our_encoder(slow_worker, slow_encoder, edit):
    """The closed connection to the worker ends the decoding on the other server."""
    goal = steps(slow_encoder) + 3
    leave_when(slow_worker, lambda: steps(slow_encoder) >= goal, "/v1/images/edits", **edit)
    assert stops(slow_encoder, goal)


def test_an_abort_stops_our_encoder(slow_encoder):
    """`/abort_request` ends a streamed call within one step; its last chunk says so."""
    row = {"input_ids": [1], "image_data": [{"image_grid_thw": [[1, 8, 8]]}], "rid": "mine"}
    row |= {"sampling_params": {"max_new_tokens": 65, "ignore_eos": True}, "stream": True}
    with slow_encoder.stream("POST", "/generate", json=row) as answer:
        lines = (line for line in answer.iter_lines() if line)
        for _ in range(3):
            last = next(lines)
        with httpx.Client(base_url=slow_encoder.base_url) as other:
            other.post("/abort_request", json={"rid": "someone else's"})
            left_at = steps(slow_encoder)
            other.post("/abort_request", json={"rid": "mine"})
        *_, last, done = list(lines)
    assert '"finish_reason":{"type":"abort"' in last
    assert done == "data: [DONE]"
    assert stops(slow_encoder, left_at)


def test_an_abort_answers_a_call_that_waits(slow_encoder):
    """A call in the line is given up at once; the one that runs goes on."""
    row = {"input_ids": [1], "image_data": [{"image_grid_thw": [[1, 2, 2]]}]}
    row |= {"sampling_params": {"max_new_tokens": 5, "ignore_eos": True}}
    longer = {"sampling_params": {"max_new_tokens": 8, "ignore_eos": True}, "rid": "waits"}
    answers = {}

    def send(name, body):
        url = f"{slow_encoder.base_url}/generate"
        answers[name] = httpx.post(url, json=body, timeout=30).json()

    threads = [threading.Thread(target=send, args=("runs", row))]
    threads.append(threading.Thread(target=send, args=("waits", row | longer)))
    for at, thread in enumerate(threads):
        thread.start()
        wait_until(lambda at=at: slow_encoder.get("/health").json()["waiting"] == at, 5)
        wait_until(lambda: slow_encoder.get("/health").json()["in_flight"] == 1, 5)
    slow_encoder.post("/abort_request", json={"rid": "waits"})
    threads[1].join(5)
    assert answers["waits"]["meta_info"]["finish_reason"]["type"] == "abort"
    assert "runs" not in answers
    threads[0].join(30)
    assert len(answers["runs"]["output_ids"]) == 5


def test_a_stock_server_is_told_to_stop(tiny, edit):
    """SGLang is sent `/abort_request` with the call's own name, and makes no token more."""
    stock = StockEncoder()
    stock.seconds_per_token = STEP_SECONDS
    with (
        running(stock.app) as client,
        running_split(tiny, str(client.base_url).rstrip("/")) as worker,
    ):
        leave_when(worker, lambda: stock.made == 3, "/v1/images/edits", **edit)
        wait_until(lambda: stock.aborted == [stock.bodies[0]["rid"]], 5)
        wait_until(lambda: worker.get("/health").json()["in_flight"] == 0, 2)
        assert stock.made <= 3 + 1
