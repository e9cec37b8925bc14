"""An input image decides the pool, whatever the request's shape and whatever the load."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from tests.support.house import code_of
from tests.support.pictures import B64, DATA8, PNG8
from tests.support.scripted_worker import after, answer
from tests.support.serve import until

pytestmark = pytest.mark.anyio

FILE = ("cat.png", PNG8, "image/png")
WITH_IMAGE = {
    "json data url": ("/generate", {"json": {"prompt": "p", "image": DATA8}}),
    "json base64": ("/generate", {"json": {"prompt": "p", "image": B64}}),
    "json list": ("/generate", {"json": {"prompt": "p", "images": [DATA8, B64]}}),
    "json before prompt": ("/generate", {"json": {"image": [DATA8], "prompt": "p"}}),
    "json object": ("/generate", {"json": {"prompt": "p", "image": {"b64_json": B64}}}),
    "form file": ("/generate", {"data": {"prompt": "p"}, "files": [("image", FILE)]}),
    "form brackets": ("/generate", {"data": {"prompt": "p"}, "files": [("image[]", FILE)] * 2}),
    "form text": ("/generate", {"files": [("prompt", (None, "p")), ("image", (None, DATA8))]}),
    "edits form": ("/v1/images/edits", {"data": {"prompt": "p"}, "files": [("image", FILE)]}),
    "edits brackets": ("/v1/images/edits", {"data": {"prompt": "p"}, "files": [("image[]", FILE)]}),
    "edits json": (
        "/v1/images/edits",
        {"json": {"prompt": "p", "images": [{"image_url": {"url": DATA8}}]}},
    ),
    "generations json": ("/v1/images/generations", {"json": {"prompt": "p", "init_image": B64}}),
}
WITHOUT_IMAGE = {
    "json": ("/generate", {"json": {"prompt": "p"}}),
    "json null": ("/generate", {"json": {"prompt": "p", "image": None}}),
    "json empty list": ("/generate", {"json": {"prompt": "p", "images": [None, ""]}}),
    "json empty object": ("/generate", {"json": {"prompt": "p", "image": {"url": " "}}}),
    "form": ("/generate", {"files": [("prompt", (None, "p"))]}),
    "form no file chosen": (
        "/generate",
        {"files": [("prompt", (None, "p")), ("image", ("", b""))]},
    ),
    "generations": ("/v1/images/generations", {"json": {"prompt": "p"}}),
    "plain text": ("/generate", {"content": b'{"prompt": "p"}'}),
}


@pytest.mark.parametrize("shape", WITH_IMAGE)
async def test_a_request_with_an_image_goes_to_the_worker_that_sees(house, shape):
    """A request with an input image is served by I, which receives the exact bytes (B01–B04)."""
    text, image = await house.two_tracks()
    path, call = WITH_IMAGE[shape]
    response = await house.client.post(path, **call)
    assert (200, "i2i") == (response.status_code, response.headers["x-turnout-task"])
    assert (0, 1) == (text.hits, image.hits)
    names = [(name, filename, kind) for name, filename, kind, _ in image.requests[0].files]
    count = len(names)
    assert [("image", f"image_{i}.png", "image/png") for i in range(count)] == names
    assert {PNG8} == {data for *_, data in image.requests[0].files}
    assert not [name for name in image.requests[0].texts if name.startswith("image")]


@pytest.mark.parametrize("shape", WITHOUT_IMAGE)
async def test_a_request_without_an_image_goes_to_the_fast_pool(house, shape):
    """An empty image value means no image: the request is served by T (B05)."""
    text, image = await house.two_tracks()
    path, call = WITHOUT_IMAGE[shape]
    response = await house.client.post(path, **call)
    assert (200, "t2i") == (response.status_code, response.headers["x-turnout-task"])
    assert (1, 0) == (text.hits, image.hits)


async def test_under_load_no_picture_ever_reaches_a_worker_that_cannot_see(house):
    """Of 200 mixed requests, I2I saturated and then stopped, none with an image meets T (B15)."""
    text, image = await house.two_tracks(pool={"queue_limit": 200})
    gate = asyncio.Event()
    image.script = after(gate)
    mixed = [
        shape
        for pair in zip(
            itertools.cycle(WITH_IMAGE.values()), itertools.cycle(WITHOUT_IMAGE.values()),
            range(100), strict=False,
        )
        for shape in pair[:2]
    ]  # fmt: skip
    random.Random(15).shuffle(mixed)
    at_once = asyncio.Semaphore(20)

    async def send(path, call):
        async with at_once:
            return await house.client.post(path, **call)

    sending = [asyncio.create_task(send(*shape)) for shape in mixed]
    # All twenty places end up with requests that wait for I, while T is idle and stays so.
    await until(lambda: house.queue("i2i").waiting + image.running == 20)
    assert 0 == text.running
    await image.stop()
    gate.set()
    responses = await asyncio.gather(*sending)

    assert not [r for r in text.requests if r.files or r.path != "/v1/images/generations"]
    by_task = {
        task: [r for r in responses if r.headers["x-turnout-task"] == task]
        for task in ("t2i", "i2i")
    }
    assert (100, 100) == (len(by_task["t2i"]), len(by_task["i2i"]))
    assert {200} == {r.status_code for r in by_task["t2i"]}
    assert 100 == text.hits
    # The one that I was working on when it was stopped is lost; the others never began.
    assert {502, 503} == {r.status_code for r in by_task["i2i"]}
    refused = [r for r in by_task["i2i"] if r.status_code == 503]
    assert 99 == len(refused)
    assert {(503, "no_worker_available", None)} == {code_of(r) for r in refused}
    assert all(int(r.headers["retry-after"]) >= 1 for r in refused)


async def test_the_limitation_itself_is_never_met(house):
    """T fails every edit as SGLang does, and through the gateway nobody ever sees that."""
    text, _ = await house.two_tracks()
    form = {"prompt": "p", "size": "64x64", "response_format": "b64_json"}
    import httpx

    async with httpx.AsyncClient() as client:
        direct = await client.post(text.url + "/v1/images/edits", data=form, files={"image": FILE})
    assert (500, "Internal Server Error") == (direct.status_code, direct.text)
    text.requests.clear()
    for path, call in WITH_IMAGE.values():
        assert 200 == (await house.client.post(path, **call)).status_code
    assert 0 == text.hits


async def test_a_worker_that_reports_text_only_gets_no_picture(house):
    """What a worker reports holds too: an I pool of a worker that says T2I serves no edit (B17)."""
    blind = await house.worker("T2I")
    await house.open({"both": [blind]}, wait=False)
    await until(lambda: house.pool("both").workers[0].capability.reported is not None)
    edit = await house.generate(prompt="p", image=DATA8)
    assert (503, "no_worker_available", None) == code_of(edit)
    assert 200 == (await house.generate(prompt="p")).status_code
    blind.task_type = "TI2I"
    await until(lambda: house.pool("both").missing(house.pool("both").tasks[0]) is None)
    assert 200 == (await house.generate(prompt="p", image=DATA8)).status_code


async def test_text_spills_over_only_where_a_pool_lists_both(house):
    """T2I goes to its own pool while that can serve, else to an I pool that lists it (R4)."""
    text, image = await house.worker("T2I"), await house.worker("TI2I")
    await house.open({"t2i": [text], "both": [image]})
    assert "t2i" == (await house.generate(prompt="p")).headers["x-turnout-pool"]
    await text.stop()
    await until(lambda: not house.pool("t2i").workers[0].health.is_up)
    assert "both" == (await house.generate(prompt="p")).headers["x-turnout-pool"]
    image.script = answer
    await image.stop()
    await text.start()
    await until(lambda: house.pool("t2i").workers[0].health.is_up)
    await until(lambda: not house.pool("both").workers[0].health.is_up)
    assert (503, "no_worker_available", None) == code_of(
        await house.generate(prompt="p", image=B64)
    )
