"""Every mistake is told in one shape, with the field named, before any worker is touched."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from tests.support.house import code_of
from tests.support.pictures import B64, DATA8, PNG8, picture
from tests.support.serve import until

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
BAD_BODIES = [
    (b"", "invalid_json"),
    (b"[]", "invalid_json"),
    (b"{", "invalid_json"),
    (b'{"prompt":"a","prompt":"b"}', "invalid_json"),
    (b'{"prompt":"a","seed":NaN}', "invalid_json"),
    (b'\xef\xbb\xbf{"prompt":"a"}', "invalid_json"),
    (b'{"prompt":"\\ud800"}', "invalid_json"),
    (b"{}", "missing_prompt"),
]
BAD_FIELDS = [
    ({"prompt": " "}, "missing_prompt", "prompt"),
    ({"prompt": ["a"]}, "invalid_value", "prompt"),
    ({"n": 0}, "invalid_value", "n"),
    ({"n": 11}, "invalid_value", "n"),
    ({"n": True}, "invalid_value", "n"),
    ({"seed": -1}, "invalid_value", "seed"),
    ({"seed": 2**32}, "invalid_value", "seed"),
    ({"num_inference_steps": 201}, "invalid_value", "num_inference_steps"),
    ({"guidance_scale": "x"}, "invalid_value", "guidance_scale"),
    ({"output_format": "gif"}, "invalid_value", "output_format"),
    ({"response_format": "png"}, "invalid_value", "response_format"),
    ({"size": "100000x10000"}, "invalid_size", "size"),
    ({"size": "1024*1024"}, "invalid_size", "size"),
    ({"size": 1024}, "invalid_size", "size"),
    ({"width": 8192, "height": 8192}, "invalid_size", "size"),
    ({"width": 64}, "invalid_size", "size"),
    ({"size": "64x64", "width": 64, "height": 96}, "invalid_size", "size"),
    ({"size": "2048x64"}, "invalid_size", "size"),
    ({"model": "nope"}, "model_not_found", "model"),
    ({"mask": DATA8, "image": DATA8}, "unsupported_parameter", "mask"),
    ({"stream": True}, "unsupported_parameter", "stream"),
    ({"lora_path": "x"}, "unsupported_parameter", "lora_path"),
    ({"image": "/etc/hostname"}, "invalid_image", "image"),
    ({"image": "file:///tmp/x.png"}, "invalid_image", "image"),
    ({"image": "data:image/png;base64,AAAA"}, "invalid_image", "image"),
    ({"image": 7}, "invalid_image", "image"),
    ({"images": [DATA8, {"file_id": "f"}]}, "invalid_image", "images"),
    ({"image": DATA8[:-40]}, "invalid_image", "image"),
    ({"image": "http://192.0.2.1/x.png"}, "image_url_forbidden", "image"),
    ({"image_url": {"url": "HTTPS://example.org/x.png"}}, "image_url_forbidden", "image_url"),
    ({"images": [DATA8] * 5}, "too_many_images", "images"),
]


@pytest.mark.parametrize(("body", "code"), BAD_BODIES)
async def test_a_body_that_is_no_request(house, body, code):
    """A body that is not one JSON object with a prompt is a 400, on every route (B53)."""
    text, image = await house.two_tracks()
    for path in ("/generate", "/v1/images/generations"):
        response = await house.client.post(path, content=body, headers=JSON)
        assert (400, code) == code_of(response)[:2]
    assert (0, 0) == (text.hits, image.hits)


async def test_a_field_that_cannot_be_used(house):
    """Each unusable field is named, and no worker is touched (R2, R5, B10, B12, B23, B24)."""
    text, image = await house.two_tracks()
    for fields, code, param in BAD_FIELDS:
        response = await house.generate(**({"prompt": "p"} | fields))
        status = 404 if code == "model_not_found" else 400
        assert (status, code, param) == code_of(response), fields
    assert (0, 0) == (text.hits, image.hits)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"hello", "invalid_image"),
        (PNG8[:40], "invalid_image"),
        (picture(fmt="gif"), "unsupported_image_format"),
        (picture(4, 4), "invalid_image"),
        (picture(100, 20), "invalid_image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "unsupported_image_format"),
    ],
)
async def test_an_upload_that_is_no_usable_picture(house, data, code):
    """A picture that is there and unusable is a 400, never text-to-image (R2, B07, B30)."""
    text, image = await house.two_tracks()
    files = {"image": ("cat.png", data, "image/png")}
    response = await house.client.post("/v1/images/edits", data={"prompt": "p"}, files=files)
    assert (400, code, "image") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)


@pytest.mark.parametrize("fields", [{}, {"image": None}, {"images": []}, {"image": "  "}])
async def test_an_edit_without_an_image(house, fields):
    """On the edits route an empty image is a missing one (B05, B06)."""
    text, image = await house.two_tracks()
    response = await house.client.post("/v1/images/edits", json={"prompt": "p"} | fields)
    assert (400, "missing_image", "image") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)


async def test_limits_are_told(house):
    """Too many bytes, pixels or characters are refused with the limit in the message."""
    limits = {"max_body_bytes": 2000, "max_prompt_chars": 10, "max_image_side": 16}
    await house.two_tracks(limits=limits)
    large = await house.generate(prompt="p" * 3000)
    assert (413, "request_too_large", None) == code_of(large)
    assert "2000" in large.json()["error"]["message"]
    assert (400, "invalid_value", "prompt") == code_of(await house.generate(prompt="p" * 11))
    wide = base64.b64encode(picture(32, 16)).decode()
    response = await house.generate(prompt="p", image=wide)
    assert (400, "image_too_large", "image") == code_of(response)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "not_found"),
        ("POST", "/v1/set_lora", 404, "not_found"),
        ("GET", "/admin/pools", 404, "not_found"),
        ("GET", "/metrics", 404, "not_found"),
        ("GET", "/generate/", 404, "not_found"),
        ("GET", "/generate", 405, "method_not_allowed"),
        ("DELETE", "/v1/images/edits", 405, "method_not_allowed"),
        ("POST", "/v1/images/variations", 404, "unsupported_endpoint"),
        ("GET", "/v1/models/nope", 404, "model_not_found"),
    ],
)
async def test_unknown_paths_and_wrong_methods(house, method, path, status, code):
    """Unknown paths and wrong methods are told in the same shape; 405 names what fits (B53)."""
    await house.two_tracks()
    response = await house.client.request(method, path)
    assert (status, code) == code_of(response)[:2]
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/xml"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_media_types_that_are_not_read(house, headers):
    """What cannot be read is a 415 that says what can (B08, B35)."""
    await house.two_tracks()
    body = json.dumps({"prompt": "p", "image": B64}).encode()
    response = await house.client.post("/generate", content=body, headers=headers)
    assert (415, "unsupported_media_type", None) == code_of(response)


async def test_a_fault_of_ours_is_a_500_in_the_same_shape(house, capsys):
    """An unhandled error is logged with its trace, and answered in the envelope (B53)."""
    await house.two_tracks()
    house.runtime.routes = None  # a broken house: what is asked of it now fails
    response = await house.generate({"x-request-id": "r7"}, prompt="secret-canary")
    assert (500, "internal_error", None) == code_of(response)
    assert ("false", "r7") == (response.headers["x-should-retry"], response.headers["x-request-id"])
    log = ""

    def is_logged():
        nonlocal log
        log += capsys.readouterr().out
        return "AttributeError" in log and "gateway/api/generate.py" in log

    await until(is_logged)
    assert '"id": "r7"' in log
    assert "secret-canary" not in log
    assert "Attribute" not in response.text


async def test_browsers_of_allowed_origins_may_call(house):
    """A preflight is answered for a configured origin and not for another (B08)."""
    await house.two_tracks(server={"cors_origins": ["http://ui.test"], "log_level": "error"})
    for origin, allowed in (("http://ui.test", True), ("http://other.test", False)):
        headers = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        response = await house.client.options("/v1/images/generations", headers=headers)
        assert allowed == (response.headers.get("access-control-allow-origin") == origin)


async def test_an_announced_flood_is_refused_before_it_is_sent(house):
    """A body announced as too large is a 413 without `100 Continue`; a small one gets it (B38)."""
    await house.two_tracks(limits={"max_body_bytes": 5000})
    host, port = house.url.removeprefix("http://").split(":")
    for length, first in ((50_000_000, b"HTTP/1.1 413"), (15, b"HTTP/1.1 100")):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(
            b"POST /generate HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % length
        )
        assert (await reader.readline()).startswith(first)
        if length == 15:
            await reader.readline()
            writer.write(b'{"prompt": "p"}')
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
