"""Both tracks with the real architecture: tiny checkpoint, encoder server, two workers, gateway."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest
from PIL import Image, ImageChops

from tests.support.pictures import facts, facts_of, picture

pytestmark = pytest.mark.timeout(300)

README = Path(__file__).parents[2] / "README.md"
STEPS = {"num_inference_steps": 2}


def generate(demo, **fields):
    """Posts JSON to /generate and returns the response."""
    url = demo.url("port") + "/generate"
    return httpx.post(url, json=STEPS | fields, timeout=120, trust_env=False)


def pixels(data):
    """Returns a picture's pixels as RGB."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def first(response):
    """Returns the first picture of a JSON answer."""
    assert response.status_code == 200, response.text
    return base64.b64decode(response.json()["data"][0]["b64_json"])


def b64(data):
    """Returns base64 text."""
    return base64.b64encode(data).decode()


def test_text_uses_the_encoder_server_and_an_edit_does_not(demo):
    """The encoder's own counter grows by one for a T2I request, and not at all for an I2I one."""
    before = demo.encoder_count("t2i"), demo.encoder_count("i2i")
    made = generate(demo, prompt="a fox", size="128x96", seed=1)
    assert ("png", 128, 96) == facts(first(made))
    assert ["t2i", "t2i", "t2i-0"] == [
        made.headers[f"x-turnout-{name}"] for name in ("task", "pool", "worker")
    ]
    assert (before[0] + 1, before[1]) == (demo.encoder_count("t2i"), demo.encoder_count("i2i"))
    edited = generate(demo, prompt="at night", image=b64(first(made)), seed=1)
    assert ("png", 128, 96) == facts(first(edited))
    assert ["i2i", "i2i", "i2i-0"] == [
        edited.headers[f"x-turnout-{name}"] for name in ("task", "pool", "worker")
    ]
    assert (before[0] + 1, before[1]) == (demo.encoder_count("t2i"), demo.encoder_count("i2i"))


def test_an_edit_depends_on_its_input_picture(demo):
    """Same prompt and seed: another input picture gives another result, the same one the same."""
    red, blue = picture(64, 64, (220, 20, 20)), picture(64, 64, (20, 20, 220))
    results = [
        pixels(first(generate(demo, prompt="p", image=b64(data), size="64x64", seed=3)))
        for data in (red, blue, red)
    ]
    assert results[0].tobytes() == results[2].tobytes()
    difference = ImageChops.difference(results[0], results[1])
    assert difference.getbbox() is not None


def test_a_seed_means_the_same_picture_on_both_tracks(demo):
    """T2I planned by the encoder server equals T2I planned in process, pixel by pixel."""
    fields = STEPS | {"prompt": "a fox", "size": "96x64", "seed": 11, "guidance_scale": 1.5}
    answers = [
        httpx.post(
            demo.url(name) + "/v1/images/generations",
            json=fields | {"response_format": "b64_json", "output_format": "png"},
            timeout=120,
            trust_env=False,
        )
        for name in ("t2i-port", "i2i-port")
    ]
    external, in_process = (pixels(first(answer)) for answer in answers)
    assert external.tobytes() == in_process.tobytes()
    through = pixels(first(generate(demo, **fields)))
    assert external.tobytes() == through.tobytes()
    other = pixels(first(generate(demo, **fields | {"seed": 12})))
    assert other.tobytes() != through.tobytes()


def test_the_limitation_is_real_and_nobody_meets_it_through_the_gateway(demo):
    """Asked directly, the T2I worker fails an edit as SGLang does; the gateway serves it."""
    image = picture(64, 64)
    direct = httpx.post(
        demo.url("t2i-port") + "/v1/images/edits",
        data={"prompt": "p", "size": "64x64", "response_format": "b64_json"},
        files={"image": ("a.png", image, "image/png")},
        timeout=60,
        trust_env=False,
    )
    assert (500, "Internal Server Error") == (direct.status_code, direct.text)
    assert direct.headers["content-type"].startswith("text/plain")
    log = demo.child_log("t2i-worker")
    assert "NotImplementedError: I2I mode is not supported yet via external SGLang" in log
    url = demo.url("port")
    calls = [
        ("/generate", {"json": {"prompt": "p", "image": b64(image)} | STEPS}),
        ("/generate", {"data": {"prompt": "p"} | STEPS, "files": {"image": image}}),
        ("/generate", {"data": {"prompt": "p"} | STEPS, "files": [("image[]", image)] * 2}),
        ("/v1/images/edits", {"data": {"prompt": "p"} | STEPS, "files": {"image": image}}),
        ("/v1/images/edits", {"json": {"prompt": "p", "images": [{"b64_json": b64(image)}]}}),
        ("/v1/images/generations", {"json": {"prompt": "p", "image": b64(image)} | STEPS}),
    ]
    for path, call in calls:
        answer = httpx.post(url + path, timeout=120, trust_env=False, **call)
        assert (200, "i2i") == (answer.status_code, answer.headers["x-turnout-pool"])
        assert ("png", 64, 64) == facts_of(answer.json()["data"][0])
    assert log == demo.child_log("t2i-worker")[: len(log)]
    assert 1 == demo.child_log("t2i-worker").count("Traceback")


def test_the_openai_sdk_on_both_tracks(demo):
    """The stock SDK makes a picture, then edits it, in the format and size it asks for."""
    before = demo.encoder_count("t2i")
    with openai.OpenAI(base_url=demo.url("port") + "/v1", api_key="unused") as client:
        made = client.images.generate(
            model="glm-image", prompt="a fox", size="256x256", extra_body=STEPS
        )
        assert ("png", 256, 256) == facts_of(made.data[0].model_dump())
        edited = client.images.edit(
            image=base64.b64decode(made.data[0].b64_json),
            prompt="at night",
            output_format="webp",
            size="128x64",
            extra_body=STEPS,
        )
    assert ("webp", 128, 64) == facts_of(edited.data[0].model_dump())
    assert ("t2i", "i2i") == (made.turnout["pool"], edited.turnout["pool"])
    assert before + 1 == demo.encoder_count("t2i")


@pytest.mark.parametrize("size", [(8, 8), (300, 75), (33, 47), (700, 500)])
def test_input_pictures_of_any_size(demo, size):
    """Any picture from 8×8 up to 4:1 is taken, whatever its mode, and scaled by the worker."""
    image = picture(*size, mode="RGBA")
    answer = generate(demo, prompt="p", image=b64(image), size="64x64", seed=1)
    assert ("png", 64, 64) == facts(first(answer))


def test_a_size_off_the_step_is_exact(demo):
    """A size that is no multiple of 32 comes back to the pixel (B22)."""
    assert ("png", 100, 70) == facts(first(generate(demo, prompt="p", size="100x70")))


def test_a_photo_as_a_phone_makes_it(demo):
    """A sideways JPEG with EXIF is edited upright, by chat as well as by a form (B01, B31)."""
    exif = Image.Exif()
    exif[0x0112] = 6
    photo = picture(96, 64, fmt="jpeg", exif=exif)
    form = {"data": {"prompt": "p", "seed": "5"} | STEPS, "files": {"image": ("p.jpg", photo)}}
    url = demo.url("port")
    by_form = httpx.post(url + "/v1/images/edits", timeout=120, trust_env=False, **form)
    assert ("png", 64, 96) == facts(first(by_form))
    part = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + b64(photo)}}
    chat = httpx.post(
        url + "/v1/chat/completions",
        json={
            "messages": [{"role": "user", "content": [part, {"type": "text", "text": "p"}]}],
            "extra_body": STEPS | {"seed": 5},
        },
        timeout=120,
        trust_env=False,
    ).json()
    answer = chat["choices"][0]["message"]["content"][0]["image_url"]["url"]
    assert pixels(first(by_form)).tobytes() == pixels(base64.b64decode(answer[22:])).tobytes()


def test_an_answer_by_url_is_the_picture(demo):
    """A URL answer of the demo can be fetched and holds the picture that base64 would (B27)."""
    by_url = generate(demo, prompt="p", seed=5, size="64x64", response_format="url", n=2).json()
    by_base64 = generate(demo, prompt="p", seed=5, size="64x64", n=2).json()
    for url, datum in zip(by_url["data"], by_base64["data"], strict=True):
        fetched = httpx.get(url["url"], trust_env=False)
        assert base64.b64decode(datum["b64_json"]) == fetched.content
    assert (demo.directory / "artifacts").is_dir()


def commands(text):
    """Lists the curl commands of a text, each with its continued lines."""
    return re.findall(r"^curl (?:.*\\\n)*.*$", text, re.MULTILINE)


def test_the_readmes_curl_lines(demo, tmp_path):
    """The README's two curl lines work as they are pasted, and are those that `up` prints."""
    here = [
        command.replace("127.0.0.1:8000", f"127.0.0.1:{demo.ports['port']}")
        for command in commands(README.read_text())
    ]
    assert 2 == len(here)
    assert here == commands(demo.text())
    for command, pool in zip(here, ("t2i", "i2i"), strict=True):
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert re.search(rf"^x-turnout-pool: {pool}\s*$", ran.stdout, re.MULTILINE), ran.stdout
    made = {path.name: facts(path.read_bytes()) for path in tmp_path.iterdir()}
    assert {"fox.png": ("png", 256, 256), "night.png": ("png", 256, 256)} == made


def test_no_log_holds_a_prompt(demo):
    """A prompt is in no log of the gateway, the workers or the encoder."""
    canary = "canary-8f3a"
    first(generate(demo, prompt=canary, size="64x64"))
    first(generate(demo, prompt=canary, image=b64(picture(64, 64))))
    logs = {path.name: path.read_text() for path in (demo.directory / "logs").iterdir()}
    assert {"encoder-server.log", "t2i-worker.log", "i2i-worker.log", "gateway.log"} <= logs.keys()
    assert [] == [name for name, text in logs.items() if canary in text]


def test_check_on_the_demos_own_configuration(demo, tmp_path):
    """`turnout check` finds the demo good, and says where sizes do not fit the tiny model."""
    own = demo.directory / "turnout.toml"
    for config, code, words in ((own, 0, "│ ok "), (tmp_path / "large.toml", 0, "sides up to 512")):
        if config != own:
            config.write_text(own.read_text().replace("max_side = 512", "max_side = 2048"))
        ran = subprocess.run(
            [sys.executable, "-m", "gateway", "check", "--config", str(config)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (code, True) == (ran.returncode, words in ran.stdout), ran.stdout
