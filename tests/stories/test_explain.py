"""`turnout explain` says what would become of a request, and sends nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.pictures import B64, DATA8

CONFIG = """
[pools.fast]
tasks = ["t2i"]
workers = [{ url = "http://127.0.0.1:9", name = "a" }, { url = "http://127.0.0.1:10", name = "b" }]
[pools.sighted]
tasks = ["i2i"]
workers = [{ url = "http://127.0.0.1:11" }]
[models.m]
max_input_images = 2
"""


@pytest.fixture
def explain(tmp_path):
    """Offers the command over a configuration whose workers do not exist."""
    config = tmp_path / "turnout.toml"

    def run(request, more="", by_file=False):
        config.write_text(CONFIG + more)
        text = request if isinstance(request, str) else json.dumps(request)
        path = tmp_path / "request.json"
        path.write_text(text)
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "gateway",
                "explain",
                *([path] if by_file else ["-"]),
                "--config",
                config,
            ],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.returncode, json.loads(ran.stdout)

    return run


@pytest.mark.parametrize("by_file", [True, False])
def test_text(explain, by_file):
    """A text request is explained from a file or from standard input."""
    code, said = explain({"prompt": "a fox", "size": "512x512", "n": 2}, by_file=by_file)
    assert 0 == code
    assert {
        "task": "t2i",
        "evidence": "no input image",
        "model": "m",
        "pool": "fast",
        "workers": ["a", "b"],
        "n": 2,
        "size": "512x512",
        "cost": {"ar_tokens": 513, "pixel_steps": 512 * 512 * 30},
        "ignored": [],
        "warnings": [],
    } == said


def test_an_edit_in_the_shape_of_a_chat(explain):
    """The evidence names the place of every input image, and the cost follows from its size."""
    part = {"type": "image_url", "image_url": {"url": DATA8}}
    message = {"role": "user", "content": [{"type": "text", "text": "p"}, part]}
    code, said = explain({"messages": [message], "num_inference_steps": 4})
    assert (0, "i2i", "sighted", ["sighted-0"]) == (
        code,
        said["task"],
        said["pool"],
        said["workers"],
    )
    assert "1 input image in messages" == said["evidence"]
    assert ("32x32", {"ar_tokens": 2, "pixel_steps": 4096}) == (said["size"], said["cost"])


def test_a_url_is_not_fetched(explain):
    """An image behind a URL is evidence enough; a size that hangs on it stays unknown."""
    request = {"prompt": "p", "image_url": "http://127.0.0.1:9/x.png"}
    code, said = explain(request, "[fetch]\nenabled = true\n")
    assert (0, "i2i", None, None) == (code, said["task"], said["size"], said["cost"])
    _, said = explain(request | {"size": "64x64"}, "[fetch]\nenabled = true\n")
    assert {"ar_tokens": 5, "pixel_steps": 64 * 64 * 30} == said["cost"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("{", "invalid_json"),
        ({}, "missing_prompt"),
        ({"prompt": "p", "size": "1x1"}, "invalid_size"),
        ({"prompt": "p", "image": "nonsense"}, "invalid_image"),
        ({"prompt": "p", "image": "http://x.test/a.png"}, "image_url_forbidden"),
        ({"prompt": "p", "images": [B64] * 3}, "too_many_images"),
    ],
)
def test_a_request_that_would_be_refused(explain, request_, code):
    """A refusal is printed as the error that the caller would get, and the exit code is 2."""
    exit_code, said = explain(request_)
    assert (2, code) == (exit_code, said["error"]["code"])
