"""Both tasks through our gateway, with stock SGLang wherever SGLang can do the work."""

from __future__ import annotations

import base64

import pytest

from gateway.config import PoolConfig
from tests.conformance.asking import STEPS, edit, first, generate
from tests.conformance.conftest import open_gateway
from tests.support.pictures import facts_of, picture

LIMITATION = "NotImplementedError: I2I mode is not supported yet via external SGLang encoder URL."
EDITS = "POST /v1/images/edits"
POOL = """
[pools.split]
tasks = ["t2i", "i2i"]
workers = [{{ url = "{worker}" }}]
"""
POOL_OPTIONS = ("", 'encoder_url = "{encoder}"\ni2i_via_encoder = true\n')


def b64(data):
    """Returns base64 text."""
    return base64.b64encode(data).decode()


def through(client, **fields):
    """Posts to the gateway's /generate; returns the picture's facts, pool and worker."""
    answer = client.post("/generate", json=STEPS | {"prompt": "a fox", "seed": 7} | fields)
    assert answer.status_code == 200, answer.text
    headers = [answer.headers[f"x-turnout-{name}"] for name in ("task", "worker")]
    return [facts_of(answer.json()["data"][0]), *headers]


@pytest.mark.parametrize("size", ["64x64", "100x70", "256x128"])
def test_text_through_the_gateway(gateway, fleet, seen, size):
    """A text is painted by stock SGLang, diffusion and encoder server: a PNG of the size asked."""
    before = calls(fleet.external), calls(fleet.encoder, "POST /generate")
    width, height = map(int, size.split("x"))
    assert [("png", width, height), "t2i", "t2i-0"] == through(gateway, size=size)
    assert (before[0] + 1, before[1] + 1) == (
        calls(fleet.external),
        calls(fleet.encoder, "POST /generate"),
    )
    seen("gateway", "T2I by stock SGLang", "200, a PNG of exactly the size asked")


def calls(server, call="POST /v1/images/generations"):
    """Counts the calls that a server has answered, by its log."""
    return server.text().count(call)


def test_the_limitation_is_real(fleet, seen):
    """Asked directly, SGLang with an external encoder fails an edit: 500, its cause in the log."""
    before = fleet.external.text().count(LIMITATION)
    answer = edit(fleet.external)
    assert (500, "Internal Server Error") == (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("text/plain")
    assert before < fleet.external.text().count(LIMITATION)
    seen("external", "an edit", "500, `Internal Server Error`, text/plain")
    seen("external", "the log of that edit", f"`{LIMITATION}`")
    assert ("png", 64, 64) == first(generate(fleet.external))
    seen("external", "T2I after that edit", "200")


@pytest.mark.parametrize("count", [1, 2])
def test_an_edit_through_the_gateway(gateway, fleet, seen, count):
    """The same edit succeeds on our worker in process, and stock SGLang never sees it."""
    before = calls(fleet.external, EDITS)
    images = [b64(picture(64, 64))] * count
    assert [("png", 64, 64), "i2i", "i2i-0"] == through(gateway, images=images, size="64x64")
    assert before == calls(fleet.external, EDITS)
    seen("gateway", "I2I by our worker, encoder in process", "200, a PNG of exactly the size asked")


def test_an_edit_planned_by_stock_sglang(split, fleet, seen):
    """Our worker turns the picture into codes, and SGLang's encoder server plans the edit."""
    before = calls(fleet.encoder, "POST /generate")
    assert ("png", 64, 64) == first(edit(split))
    assert ("png", 96, 64) == first(edit(split, picture(96, 64), picture(64, 64), size="96x64"))
    assert ("png", 64, 64) == first(generate(split))
    assert before + 3 == calls(fleet.encoder, "POST /generate")
    seen("split worker", "I2I with one and two pictures, T2I", "200, a PNG of the size asked")


@pytest.mark.parametrize("options", POOL_OPTIONS, ids=["encoder unnamed", "encoder named"])
def test_a_split_edit_through_the_gateway(sglang, split, fleet, seen, options):
    """One pool serves both tasks by our worker and SGLang's encoder server."""
    if "i2i_via_encoder" in options and "i2i_via_encoder" not in PoolConfig.model_fields:
        pytest.skip("this gateway has no option i2i_via_encoder")
    pools = POOL.format(worker=split.url) + options.format(encoder=fleet.encoder.url)
    before = calls(fleet.encoder, "POST /generate")
    name = f"gateway-split-{POOL_OPTIONS.index(options)}"
    with open_gateway(sglang, name, pools) as client:
        edited = through(client, image=b64(picture(64, 64)), size="64x64")
        assert [("png", 64, 64), "i2i", "split-0"] == edited
        assert [("png", 64, 64), "t2i", "split-0"] == through(client, size="64x64")
    assert before + 2 == calls(fleet.encoder, "POST /generate")
    seen("gateway", "I2I by our worker and SGLang's encoder server", "200, a PNG of the size asked")
