"""The stock OpenAI SDK, unchanged, against the gateway."""

from __future__ import annotations

import io

import openai
import pytest

from tests.support.pictures import PNG8, facts_of
from tests.support.scripted_worker import hang_up, status

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sdk(house):
    """Offers an SDK client of the gateway, with its default retries."""
    text, image = await house.two_tracks()
    async with openai.AsyncOpenAI(base_url=house.url + "/v1", api_key="unused") as client:
        client.text, client.image = text, image
        yield client


async def test_generate(sdk):
    """`images.generate` makes a picture on the fast track."""
    result = await sdk.images.generate(model="glm-image", prompt="a fox", size="256x256")
    assert ("png", 256, 256) == facts_of(result.data[0].model_dump())
    assert result.created > 1_700_000_000
    assert "t2i" == result.turnout["task"]
    assert (1, 0) == (sdk.text.hits, sdk.image.hits)


@pytest.mark.parametrize("form", ["file", "bytes", "one", "three", "named", "path"])
async def test_edit(sdk, form, tmp_path):
    """`images.edit` sends its picture to the worker that sees, in every form of the SDK (B11)."""
    path = tmp_path / "cat.png"
    path.write_bytes(PNG8)
    image = {
        "file": io.BytesIO(PNG8),
        "bytes": PNG8,
        "one": [PNG8],
        "three": [PNG8, io.BytesIO(PNG8), ("c.png", PNG8)],
        "path": path,
        "named": ("天狗.png", PNG8, "image/jpeg"),
    }[form]
    result = await sdk.images.edit(image=image, prompt="at night", size="64x64")
    assert ("png", 64, 64) == facts_of(result.data[0].model_dump())
    assert (0, 1) == (sdk.text.hits, sdk.image.hits)
    count = 3 if form == "three" else 1
    assert [
        ("image", f"image_{n}.png", "image/png", PNG8) for n in range(count)
    ] == sdk.image.requests[0].files


async def test_several_and_extra_fields(sdk):
    """`n` and extra fields of the body are honoured."""
    result = await sdk.images.generate(prompt="a fox", n=2, size="64x64", extra_body={"seed": 9})
    assert [9, 10] == result.turnout["seeds"]
    assert 2 == len(result.data)


async def test_a_mask_is_refused_by_name(sdk):
    """A mask would be ignored by the model, so it is a 400 and no hit (B10)."""
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.images.edit(image=PNG8, mask=PNG8, prompt="p")
    assert ("unsupported_parameter", "mask") == (raised.value.code, raised.value.param)
    assert raised.value.request_id
    assert 0 == sdk.image.hits


async def test_an_edit_without_a_picture_is_asked_once(sdk):
    """A hopeless request is one request, not three (B06)."""
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.images.edit(image=[], prompt="p")
    assert ("missing_image", "image") == (raised.value.code, raised.value.param)
    assert (0, 0) == (sdk.text.hits, sdk.image.hits)


@pytest.mark.parametrize("script", [hang_up, status(500), status(502, b"<html>", "text/html")])
async def test_work_that_may_have_run_is_not_repeated_by_the_sdk(sdk, script):
    """A 502 of ours stops the SDK's own retries: the worker is hit once (B45)."""
    sdk.text.script = script
    with pytest.raises(openai.InternalServerError) as raised:
        await sdk.images.generate(prompt="p")
    assert (502, "worker_error") == (raised.value.status_code, raised.value.code)
    assert 1 == sdk.text.hits


async def test_models(sdk):
    """`models.list` and `models.retrieve` know names and aliases."""
    listed = [model.id async for model in await sdk.models.list()]
    assert ["glm-image", "zai-org/GLM-Image"] == listed
    assert "glm-image" == (await sdk.models.retrieve("glm-image")).id
    assert "zai-org/GLM-Image" == (await sdk.models.retrieve("zai-org/GLM-Image")).id
    with pytest.raises(openai.NotFoundError) as raised:
        await sdk.models.retrieve("nope")
    assert "model_not_found" == raised.value.code
