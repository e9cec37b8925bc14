"""The acceptance table of the stock OpenAI SDK for Python: every field, every error, every try."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest

from tests.support.pictures import PNG8, facts, facts_of
from tests.support.scripted_worker import after, hang, status
from tests.support.serve import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sdk(house):
    """Offers an SDK client of a gateway with a short line and a small body limit."""
    text, image = await house.two_tracks(
        pool={"queue_limit": 0, "deadline_seconds": 2}, limits={"max_body_bytes": 100_000}
    )
    async with openai.AsyncOpenAI(base_url=house.url + "/v1", api_key="unused") as client:
        client.text, client.image = text, image
        yield client


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("png", 1024, 1024)),
        ({"size": "auto", "quality": "auto", "background": "auto"}, ("png", 1024, 1024)),
        ({"size": "1536x1024"}, ("png", 1536, 1024)),
        ({"size": "1024x1536", "output_format": "jpeg"}, ("jpeg", 1024, 1536)),
        (
            {"size": "512x512", "output_format": "webp", "output_compression": 40},
            ("webp", 512, 512),
        ),
        ({"size": "100x90", "style": "vivid", "user": "u", "moderation": "low"}, ("png", 100, 90)),
        ({"size": "64x64", "response_format": "b64_json", "partial_images": 0}, ("png", 64, 64)),
    ],
)
async def test_generate_with_every_field(sdk, fields, expected):
    """Every field of `images.generate` is honoured or harmless."""
    raw = await sdk.images.with_raw_response.generate(prompt="a fox", model="glm-image", **fields)
    result = raw.parse()
    assert expected == facts_of(result.data[0].model_dump())
    assert ("t2i", result.turnout["id"]) == (raw.headers["x-turnout-pool"], result._request_id)
    assert f"{expected[1]}x{expected[2]}" == result.size
    assert expected[0] == result.output_format


@pytest.mark.parametrize("quality", ["low", "medium", "high", "xhigh", "max", "standard", "hd"])
async def test_every_quality(sdk, quality):
    """Every word for quality is taken, by both calls."""
    await sdk.images.generate(prompt="p", quality=quality, size="64x64")
    await sdk.images.edit(prompt="p", image=PNG8, quality=quality, size="64x64")
    steps = [w.requests[0].texts["num_inference_steps"] for w in (sdk.text, sdk.image)]
    assert str(steps[0]) == steps[1]


async def test_urls(sdk):
    """URL answers are absolute, and hold the pictures."""
    result = await sdk.images.generate(prompt="p", n=3, response_format="url", size="64x64")
    assert 3 == len({datum.url for datum in result.data})
    async with httpx.AsyncClient() as client:
        for datum in result.data:
            assert ("png", 64, 64) == facts((await client.get(datum.url)).content)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"background": "transparent"}, "unsupported_parameter"),
        ({"output_format": "gif"}, "invalid_value"),
        ({"size": "huge"}, "invalid_size"),
        ({"n": 11}, "invalid_value"),
        ({"stream": True}, "unsupported_parameter"),
        ({"extra_body": {"lora_path": "x"}}, "unsupported_parameter"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(sdk, fields, code):
    """A field that cannot be honoured is a BadRequestError that names it."""
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.images.generate(prompt="p", **fields)
    [name] = fields.get("extra_body", fields)
    assert (code, name) == (raised.value.code, raised.value.param)
    assert raised.value.request_id
    assert raised.value.message
    assert 0 == sdk.text.hits


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        (status(500), openai.InternalServerError, "worker_error"),
        (status(400), openai.BadRequestError, "invalid_value"),
        (hang, openai.InternalServerError, "deadline_exceeded"),
    ],
)
async def test_a_failure_that_may_have_cost_a_run(sdk, script, kind, code):
    """With its default retries the SDK tries once where a run may have been paid (B45)."""
    sdk.text.script = script
    with pytest.raises(kind) as raised:
        await sdk.images.generate(prompt="p")
    assert (code, 1) == (raised.value.code, sdk.text.hits)
    assert raised.value.request_id


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (status(500, b"CUDA out of memory"), "worker_out_of_memory"),
        (status(503), "no_worker_available"),
    ],
)
async def test_a_failure_that_invites_another_try(sdk, script, code):
    """Where coming back helps, the answer says when, and does not forbid it."""
    sdk.text.script = script
    with pytest.raises(openai.InternalServerError) as raised:
        await sdk.with_options(max_retries=0).images.generate(prompt="p")
    headers = raised.value.response.headers
    assert (503, code, False) == (
        raised.value.status_code,
        raised.value.code,
        "x-should-retry" in headers,
    )
    assert 1 <= int(headers["retry-after"]) <= 120


async def test_a_body_that_is_too_large(sdk):
    """A body over the limit is an APIStatusError of 413, tried once."""
    with pytest.raises(openai.APIStatusError) as raised:
        await sdk.images.edit(prompt="p", image=bytes(200_000))
    assert (413, "request_too_large") == (raised.value.status_code, raised.value.code)


async def test_a_full_line(sdk, house):
    """A full line is a RateLimitError with a time to wait, and nothing had begun."""
    gate = asyncio.Event()
    sdk.text.script = after(gate)
    first = asyncio.create_task(house.generate(prompt="p"))
    await until(lambda: sdk.text.running == 1)
    with pytest.raises(openai.RateLimitError) as raised:
        await sdk.with_options(max_retries=0).images.generate(prompt="p")
    assert ("queue_full", 1) == (raised.value.code, sdk.text.hits)
    assert 1 <= int(raised.value.response.headers["retry-after"]) <= 120
    gate.set()
    await first


async def test_a_fault_of_ours(sdk, house):
    """A fault of ours is an InternalServerError, told once."""
    routes, house.runtime.routes = house.runtime.routes, None
    with pytest.raises(openai.InternalServerError) as raised:
        await sdk.images.generate(prompt="p")
    assert (500, "internal_error") == (raised.value.status_code, raised.value.code)
    house.runtime.routes = routes
    assert 'status="500",task="none"} 1.0' in (await house.admin.get("/metrics")).text
