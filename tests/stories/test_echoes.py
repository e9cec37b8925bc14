"""What a worker says is understood without the caller's own words in it."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.scripted_worker import after, answer_body, changed, send, status
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def echo(worker, request, writer):
    """Refuses a request as invalid, and repeats all of it, as validation errors do."""
    detail = [{"msg": "too long", "input": request.texts}]
    await send(writer, 422, json.dumps({"detail": detail}).encode())


@pytest.mark.parametrize(
    "prompt",
    [
        "say NotImplementedError",
        "I2I mode is not supported yet via external SGLang encoder URL.",
        "input_reference is not supported for T2I models.",
        "CUDA out of memory",
    ],
)
async def test_a_prompt_cannot_speak_for_the_worker(house, prompt):
    """An error that repeats the prompt does not blind a worker, nor is it sent again."""
    first, second = await house.pair("i2i")
    first.script = second.script = echo
    response = await house.generate(prompt=prompt, image=DATA8)
    assert (400, "invalid_value", None) == code_of(response)
    assert 1 == first.hits + second.hits
    assert not any(worker.capability.is_blind for worker in house.pool("i2i").workers)


async def test_a_worker_that_refused_a_picture_stays_marked_while_it_says_the_same(house):
    """Real servers report TI2I whatever their encoder; what they showed counts more (B15)."""
    blind = await house.worker("TI2I", script=status(500, b"NotImplementedError"))
    await house.open({"both": [blind]})
    assert (503, "no_worker_available", None) == code_of(
        await house.generate(prompt="p", image=DATA8)
    )
    probes = len(blind.probes)
    await until(lambda: len(blind.probes) > probes + 6)
    edit = await house.generate(prompt="p", image=DATA8)
    assert (503, "no_worker_available", None) == code_of(edit)
    assert "that is up can do i2i" in edit.json()["error"]["message"]
    assert 1 == blind.hits
    text = (await house.admin.get("/metrics")).text
    assert 'turnout_worker_text_only{pool="both",worker="both-0"} 1.0' in text
    await blind.stop()
    await until(lambda: not house.pool("both").workers[0].health.is_up)
    await blind.start()  # perhaps another one
    await until(lambda: house.pool("both").workers[0].health.is_up)
    assert not house.pool("both").workers[0].capability.is_blind


async def test_what_a_worker_ignored_is_passed_on(house):
    """Fields that the worker says it did not use are named in our header, made safe."""

    async def ignoring(worker, request, writer):
        await send(writer, 200, answer_body(request), x_turnout_ignored="negative_prompt, x;y")

    only = await house.worker("T2I", script=ignoring)
    await house.open({"t2i": [only]})
    response = await house.generate(prompt="p", negative_prompt="blur", n=2, size="64x64")
    assert "negative_prompt,x;y" == response.headers["x-turnout-ignored"]


async def test_a_failing_picture_names_its_worker(house):
    """When one of several pictures fails, the header names the worker of each one asked for."""
    first, second = await house.pair()
    first.script = changed(datum={"b64_json": "?!"})
    second.script = status(500)
    response = await house.generate(prompt="p", n=2)
    assert (502, "worker_error", None) == code_of(response)
    assert "t2i-0,t2i-1" == response.headers["x-turnout-worker"]
    assert "false" == response.headers["x-should-retry"]


async def test_a_part_that_was_made_forbids_a_repeat(house):
    """A whole that fails by a harmless error may still not be repeated: a part of it was paid."""
    first, second = await house.pair()
    second.script = status(503)
    first.script = after(gate := asyncio.Event())
    call = asyncio.create_task(house.generate(prompt="p", n=2))
    await until(lambda: (first.running, second.hits) == (1, 1))
    await first.stop()
    gate.set()
    response = await call
    assert (502, "worker_error", None) == code_of(response)
    assert "false" == response.headers["x-should-retry"]
    assert "retry-after" not in response.headers


async def test_token_counts_never_cost_a_picture(house):
    """Counts by OpenAI's names are read, counts that make no sense are left out."""
    only = await house.worker("T2I")
    await house.open({"t2i": [only]})
    by_name = {"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"text_tokens": 3}}
    for usage, total in ((by_name, 7), ({"prompt_tokens": "x"}, None), ("many", None), ([], None)):
        only.script = changed(usage=usage)
        answer = await house.client.post("/v1/images/generations", json={"prompt": "p"})
        assert 200 == answer.status_code
        assert total == answer.json().get("usage", {}).get("total_tokens")


async def test_a_header_stays_short(house):
    """However many fields are ignored, the header that names them fits every proxy."""
    await house.two_tracks(limits={"unknown_fields": "ignore"})
    fields = {f"field_number_{n}_{'x' * 40}": n for n in range(150)}
    response = await house.generate(prompt="p", **fields)
    assert 200 == response.status_code
    assert len(response.headers["x-turnout-ignored"]) < 1100
    assert response.headers["x-turnout-ignored"].endswith("...")


async def test_a_503_names_the_pool(house):
    """Even where no worker was asked, the headers say which pool it was, and no attempt."""
    await house.open({"t2i": []}, wait=False)
    response = await house.generate(prompt="p", seed=4)
    assert (503, "no_worker_available", None) == code_of(response)
    assert ["t2i", "0", "4"] == [
        response.headers[f"x-turnout-{name}"] for name in ("pool", "attempts", "seed")
    ]
    assert "x-turnout-worker" not in response.headers


async def test_health_is_logged_however_it_was_learned(house, capsys):
    """A worker that is lost at an attempt is logged as down, and one that never came, too."""
    log = {"log_level": "info", "log_format": "json"}
    only = await house.worker("T2I")
    await house.open({"t2i": [only, "http://127.0.0.1:9"]}, server=log, wait=False)
    await until(lambda: house.pool("t2i").workers[0].health.is_up)
    await only.stop()
    assert 503 == (await house.generate(prompt="p")).status_code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    seen = {
        (line["server"], line["up"], line["level"]) for line in lines if line["event"] == "health"
    }
    assert {
        ("t2i-0", True, "info"),
        ("t2i-1", False, "warning"),
        ("t2i-0", False, "warning"),
    } == seen
