"""Large bodies arrive whole, sizes to the pixel, and streams are refused by name."""

from __future__ import annotations

import base64

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8, facts_of, noise, picture

pytestmark = pytest.mark.anyio


async def test_large_pictures_reach_the_worker_whole(house):
    """Two pictures of 5 MB and a prompt in another script arrive as they were sent (B14)."""
    _, image = await house.two_tracks()
    pictures = [noise(1300, 1300, seed) for seed in (1, 2)]
    assert min(map(len, pictures)) > 5_000_000
    response = await house.client.post(
        "/v1/images/edits",
        data={"model": "glm-image", "prompt": "天狗 🚀", "size": "64x64", "seed": "7"},
        files=[("image", ("a.png", data, "image/png")) for data in pictures],
    )
    assert 200 == response.status_code
    [request] = image.requests
    assert pictures == [data for *_, data in request.files]
    assert ("天狗 🚀", "64x64", "7") == tuple(request.texts[n] for n in ("prompt", "size", "seed"))
    assert len(request.body) == int(request.headers["content-length"])
    assert "transfer-encoding" not in request.headers


@pytest.mark.parametrize("size", ["500x500", "1280x720", "1000x999", "1024x1536"])
async def test_sizes_that_kill_other_workers(house, size):
    """Sizes off the step are served to the pixel, or refused by name with the step (B22)."""
    text, _ = await house.two_tracks()
    answer = (await house.generate(prompt="p", size=size)).json()
    assert ("png", *map(int, size.split("x"))) == facts_of(answer["data"][0])
    odd = base64.b64encode(picture(1003, 761)).decode()
    edit = (await house.generate(prompt="p", image=odd)).json()
    assert ("png", 992, 768) == facts_of(edit["data"][0])
    assert [0] * 2 == [int(side) % 32 for side in text.requests[0].texts["size"].split("x")]


async def test_sizes_off_the_step_can_be_refused(house):
    """With `size_policy = "refuse"` a size off the step is a 400 that names the step (B22)."""
    text, _ = await house.two_tracks(models={"m": {"size_policy": "refuse"}})
    response = await house.generate(prompt="p", size="500x500")
    assert (400, "invalid_size", "size") == code_of(response)
    assert "multiple of 32" in response.json()["error"]["message"]
    assert 200 == (await house.generate(prompt="p", size="1024x1536")).status_code
    assert 1 == text.hits


@pytest.mark.parametrize("path", ["/generate", "/v1/images/generations", "/v1/images/edits"])
async def test_streams_are_refused_by_name(house, path):
    """A route that cannot stream says so instead of answering something else (B29)."""
    text, image = await house.two_tracks()
    body = {"prompt": "p", "image": DATA8, "stream": True, "partial_images": 2}
    response = await house.client.post(path, json=body)
    assert (400, "unsupported_parameter", "stream") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)
