"""The demo's real workers tell how far they have come, through the gateway, and stop when asked."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.support.pictures import DATA8
from tests.support.process import wait_for

pytestmark = pytest.mark.timeout(280)

TEXT = {"prompt": "a red fox", "size": "128x128", "seed": 7}
LONG = TEXT | {"size": "256x256", "num_inference_steps": 200}


def listen(demo, body, until=None):
    """Posts to /generate and returns the events; leaves at the first of a stage, if told to."""
    seen = []
    url = demo.url("port") + "/generate"
    headers = {"accept": "text/event-stream"}
    with httpx.stream(
        "POST", url, json=body, headers=headers, timeout=120, trust_env=False
    ) as answer:
        assert 200 == answer.status_code
        for line in answer.iter_lines():
            if line.startswith("event: "):
                seen.append([line.removeprefix("event: "), None])
            elif line.startswith("data: "):
                seen[-1][1] = json.loads(line.removeprefix("data: "))
                if until is not None and seen[-1][1].get("stage") == until:
                    break
    return seen


@pytest.mark.parametrize("image", [{}, {"image": DATA8}], ids=["t2i", "i2i"])
def test_every_stage_is_told_and_the_picture_is_the_same(demo, image):
    """Tokens and steps are told for both tasks, and the answer is that of the plain request."""
    *progress, (_, headers), (name, answer) = listen(demo, TEXT | image)
    assert "1" == headers["x-turnout-attempts"]
    told = [(data["stage"], data["done"], data["total"]) for _, data in progress]
    stages = dict.fromkeys(stage for stage, *_ in told)
    assert ["encoding", "denoising", "decoding"] == [s for s in stages if s != "waiting"]
    tokens = max(total for stage, _, total in told if stage == "encoding")
    assert any(0 < done <= tokens for stage, done, _ in told if stage == "encoding")
    steps = [done for stage, done, _ in told if stage == "denoising"]
    assert sorted(steps) == steps
    assert 30 == steps[-1]
    plain = httpx.post(
        demo.url("port") + "/generate", json=TEXT | image, timeout=120, trust_env=False
    ).json()
    assert "answer" == name
    assert plain["data"] == answer["data"]


@pytest.mark.parametrize("stage", ["encoding", "denoising"])
@pytest.mark.parametrize("image", [{}, {"image": DATA8}], ids=["t2i", "i2i"])
def test_work_ends_soon_after_its_listener_has_left(demo, image, stage):
    """A caller that leaves frees the worker's slot, and the next request is served at once."""
    pool = "i2i" if image else "t2i"
    listen(demo, LONG | image, until=stage)

    def is_idle():
        pools = httpx.get(demo.url("admin-port") + "/admin/pools", trust_env=False).json()
        return {0} == {worker["in_flight"] for worker in pools[pool]["workers"]}

    wait_for(is_idle, 20)
    after = httpx.post(
        demo.url("port") + "/generate", json=TEXT | image, timeout=120, trust_env=False
    )
    assert 200 == after.status_code
    metrics = httpx.get(demo.url("admin-port") + "/metrics", trust_env=False).text
    assert 'cause="client_left"' in metrics
