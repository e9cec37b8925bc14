"""Whole pictures from the tiny model, over HTTP."""

import io

import pytest
import structlog

from tests.workers.support import error_of, fields, pattern, picture_of, png, running_split
from workers.telemetry import configure_logging


@pytest.fixture
def log_lines():
    """What the process logs, as text."""
    out = io.StringIO()
    configure_logging(out)
    yield out
    structlog.reset_defaults()


def edit(client, *images, **more):
    files = [("image", (f"image_{n}.png", png(image))) for n, image in enumerate(images)]
    data = fields(seed=3, num_inference_steps=2, **more)
    return client.post("/v1/images/edits", data=data, files=files)


def test_an_edit_depends_on_its_picture(full_worker):
    """Another source picture gives another result; the same one gives the same."""
    one, two = pattern(64, 64), pattern(64, 64, 90)
    first, second, again = (picture_of(edit(full_worker, image)) for image in (one, two, one))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != second.tobytes()


def test_a_second_picture_matters(full_worker):
    """With two sources the second one has a say, even if it only changes its place."""
    one, two = pattern(64, 64), pattern(96, 64, 90)
    pictures = [
        picture_of(edit(full_worker, *images, size="64x64")).tobytes()
        for images in ((one,), (one, two), (two, one))
    ]
    assert len(set(pictures)) == 3


@pytest.mark.parametrize("size", [(30, 20), (600, 200), (100, 75), (512, 512)])
def test_sources_of_any_size_work(full_worker, size):
    """Sources below, above and beside the model's sizes are edited, at the size asked for."""
    image = picture_of(edit(full_worker, pattern(*size), size="64x48"))
    assert image.size == (64, 48)


def test_edit_without_size(full_worker):
    """Without a size the result has the source's size to the pixel, even below the model's."""
    assert picture_of(edit(full_worker, pattern(70, 41))).size == (70, 41)


@pytest.mark.parametrize("size", ["1x1", "32x128", "100x75"])
def test_text_sizes_are_exact(full_worker, size):
    """Sides that the model does not know are rounded up and cut back."""
    body = fields(size=size, seed=1, num_inference_steps=1)
    image = picture_of(full_worker.post("/v1/images/generations", json=body))
    assert f"{image.width}x{image.height}" == size


def test_guidance_steps_and_prompt_matter(full_worker):
    """Each parameter that GLM-Image knows changes the picture."""
    base = {"size": "64x64", "seed": 1, "num_inference_steps": 2}
    changes = [
        {},
        {"seed": 2},
        {"num_inference_steps": 3},
        {"guidance_scale": 4.0},
        {"guidance_scale": 1.0},
        {"prompt": "a sign saying 'open'"},
    ]
    pictures = [
        picture_of(
            full_worker.post("/v1/images/generations", json=fields(**(base | change)))
        ).tobytes()
        for change in changes
    ]
    assert len(set(pictures)) == len(changes)


def test_a_too_long_prompt_is_400(full_worker):
    """A prompt beyond the model's context is the caller's error."""
    body = fields(prompt="x" * 9000, size="64x64")
    answer = full_worker.post("/v1/images/generations", json=body)
    assert answer.status_code == 400
    assert "too long" in error_of(answer)["message"]


def test_the_limitation(t2i_worker, log_lines):
    """An edit over an external encoder is a plain 500; the reason is in the log; text goes on."""
    answer = edit(t2i_worker, pattern(64, 64))
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert answer.headers["content-type"].startswith("text/plain")
    log = log_lines.getvalue()
    words = "NotImplementedError: I2I mode is not supported yet via external SGLang encoder URL."
    assert words in log
    assert "Traceback" in log
    body = fields(prompt="canary words", size="64x64", num_inference_steps=1)
    assert t2i_worker.post("/v1/images/generations", json=body).status_code == 200
    assert "canary" not in log_lines.getvalue()


def test_usage_tells_the_encoders_tokens(t2i_worker):
    """With an external encoder the answer counts its tokens, as SGLang's does."""
    body = fields(size="64x64", n=2, num_inference_steps=1)
    usage = t2i_worker.post("/v1/images/generations", json=body).json()["usage"]
    assert usage["completion_tokens"] == 2 * (16 * 16 + 2 * 2 + 1)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["image_count"] == 2


def test_a_text_worker_loads_no_language_model(t2i_worker):
    """A worker with an external encoder holds no part of the autoregressive half."""
    info = t2i_worker.get("/model_info").json()
    assert (info["task_type"], info["tasks"], info["encoder"]) == ("T2I", ["t2i"], "external")
    assert t2i_worker.get("/health").json()["encoder"] == "ok"


def test_memory_is_told(engine):
    """The peak is a number of megabytes."""
    assert 100 < engine.peak_memory_mb() < 10000


def test_health_tells_a_lost_encoder(tiny, free_port):
    """A worker whose encoder does not answer is not healthy, and its requests are not begun."""
    with running_split(tiny, f"http://127.0.0.1:{free_port}", tasks=("t2i",)) as client:
        health = client.get("/health")
        assert (health.status_code, health.json()["encoder"]) == (503, "unreachable")
        answer = client.post("/v1/images/generations", json=fields(size="64x64"))
        assert (answer.status_code, error_of(answer)["code"]) == (503, "encoder_unreachable")
        assert "x-turnout-started" not in answer.headers
        assert int(answer.headers["retry-after"]) >= 1
