"""The stock OpenAI SDK for JavaScript, unchanged, against the gateway."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from tests.support.pictures import B64, facts, facts_of
from tests.support.scripted_worker import after, hang_up, status
from tests.support.serve import until

pytestmark = pytest.mark.anyio

JS = Path(__file__).parents[1] / "js"
FILE = {"base64": B64, "name": "cat.png", "type": "image/png"}


def node():
    """Finds the Node that came with the SDK."""
    return next((JS / "node_modules").glob("node-linux-*/bin/node"))


class Sdk:
    """Is the SDK in a process of its own: one call in, one result out."""

    def __init__(self, process, text, image):
        self._process = process
        self.text, self.image = text, image

    async def call(self, method, **params):
        """Makes one call and returns its result or its error."""
        line = json.dumps({"method": method, "params": params}) + "\n"
        self._process.stdin.write(line.encode())
        await self._process.stdin.drain()
        async with asyncio.timeout(60):
            return json.loads(await self._process.stdout.readline())


@pytest.fixture
async def sdk(house):
    """Offers the SDK against a gateway of two tracks."""
    text, image = await house.two_tracks(pool={"queue_limit": 0})
    process = await asyncio.create_subprocess_exec(
        node(), JS / "sdk.mjs", house.url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**26,
    )  # fmt: skip
    yield Sdk(process, text, image)
    process.stdin.close()
    await process.wait()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ("png", 1024, 1024)),
        ({"size": "auto"}, ("png", 1024, 1024)),
        ({"size": "1024x1536"}, ("png", 1024, 1536)),
        ({"size": "256x256", "output_format": "webp"}, ("webp", 256, 256)),
        ({"size": "64x64", "output_format": "jpeg", "output_compression": 50}, ("jpeg", 64, 64)),
        ({"size": "64x64", "response_format": "b64_json", "quality": "auto"}, ("png", 64, 64)),
        ({"size": "64x64", "background": "auto", "moderation": "low"}, ("png", 64, 64)),
    ],
)
async def test_generate(sdk, params, expected):
    """`images.generate` honours what it is asked for, on the fast track."""
    result = (await sdk.call("images.generate", prompt="a fox", model="glm-image", **params))["ok"]
    assert expected == facts_of(result["data"][0])
    assert ("t2i", result["turnout"]["id"]) == (result["pool"], result["requestId"])
    assert (1, 0) == (sdk.text.hits, sdk.image.hits)


async def test_a_url_answer_can_be_fetched(sdk, house):
    """`response_format: url` is an absolute URL of ours that gives the picture (B27, B28)."""
    result = await sdk.call(
        "images.generate", prompt="p", size="64x64", n=2, response_format="url", seed=3
    )
    for datum in result["ok"]["data"]:
        assert datum["url"].startswith(house.url + "/")
        fetched = await house.client.get(datum["url"], headers={"authorization": "Bearer x"})
        assert (200, "image/png") == (fetched.status_code, fetched.headers["content-type"])
        assert ("png", 64, 64) == facts(fetched.content)


@pytest.mark.parametrize("image", [FILE, [FILE], [FILE, FILE | {"type": None}, FILE]])
async def test_edit(sdk, image):
    """`images.edit` sends one picture or a list to the worker that sees."""
    result = (await sdk.call("images.edit", prompt="p", image=image, size="64x64"))["ok"]
    assert ("i2i", ("png", 64, 64)) == (result["pool"], facts_of(result["data"][0]))
    assert (0, 1) == (sdk.text.hits, sdk.image.hits)
    sent = len(image) if isinstance(image, list) else 1
    assert [base64.b64decode(B64)] * sent == [data for *_, data in sdk.image.requests[0].files]


@pytest.mark.parametrize(
    ("method", "params", "kind", "code", "param"),
    [
        ("generate", {"prompt": " "}, "BadRequestError", "missing_prompt", "prompt"),
        ("generate", {"prompt": "p", "size": "1x"}, "BadRequestError", "invalid_size", "size"),
        ("generate", {"prompt": "p", "model": "x"}, "NotFoundError", "model_not_found", "model"),
        ("createVariation", {"image": FILE}, "NotFoundError", "unsupported_endpoint", None),
        (
            "edit",
            {"prompt": "p", "image": FILE, "mask": FILE},
            "BadRequestError",
            "unsupported_parameter",
            "mask",
        ),
    ],
)
async def test_mistakes(sdk, method, params, kind, code, param):
    """A mistake is the SDK's own error, with message, code, field and request id, asked once."""
    error = (await sdk.call(f"images.{method}", **params))["error"]
    assert (kind, code, param) == (error["kind"], error["code"], error["param"])
    assert error["message"]
    assert error["requestID"]
    assert (0, 0) == (sdk.text.hits, sdk.image.hits)


@pytest.mark.parametrize(
    ("script", "code", "hits"),
    [(hang_up, 502, 1), (status(500), 502, 1), (status(400), 400, 1)],
)
async def test_work_that_may_have_run_is_not_repeated(sdk, script, code, hits):
    """The SDK obeys `x-should-retry: false`, so a failed run is one run (B45)."""
    sdk.text.script = script
    error = (await sdk.call("images.generate", prompt="p"))["error"]
    assert (code, hits) == (error["status"], sdk.text.hits)


async def test_a_full_line_is_asked_again(sdk, house):
    """A 429 is repeated by the SDK after its Retry-After, and nothing had begun before."""
    gate = asyncio.Event()
    sdk.text.script = after(gate)
    first = asyncio.create_task(house.generate(prompt="first"))
    await until(lambda: sdk.text.running == 1)
    second = asyncio.create_task(sdk.call("images.generate", prompt="second", size="64x64"))
    metrics = ""
    while 'status="429"' not in metrics:
        metrics = (await house.admin.get("/metrics")).text
    gate.set()
    assert 200 == (await first).status_code
    assert "ok" in await second
    assert ["first", "second"] == [request.texts["prompt"] for request in sdk.text.requests]


async def test_models(sdk):
    """`models.list` and `models.retrieve` work."""
    listed = (await sdk.call("models.list"))["ok"]["ids"]
    assert ["glm-image", "zai-org/GLM-Image"] == listed
    assert "glm-image" == (await sdk.call("models.retrieve", id="glm-image"))["ok"]["id"]
    error = (await sdk.call("models.retrieve", id="nope"))["error"]
    assert ("NotFoundError", "model_not_found") == (error["kind"], error["code"])
