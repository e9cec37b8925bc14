"""What the encoder server answers to `/generate`: the contract of our own encoder and workers."""

from __future__ import annotations

import json

import pytest

from tests.conformance.asking import LONG_TOKENS, plan, post, shape


def ids(fleet, **more):
    """Returns the tokens of one call."""
    answer = post(fleet.encoder, "/generate", json=plan(8, **more))
    assert 200 == answer.status_code, answer.text
    return answer.json()["output_ids"]


def test_a_call_and_a_list_of_calls(fleet, seen):
    """One call answers an object, a list of calls a list in order, `rid` comes back as the id."""
    one = post(fleet.encoder, "/generate", json=plan(5, rid="one")).json()
    assert 5 == len(one["output_ids"])
    assert ("one", 4, 5) == tuple(
        one["meta_info"][key] for key in ("id", "prompt_tokens", "completion_tokens")
    )
    assert {"type": "length", "length": 5} == one["meta_info"]["finish_reason"]
    rows = [plan(3), plan(5)]
    body = {key: [row[key] for row in rows] for key in rows[0]}
    many = post(fleet.encoder, "/generate", json=body).json()
    assert [3, 5] == [len(row["output_ids"]) for row in many]
    seen("encoder", "`/generate`", "`text`, `output_ids`, `meta_info`; a list for a list, in order")


def events(lines):
    """Reads the objects of a stream, and that `[DONE]` is its last word."""
    data = [line[6:] for line in lines if line.startswith("data: ")]
    assert "[DONE]" == data.pop()
    return [json.loads(each) for each in data]


def test_a_stream_is_cumulative(fleet, seen):
    """Each event of a stream holds all tokens so far, and `[DONE]` ends it."""
    answer = post(fleet.encoder, "/generate", json=plan(4, stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    tokens = [event["output_ids"] for event in events(answer.text.splitlines())]
    assert 4 == len(tokens[-1])
    assert all(tokens[-1][: len(each)] == each for each in tokens)
    seen("encoder", "`stream: true`", "events with all `output_ids` so far, then `[DONE]`")


def test_a_list_is_streamed_by_index(fleet, seen):
    """A list's events name their row by `index`; aborting one `rid` ends that row alone."""
    rows = [plan(tokens, rid=rid) for tokens, rid in ((LONG_TOKENS, "one"), (60, "two"))]
    body = {key: [row[key] for row in rows] for key in rows[0]} | {"stream": True}
    lines = []
    with (
        fleet.encoder.client() as client,
        client.stream("POST", "/generate", json=body) as answer,
    ):
        for line in answer.iter_lines():
            if not lines:
                post(fleet.encoder, "/abort_request", json={"rid": "one"})
            lines.append(line)
    last = {event["index"]: event["meta_info"] for event in events(lines)}
    assert {0: ("one", "abort"), 1: ("two", "length")} == {
        index: (meta["id"], meta["finish_reason"]["type"]) for index, meta in last.items()
    }
    assert 60 == last[1]["completion_tokens"]
    seen("encoder", "a streamed list", "each event names its row by `index`")
    seen("encoder", "`/abort_request` for one row of it", "this row ends with abort, others go on")


def test_a_seed_does_not_count(fleet, seen):
    """Without `--enable-deterministic-inference`, equal `sampling_seed`s give other tokens."""
    params = plan(8)["sampling_params"] | {"sampling_seed": 7}
    assert 1 < len({tuple(ids(fleet, sampling_params=params)) for _ in range(3)})
    seen("encoder", "`sampling_seed` three times", "other tokens each time")


def test_greedy_tokens_are_the_same(fleet, seen):
    """At temperature 0 the same call gives the same tokens, `logit_bias` and `top_p` included."""
    params = plan(8)["sampling_params"] | {"temperature": 0}
    assert ids(fleet, sampling_params=params) == ids(fleet, sampling_params=params)
    biased = params | {"logit_bias": {"5": 1e9}, "top_p": 0.75}
    assert [5] * 8 == ids(fleet, sampling_params=biased)
    seen("encoder", "temperature 0 twice", "the same tokens; `logit_bias` and `top_p` are honoured")


def test_an_extra_key_keeps_prefixes_apart(fleet, seen):
    """A fresh `extra_key` shares no cached prefix, though the ids are the same."""
    ids(fleet)
    cached = [
        post(fleet.encoder, "/generate", json=plan(2, **more)).json()["meta_info"]["cached_tokens"]
        for more in ({}, {"extra_key": "a grid"})
    ]
    assert cached[0] > 0 == cached[1]
    seen("encoder", "`cached_tokens`, same ids again", "more than 0; 0 with a fresh `extra_key`")


BAD = {
    "no input_ids": {"input_ids": None},
    "too many tokens": {"sampling_params": {"max_new_tokens": 9000}},
    "an unknown sampling parameter": {"sampling_params": {"nope": 1}},
    "pixels in image_data": {"image_data": [{"format": "processor_output", "pixel_values": [1]}]},
}


@pytest.mark.parametrize("what", BAD)
def test_bad_calls(fleet, seen, what):
    """What the encoder refuses is a 400 with `error`, an object or a text."""
    answer = post(fleet.encoder, "/generate", json=plan(4) | BAD[what])
    assert (400, {"error"}) == (answer.status_code, set(answer.json()))
    seen("encoder", what, shape(answer))


def test_broken_json(fleet, seen):
    """Broken JSON is a 400 of a third form."""
    head = {"content-type": "application/json"}
    answer = post(fleet.encoder, "/generate", content=b"{", headers=head)
    assert (400, "error") == (answer.status_code, answer.json()["object"])
    seen("encoder", "broken JSON", shape(answer))


def test_a_placeholder_is_taken(fleet, seen):
    """A left-over image placeholder is no error: whoever calls has to look for it."""
    placeholder = 535
    assert 8 == len(ids(fleet, input_ids=[300, placeholder, 256]))
    seen("encoder", "an image placeholder without a picture", "200, tokens of no use")
