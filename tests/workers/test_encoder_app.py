"""The encoder server against the payloads that SGLang's own client sends."""

import json

import pytest

from tests.workers.support import pattern, wait_until
from workers.engine import PictureRequest
from workers.rows import generate_payload


@pytest.fixture(scope="module")
def payload(engine):
    """SGLang's payload for one request: temperature 1, a length, ignore_eos, a seed."""

    def build(prompt="a cat", width=96, height=64, sources=(), seed=7):
        row = engine._encoder._scribe.row(
            PictureRequest(prompt, width, height, 1, 1.5, seed, sources)
        )[1]
        return {
            "input_ids": row.input_ids,
            "image_data": [{"image_grid_thw": row.grids}],
            "sampling_params": {
                "temperature": 1.0,
                "max_new_tokens": row.max_new_tokens,
                "ignore_eos": True,
                "sampling_seed": seed,
            },
        }

    return build


def listed(*payloads):
    """The list form: every field a list."""
    return {key: [one[key] for one in payloads] for key in payloads[0]}


def ask(encoder, body):
    answer = encoder.post("/generate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def count(encoder, task):
    line = f'turnout_encoder_requests_total{{task="{task}"}} '
    (found,) = [text for text in encoder.get("/metrics").text.splitlines() if line in text]
    return float(found.removeprefix(line))


def test_single_form(encoder, payload):
    """One row in, one answer out, with SGLang's keys and exactly the tokens asked for."""
    body = payload()
    wanted = body["sampling_params"]["max_new_tokens"]
    answer = ask(encoder, body | {"rid": "mine", "extra_key": "1x2x3"})
    assert answer["text"] == ""
    assert len(answer["output_ids"]) == wanted
    meta = answer["meta_info"]
    assert meta["id"] == "mine"
    assert meta["finish_reason"] == {"type": "length", "length": wanted}
    assert meta["prompt_tokens"] == len(body["input_ids"])
    assert meta["completion_tokens"] == wanted
    assert "cached_tokens" in meta


def test_list_form_of_mixed_rows_equals_single_calls(encoder, payload):
    """Text and edit rows of different grids in one call give what each gives alone."""
    bodies = [
        payload(),
        payload("red", 64, 64, (pattern(64, 64),), 8),
        payload("merge", 64, 96, (pattern(96, 64), pattern(64, 64)), 9),
    ]
    alone = [ask(encoder, body)["output_ids"] for body in bodies]
    together = ask(encoder, listed(*bodies))
    assert [answer["output_ids"] for answer in together] == alone


def test_seeds_are_honoured_per_row(encoder, payload):
    """Same seed, same tokens; another seed, other tokens; no seed, new tokens each time."""
    sources = (pattern(64, 64),)
    bodies = [payload("red", 64, 64, sources, seed) for seed in (1, 2, 1)]
    free = payload("red", 64, 64, sources, 1)
    del free["sampling_params"]["sampling_seed"]
    first, second, again, third, fourth = (
        answer["output_ids"] for answer in ask(encoder, listed(*bodies, free, free))
    )
    assert first == again
    assert first != second
    assert third != fourth


def test_shared_sampling_params(encoder, payload):
    """One object of sampling parameters serves every row of a list."""
    body = payload("red", 64, 64, (pattern(64, 64),), 1)
    rows = listed(body, body) | {"sampling_params": body["sampling_params"]}
    first, second = ask(encoder, rows)
    assert first["output_ids"] == second["output_ids"] == ask(encoder, body)["output_ids"]


def test_rows_are_counted_by_task(encoder, payload):
    """A row with a source picture counts as i2i, one without as t2i."""
    before = count(encoder, "t2i"), count(encoder, "i2i")
    ask(encoder, listed(payload(), payload("red", 64, 64, (pattern(64, 64),), 1)))
    after = count(encoder, "t2i"), count(encoder, "i2i")
    assert after == (before[0] + 1, before[1] + 1)


def harmed(body, **changes):
    """The body with changes; `grids` and `params` reach inside."""
    body = json.loads(json.dumps(body))
    if "grids" in changes:
        body["image_data"] = [{"image_grid_thw": changes.pop("grids")}]
    body["sampling_params"] |= changes.pop("params", {})
    return body | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"input_ids": [536]},
        {"input_ids": [-1]},
        {"input_ids": [10**30]},
        {"input_ids": [1, 535, 2]},
        {"input_ids": []},
        {"input_ids": "text"},
        {"input_ids": [1.5]},
        {"input_ids": [True]},
        {"input_ids": [257]},
        {"input_ids": [256, 1, 2, 257, 256], "grids": [[1, 2, 2], [1, 2, 2]]},
        {"input_ids": [256, 256, 1, 257, 257], "grids": [[1, 1, 2], [1, 1, 2], [1, 2, 2]]},
        {"input_ids": [1] * 9000},
        {"image_data": None},
        {"image_data": [{}]},
        {"image_data": [{"image_grid_thw": [[1, 2, 2]], "url": "http://localhost"}]},
        {"grids": []},
        {"grids": [[1, 2]]},
        {"grids": [[2, 2, 2]]},
        {"grids": [[1, 0, 2]]},
        {"grids": [[1, 100000, 100000]]},
        {"params": {"max_new_tokens": 0}},
        {"params": {"max_new_tokens": 10**9}},
        {"params": {"temperature": -1}},
        {"params": {"top_p": 0}},
        {"params": {"logit_bias": {"536": 1.0}}},
        {"params": {"logit_bias": {"x": 1.0}}},
        {"params": {"logit_bias": {"1": 1e300}}},
        {"params": {"topp": 1}},
        {"sampling_params": [1]},
        {"input_ids": [[1], [2]]},
        {"input_ids": [256, 255, 256, 257, 256], "grids": [[1, 1, 2], [1, 2, 2]]},
    ],
)
def test_bad_rows_are_400_and_the_server_lives(encoder, payload, changes):
    """What would crash a decoder is 400 in SGLang's error shape, and the server goes on."""
    answer = encoder.post("/generate", json=harmed(payload(), **changes))
    assert answer.status_code == 400
    assert isinstance(answer.json()["error"]["message"], str)
    assert encoder.get("/health").status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100000, b'{"input_ids": [NaN]}'])
def test_bad_json_is_400(encoder, body):
    """A body that is no JSON object is 400."""
    assert encoder.post("/generate", content=body).status_code == 400


def test_one_bad_row_refuses_the_whole_list(encoder, payload):
    """A list with one bad row decodes nothing."""
    before = count(encoder, "t2i")
    bad = harmed(payload(), input_ids=[536])
    assert encoder.post("/generate", json=listed(payload(), bad)).status_code == 400
    assert count(encoder, "t2i") == before


def test_biases_reach_the_decoder(encoder, payload, engine, tiny):
    """Our own payload draws from the codebook only."""
    row = engine._encoder._scribe.row(PictureRequest("a cat", 96, 64, 1, 1.5, 3))[1]
    body = generate_payload(row)
    assert body["sampling_params"]["top_p"] == 0.75
    assert max(ask(encoder, body)["output_ids"]) < tiny.codebook_size


def test_status_routes(encoder, tiny):
    """The encoder tells its model by name, and all its metrics start with ours."""
    assert encoder.get("/health_generate").status_code == 200
    assert encoder.get("/model_info").json()["model_path"] == tiny.name
    assert encoder.get("/v1/models").json()["data"][0]["id"] == tiny.name
    assert encoder.get("/server_info").json()["context_length"] == tiny.context_length
    wait_until(lambda: encoder.get("/health").json()["waiting"] == 0)
    lines = encoder.get("/metrics").text.splitlines()
    assert all(line.startswith(("#", "turnout_")) for line in lines)
