"""The encoder server's stream, and calls that share a batch."""

import json
import threading

import httpx
import pytest

from tests.workers.support import metric, running, slow_decoder, wait_until
from workers import create_encoder_app


def call(steps=5, seed=7, **more):
    """A row that needs so many steps."""
    params = {"max_new_tokens": steps, "ignore_eos": True, "sampling_seed": seed}
    grids = [{"image_grid_thw": [[1, 2, 2]]}]
    return {"input_ids": [1, 2], "image_data": grids, "sampling_params": params} | more


def listed(*calls):
    """The list form of several rows."""
    return {key: [each[key] for each in calls] for key in calls[0]}


def chunks(encoder, body):
    """The stream's chunks; it must end as SGLang's does."""
    with encoder.stream("POST", "/generate", json=body | {"stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_a_stream_holds_all_tokens_so_far(encoder):
    """Each chunk continues the one before, and the last is what a plain call gives."""
    seen = chunks(encoder, call(rid="mine"))
    plain = encoder.post("/generate", json=call()).json()
    assert seen[-1]["output_ids"] == plain["output_ids"]
    assert seen[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 5}
    assert len(seen) > 1
    for chunk in seen[:-1]:
        ids = chunk["output_ids"]
        assert ids == plain["output_ids"][: len(ids)]
        meta = chunk["meta_info"]
        assert (meta["id"], meta["completion_tokens"]) == ("mine", len(ids))
        assert meta["finish_reason"] is None


def test_a_list_is_streamed_by_index(encoder):
    """The chunks of a list's rows name their row."""
    seen = chunks(encoder, listed(call(seed=1), call(seed=2)))
    last = {chunk["index"]: chunk["output_ids"] for chunk in seen}
    plain = encoder.post("/generate", json=listed(call(seed=1), call(seed=2))).json()
    assert [last[0], last[1]] == [answer["output_ids"] for answer in plain]


def test_a_bad_row_is_400_even_if_it_would_be_streamed(encoder):
    """What cannot be decoded is refused with a status, not in the stream."""
    answer = encoder.post("/generate", json=call(input_ids=[10**9]) | {"stream": True})
    assert answer.status_code == 400


@pytest.fixture(scope="module")
def slow(tiny):
    """An encoder server whose steps take long enough for calls to gather."""
    with running(create_encoder_app(tiny, "cpu", load=slow_decoder(tiny, 0.05))) as client:
        yield client


def test_calls_of_one_shape_share_a_batch(slow):
    """Calls that gather while another runs are decoded together, each as it would be alone."""
    answers = {}

    def send(name, body):
        answer = httpx.post(f"{slow.base_url}/generate", json=body, timeout=60)
        answers[name] = answer.json()["output_ids"]

    bodies = {"first": call(40, 1), "a": call(7, 2), "b": call(7, 3), "other": call(8, 4)}
    threads = []
    batches = metric(slow, "turnout_encoder_batch_size_count")
    for at, (name, body) in enumerate(bodies.items()):
        threads.append(threading.Thread(target=send, args=(name, body)))
        threads[-1].start()
        wait_until(lambda at=at: slow.get("/health").json()["waiting"] == at, 5)
        wait_until(lambda: slow.get("/health").json()["in_flight"] == 1, 5)
    for thread in threads:
        thread.join(60)
    assert metric(slow, "turnout_encoder_batch_size_count") == batches + 3
    for name, body in bodies.items():
        assert answers[name] == slow.post("/generate", json=body).json()["output_ids"]


def test_the_load_is_told_in_sglangs_words(slow):
    """`/v1/loads` counts what runs and waits."""
    assert slow.get("/v1/loads").json() == {
        "loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]
    }
