"""The document is held against the live gateway: schemathesis sends what it says, and worse."""

from __future__ import annotations

import asyncio
import base64
import queue
import threading
from collections import Counter
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.house import House
from tests.support.pictures import picture

# Left out on purpose: `negative_data_rejection`, because the reader takes more spellings than a
# schema says (words in any case, blank texts, numbers as texts in forms, chat messages on every
# route); and `positive_data_acceptance`, because no schema says that pictures count over all
# fields, that a size fits its width and height, or that a stream fits no picture.
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
)

OPERATIONS = (
    ("POST", "/generate"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/images/edits"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/hf/{model}"),
    ("GET", "/artifacts/{name}"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
)

ACCEPTS = ("*/*", "application/json", "image/*", "image/webp", "image/gif", "")

# A small house: the pictures are painted for real.
SMALL = MappingProxyType(
    {
        "limits": {"max_images": 16, "max_prompt_chars": 200, "max_body_bytes": 50_000},
        "models": {"glm-image": {"default_size": "64x64", "max_side": 128, "aliases": ["z/G"]}},
    }
)

# What draws the requests may hold the interpreter for longer than a hasty probe waits.
PATIENT = MappingProxyType({"probe_seconds": 5})

PICTURES = tuple(picture(*size, fmt=fmt) for size in ((8, 8), (24, 16)) for fmt in ("png", "webp"))


@contextmanager
def house_in_a_thread():
    """Runs a gateway over healthy workers in a loop of its own; schemathesis calls and waits."""
    opened: queue.Queue = queue.Queue()

    async def live():
        stop = asyncio.Event()
        async with House() as house:
            text, image = await house.worker("T2I"), await house.worker("TI2I")
            await house.open({"t2i": [text], "i2i": [image]}, pool=PATIENT, **SMALL)
            opened.put((house, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    try:
        house, loop, stop = opened.get(timeout=30)
        yield house
        loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(timeout=30)


@pytest.fixture(scope="module")
def live():
    """Offers the live document as schemathesis reads it."""
    texts = [base64.b64encode(data).decode() for data in PICTURES]
    texts += [f"data:image/png;base64,{text}" for text in texts]
    schemathesis.openapi.format("picture", st.sampled_from(texts))
    schemathesis.openapi.format("binary", st.sampled_from([*PICTURES, b"no picture"]))
    schemathesis.openapi.format("size", st.sampled_from(["auto", "64x64", "33x70", "8x500"]))
    with house_in_a_thread() as house:
        document = httpx.get(house.url + "/openapi.json", trust_env=False).json()
        yield SimpleNamespace(url=house.url, schema=schemathesis.openapi.from_dict(document))


def calls(live, method, path, mode, examples):
    """Calls one operation many times, checks every answer, and counts their statuses."""
    seen = Counter()

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(
        case=live.schema[path][method].as_strategy(generation_mode=mode),
        accept=st.sampled_from(ACCEPTS),
    )
    def call(case, accept):
        response = case.call(base_url=live.url, headers={"accept": accept})
        seen[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    call()
    return seen


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_the_document_says_is_answered_as_it_says(live, method, path):
    """A request that fits its schema gets an answer that fits its own, and some are served."""
    seen = calls(live, method, path, GenerationMode.POSITIVE, 25)
    assert seen[404 if path.startswith("/artifacts") else 200], seen


@pytest.mark.parametrize(("method", "path"), [each for each in OPERATIONS if each[0] == "POST"])
def test_what_the_document_forbids_is_answered_as_it_says(live, method, path):
    """A request that fits no schema gets an answer that the document has, and no fault of ours."""
    seen = calls(live, method, path, GenerationMode.NEGATIVE, 15)
    assert seen[400], seen
