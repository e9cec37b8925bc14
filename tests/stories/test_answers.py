"""What a served request looks like: on the worker's wire, in the answer, in its headers."""

from __future__ import annotations

import base64
import re

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8, PNG8, facts, facts_of, picture
from tests.support.scripted_worker import colour_of

pytestmark = pytest.mark.anyio


async def test_the_json_answer_says_everything(house):
    """The answer of /generate has the members that interface and clients rely on."""
    await house.two_tracks()
    response = await house.generate(prompt="p", size="96x64", seed=5, model="zai-org/GLM-Image")
    body = response.json()
    assert {
        "task": "t2i",
        "pool": "t2i",
        "model": "zai-org/GLM-Image",
        "size": "96x64",
        "seed": 5,
        "output_format": "png",
    }.items() <= body.items()
    assert response.headers["x-request-id"] == body["id"]
    assert {"queue_seconds", "worker_seconds", "total_seconds"} == body["timings"].keys()
    assert [5] == [datum["seed"] for datum in body["data"]]
    assert ("png", 96, 64) == facts_of(body["data"][0])


async def test_the_headers_say_which_way_it_went(house):
    """Task, pool, worker, attempts and times are response headers, three decimals each."""
    await house.two_tracks()
    headers = (await house.generate(prompt="p", image=DATA8)).headers
    assert ["i2i", "i2i", "i2i-0", "1"] == [
        headers[f"x-turnout-{name}"] for name in ("task", "pool", "worker", "attempts")
    ]
    for name in ("queue", "worker"):
        assert re.fullmatch(r"\d+\.\d{3}", headers[f"x-turnout-{name}-seconds"])


@pytest.mark.parametrize("sent", ["abc-1.2_Z", "x" * 128])
async def test_a_usable_request_id_is_kept(house, sent):
    """The caller's request id is echoed, equals `id`, and reaches the worker."""
    text, _ = await house.two_tracks()
    response = await house.generate({"x-request-id": sent}, prompt="p")
    assert [sent] * 3 == [
        response.headers["x-request-id"],
        response.json()["id"],
        text.requests[0].headers["x-request-id"],
    ]


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "ü".encode().decode("latin-1")])
async def test_an_unusable_request_id_is_replaced(house, sent):
    """Any other request id is replaced by one of ours."""
    await house.two_tracks()
    response = await house.generate({b"x-request-id": sent.encode("latin-1")}, prompt="p")
    assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])


async def test_the_worker_sees_the_canonical_call(house):
    """A worker gets SGLang's fields and no others, numbers as numbers (B25)."""
    text, _ = await house.two_tracks()
    form = {
        "prompt": "a fox", "size": "64x96", "n": "1", "seed": "7", "num_inference_steps": "4",
        "guidance_scale": "1.5", "negative_prompt": "blur", "user": "u1", "output_format": "webp",
        "output_compression": "80", "response_format": "b64_json", "model": "glm-image",
    }  # fmt: skip
    files = [(name, (None, value)) for name, value in form.items()]
    response = await house.client.post("/v1/images/generations", files=files)
    assert ("webp", 64, 96) == facts_of(response.json()["data"][0])
    assert {
        "model": "zai-org/GLM-Image",
        "prompt": "a fox",
        "size": "64x96",
        "n": 1,
        "seed": 7,
        "num_inference_steps": 4,
        "guidance_scale": 1.5,
        "negative_prompt": "blur",
        "output_format": "webp",
        "output_compression": 80,
        "response_format": "b64_json",
    } == text.requests[0].texts


async def test_nothing_of_the_client_reaches_the_worker(house):
    """Of the client's headers only request id and trace context go on (B42)."""
    text, image = await house.two_tracks()
    sent = {
        "authorization": "Bearer client",
        "cookie": "a=b",
        "x-api-key": "k",
        "x-forwarded-for": "192.0.2.1",
        "proxy-authorization": "Basic x",
        "user-agent": "canary",
        "x-request-id": "r1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    await house.generate(sent, prompt="p")
    await house.generate(sent, prompt="p", image=DATA8)
    for worker in (text, image):
        arrived = worker.requests[0].headers
        assert (sent["traceparent"], "r1") == (arrived["traceparent"], arrived["x-request-id"])
        assert {
            "host", "accept", "accept-encoding", "user-agent", "content-length", "content-type",
            "connection", "x-request-id", "traceparent",
        } >= arrived.keys()  # fmt: skip
        assert not [value for value in arrived.values() if "client" in value or "canary" in value]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("image/png", "png"),
        ("image/webp, */*;q=0.1", "webp"),
        ("image/*", "png"),
        ("image/gif, image/jpeg;q=0.5", "jpeg"),
    ],
)
async def test_the_picture_itself_where_it_is_accepted(house, accept, kind):
    """`Accept: image/…` gets the bytes of the one picture, of that type."""
    await house.two_tracks()
    response = await house.generate({"accept": accept}, prompt="p", size="64x32")
    assert f"image/{kind}" == response.headers["content-type"]
    assert (kind, 64, 32) == facts(response.content)
    assert "t2i" == response.headers["x-turnout-task"]


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, image/png;q=0.5"])
async def test_json_where_json_is_as_good(house, accept):
    """`*/*` and JSON get JSON."""
    await house.two_tracks()
    response = await house.generate({"accept": accept}, prompt="p")
    assert "application/json" == response.headers["content-type"]


@pytest.mark.parametrize(
    ("accept", "fields", "param"),
    [
        ("image/png", {"n": 2}, "n"),
        ("image/png", {"output_format": "webp"}, "output_format"),
        ("image/gif", {}, "Accept"),
    ],
)
async def test_a_picture_that_cannot_be_had_is_refused(house, accept, fields, param):
    """More than one picture, a contradiction, or another type: 400 in JSON, and no hits."""
    text, _ = await house.two_tracks()
    response = await house.generate({"accept": accept}, prompt="p", **fields)
    assert (400, "invalid_value", param) == code_of(response)
    assert 0 == text.hits


async def test_several_pictures_are_single_runs_with_following_seeds(house):
    """`n: 3, seed: 2³²-1` is three runs, seeds in order and wrapped, answers alike (B26)."""
    text, _ = await house.two_tracks()
    response = await house.generate(prompt="p", n=3, seed=2**32 - 1)
    seeds = [2**32 - 1, 0, 1]
    assert seeds == [datum["seed"] for datum in response.json()["data"]]
    assert [(1, seed) for seed in seeds] == [(r.texts["n"], r.texts["seed"]) for r in text.requests]
    colours = [bytes(colour_of(request)) for request in text.requests]
    got = [base64.b64decode(datum["b64_json"]) for datum in response.json()["data"]]
    assert [picture(1024, 1024, tuple(colour)) for colour in colours] == got
    assert ("t2i-0,t2i-0,t2i-0", "3") == (
        response.headers["x-turnout-worker"],
        response.headers["x-turnout-attempts"],
    )


async def test_a_missing_seed_is_drawn_and_reported(house):
    """Without a seed the gateway draws one, another each time, and says which."""
    text, _ = await house.two_tracks()
    seeds = [(await house.generate(prompt="p")).json()["seed"] for _ in range(2)]
    assert seeds == [request.texts["seed"] for request in text.requests]
    assert seeds[0] != seeds[1]


@pytest.mark.parametrize(
    ("fields", "asked", "got"),
    [
        ({}, "1024x1024", (1024, 1024)),
        ({"size": "500x500"}, "512x512", (500, 500)),
        ({"width": 100, "height": 50}, "128x64", (100, 50)),
        ({"image": picture(100, 50)}, "96x64", (96, 64)),
        ({"image": picture(4000, 2000, mode="L")}, "2048x1024", (2048, 1024)),
        ({"image": PNG8, "size": "auto"}, "32x32", (32, 32)),
        ({"image": PNG8, "size": "72X40"}, "96x64", (72, 40)),
    ],
)
async def test_sizes_are_painted_on_the_step_and_cut_to_what_was_asked(house, fields, asked, got):
    """Workers paint multiples of 32; the caller gets exactly the pixels asked for (B22, B23)."""
    text, image = await house.two_tracks()
    if "image" in fields:
        fields = fields | {"image": base64.b64encode(fields["image"]).decode()}
    body = (await house.generate(prompt="p", **fields)).json()
    request = (image if "image" in fields else text).requests[0]
    assert asked == request.texts["size"]
    assert ("png", *got) == facts_of(body["data"][0])
    assert f"{got[0]}x{got[1]}" == body["size"]


async def test_ignored_fields_are_named_where_the_configuration_allows_them(house):
    """With `unknown_fields = "ignore"` an unknown field is named in a header, not refused."""
    await house.two_tracks(limits={"unknown_fields": "ignore"})
    response = await house.generate(prompt="p", colour="red", lora_path="x")
    assert (200, "colour,lora_path") == (
        response.status_code,
        response.headers["x-turnout-ignored"],
    )
