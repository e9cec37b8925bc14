"""Models by name and alias, their limits, quality, and answers by URL."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.house import House, code_of
from tests.support.pictures import B64, DATA8, PNG8, facts, picture
from tests.support.scripted_worker import after
from tests.support.serve import until

pytestmark = pytest.mark.anyio

TWO = {
    "small": {"aliases": ["s"], "worker_model": "org/Small", "max_input_images": 1},
    "large": {"aliases": ["l"], "worker_model": "org/Large", "max_input_images": 4},
}


async def test_a_model_is_named_or_the_only_one(house):
    """Missing, blank and unknown names are told apart; the name used comes back (B18)."""
    text, image = await house.two_tracks(models=TWO)
    for fields, expected in (
        ({}, (400, "model_required", "model")),
        ({"model": ""}, (400, "model_required", "model")),
        ({"model": "nope"}, (404, "model_not_found", "model")),
    ):
        path = "/v1/images/generations"
        response = await house.client.post(path, json={"prompt": "p"} | fields)
        assert expected == code_of(response)
    assert (0, 0) == (text.hits, image.hits)
    assert "s" == (await house.generate(prompt="p", model="s")).json()["model"]
    assert "org/Small" == text.requests[0].texts["model"]


@pytest.mark.parametrize("order", ["first", "last"])
async def test_an_alias_means_the_same_in_a_form(house, order):
    """The worker sees the real name once, whether the form names the model first or last (B19)."""
    _, image = await house.two_tracks(models=TWO)
    large = picture(1200, 1100, mode="L")
    parts = [("model", (None, "l")), ("prompt", (None, "p")), ("image", ("a.png", large))]
    files = parts if order == "first" else parts[::-1]
    response = await house.client.post("/v1/images/edits", files=files)
    assert (200, "l") == (response.status_code, response.json()["turnout"]["model"])
    assert ["org/Large"] == [image.requests[0].texts["model"]]


async def test_a_model_takes_so_many_pictures(house):
    """A picture more than the model takes is a 400 with the limit; a list of one is fine (B13)."""
    text, image = await house.two_tracks(models=TWO)
    for model, count, status in (("small", 2, 400), ("large", 5, 400), ("small", 1, 200)):
        response = await house.generate(prompt="p", model=model, images=[B64] * count)
        assert status == response.status_code
        if status == 400:
            assert "too_many_images" == code_of(response)[1]
            limit = TWO[model]["max_input_images"]
            assert f"the limit is {limit}" in response.json()["error"]["message"]
    assert (0, 1) == (text.hits, image.hits)


@pytest.mark.parametrize(
    ("quality", "more", "steps"),
    [
        ("low", {}, 15),
        ("medium", {}, 30),
        ("high", {}, 50),
        ("hd", {}, 50),
        ("max", {}, 100),
        ("auto", {}, None),
        ("high", {"num_inference_steps": 7}, 7),
    ],
)
async def test_quality_is_a_number_of_steps(house, quality, more, steps):
    """OpenAI's words become denoising steps; the word itself never reaches a worker."""
    text, _ = await house.two_tracks()
    assert 200 == (await house.generate(prompt="p", quality=quality, **more)).status_code
    sent = text.requests[0].texts
    assert (steps, False) == (sent.get("num_inference_steps"), "quality" in sent)


async def test_several_pictures_run_side_by_side(house):
    """`n` is split over the free workers of the pool, the answers in seed order (B26)."""
    first, second = await house.pair()
    gate = asyncio.Event()
    first.script = second.script = after(gate)
    call = asyncio.create_task(house.generate(prompt="p", n=4, seed=5, size="64x64"))
    await until(lambda: (first.running, second.running) == (1, 1))
    gate.set()
    body = (await call).json()
    assert [5, 6, 7, 8] == [datum["seed"] for datum in body["data"]]
    assert 4 == first.hits + second.hits
    assert {first.hits, second.hits} != {0, 4}


async def test_a_request_for_many_pictures_takes_one_place(house):
    """A line with one free place takes a request for many pictures, and refuses the next one."""
    text, _ = await house.two_tracks(pool={"queue_limit": 1})
    gate = asyncio.Event()
    text.script = after(gate)
    calls = [asyncio.create_task(house.generate(prompt="p", n=5, size="64x64"))]
    await until(lambda: house.queue("t2i").waiting == 4)
    refused = await house.generate(prompt="p")
    assert (429, "queue_full", None) == code_of(refused)
    gate.set()
    assert 5 == len((await calls[0]).json()["data"])


async def test_a_url_answer_lives_behind_two_copies_until_it_expires(tmp_path):
    """Either of two copies serves what one stored, to the byte, until it expires (B28)."""
    shared = {"artifacts": {"directory": str(tmp_path), "ttl_seconds": 5}}
    async with House() as one, House() as two:
        text, _ = await one.two_tracks(**shared)
        await two.open({"t2i": [text]}, **shared)
        answer = await one.generate(prompt="p", size="64x64", response_format="url", n=2)
        urls = [datum["url"] for datum in answer.json()["data"]]
        assert "file_path" not in answer.text
        first = None
        for number in range(20):
            url = urls[0] if number % 2 else urls[0].replace(one.url, two.url)
            response = await one.client.get(url)
            first = first or response.content
            assert (200, first) == (response.status_code, response.content)
            if number == 10:
                await text.stop()
        assert ("png", 64, 64) == facts(first)
        await asyncio.sleep(6.5)
        assert (404, "not_found", None) == code_of(await one.client.get(urls[0]))


async def test_urls_stand_on_the_public_address(house):
    """With `server.public_url` the URLs stand on it, else on the host that the client asked for."""
    server = {"public_url": "https://images.example.org", "log_level": "error"}
    await house.two_tracks(server=server)
    body = {"prompt": "p", "response_format": "url", "size": "64x64"}
    answer = (await house.client.post("/v1/images/generations", json=body)).json()
    assert answer["data"][0]["url"].startswith("https://images.example.org/artifacts/")
    assert "b64_json" not in answer["data"][0]


@pytest.mark.parametrize(
    "value", [{"a": DATA8}, [B64], "data:image/png;base64,AAAA", "\n".join(B64), "https://x.test/a"]
)
async def test_an_unknown_field_that_looks_like_a_picture_is_refused(house, value):
    """Even where unknown fields are ignored, one that may be a picture is not (R2, B04)."""
    text, image = await house.two_tracks(limits={"unknown_fields": "ignore"})
    for name in ("control_image", "Image-URL"):
        response = await house.generate(prompt="p", **{name: value})
        assert (400, "unsupported_parameter", name) == code_of(response)
    if value != "https://x.test/a":  # a user may well be named by a URL, but is no picture
        assert 400 == (await house.generate(prompt="p", user=value)).status_code
    files = {"control": ("a.png", PNG8)}
    response = await house.client.post("/generate", data={"prompt": "p"}, files=files)
    assert (400, "unsupported_parameter", "control") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)
