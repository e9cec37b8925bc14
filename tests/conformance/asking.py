"""How the tests ask: one request in SGLang's words, and a short form of what came back."""

from __future__ import annotations

import json

import httpx

from tests.support.pictures import facts_of, picture

STEPS = {"num_inference_steps": 2}
FIELDS = STEPS | {
    "prompt": "a fox",
    "size": "64x64",
    "seed": 7,
    "response_format": "b64_json",
    "output_format": "png",
}
LONG_TOKENS = 7000
"""More tokens than two cores decode while a test looks on."""


def generate(server, **fields):
    """Asks a worker for a picture from a text; a field that is None is left out."""
    body = {key: value for key, value in (FIELDS | fields).items() if value is not None}
    return post(server, "/v1/images/generations", json=body)


def edit(server, *images, name="image", **fields):
    """Asks a worker for an edit of pictures."""
    body = {key: str(value) for key, value in (FIELDS | fields).items() if value is not None}
    given = images or (picture(64, 64),)
    parts = [(name, (f"image_{at}.png", data, "image/png")) for at, data in enumerate(given)]
    return post(server, "/v1/images/edits", data=body, files=parts)


def post(server, path, seconds=300, **call):
    """Posts on a connection of its own, as our gateway does."""
    return httpx.post(server.url + path, timeout=seconds, trust_env=False, **call)


def plan(tokens, **more):
    """Returns the body of a call to the encoder: a short text, a 2x2 and a 16x16 grid."""
    return {
        "input_ids": [300, 301, 302, 256],
        "image_data": [{"image_grid_thw": [[1, 2, 2], [1, 16, 16]]}],
        "sampling_params": {"temperature": 1.0, "max_new_tokens": tokens, "ignore_eos": True},
    } | more


def get(server, path):
    """Gets on a connection of its own."""
    return httpx.get(server.url + path, timeout=60, trust_env=False)


def first(answer):
    """Returns the facts of the first picture of an answer."""
    assert answer.status_code == 200, answer.text
    return facts_of(answer.json()["data"][0])


def shape(answer):
    """Says status, type of body, and its shape with every value of an object named by its type."""
    kind = answer.headers.get("content-type", "no type").split(";")[0]
    try:
        body = _shape(answer.json())
    except ValueError:
        body = answer.text or "empty"
    return f"{answer.status_code}, {kind}: `{body}`"


def _shape(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shape(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{_shape(value[0])}]" if value else "[]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return {str: "text", int: "number", float: "number"}[type(value)]
