"""A text that stands for an input picture: base64 in its usual spellings, and nothing else."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from gateway.config import LimitsConfig
from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource, InputImage
from gateway.transport.pictures import load_image

LIMITS = LimitsConfig()


def load(text):
    """Loads one text."""
    return load_image(ImageSource("image", text), LIMITS)


def small():
    """Draws a picture whose base64 holds both letters that differ when URL-safe."""
    out = io.BytesIO()
    Image.effect_noise((8, 8), 90).convert("RGB").save(out, "PNG", compress_level=0)
    return out.getvalue()


SMALL = small()
B64 = base64.b64encode(SMALL).decode()
WRAPPED = base64.encodebytes(SMALL).decode()
URL_SAFE = base64.urlsafe_b64encode(SMALL).decode()


@pytest.mark.parametrize(
    "text",
    [
        B64,
        B64.rstrip("="),
        WRAPPED,
        WRAPPED.replace("\n", "\r\n"),
        URL_SAFE,
        URL_SAFE.rstrip("="),
        f"  {B64}\n",
        f"data:image/png;base64,{B64}",
        f"DATA:image/png;BASE64,{B64}",
        f"data:;base64,{B64}",
        f"data:image/jpeg;base64,{B64}",
        f"data:image/png;charset=utf-8;base64,{B64}",
        f"data:image/png;base64,{WRAPPED}",
        f"data:image/png;base64, {URL_SAFE}",
    ],
    ids=lambda text: repr(text[:26]),
)
def test_every_usual_base64_stands_for_the_bytes(text):
    """Plain, wrapped, URL-safe and unpadded base64, with or without data URL, is read (B03)."""
    assert InputImage(SMALL, "png", 8, 8) == load(text)


@pytest.mark.parametrize(
    "text",
    [
        "/etc/hostname",
        "/tmp/x.png",
        "file:///tmp/x.png",
        "../../x.jpg",
        "ftp://h/x.png",
        "s3://b/x.png",
        "//h.test/x.png",
        "a red fox",
        "AAAA",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,",
        "data:image/png,rawbytes",
        f"data:text/html,{B64}",
        f"{B64}!",
        "=" + B64,
        "狐" * 8,
        "-" * 8,
    ],
)
def test_another_text_is_no_picture(text):
    """Paths, other schemes and plain texts are a 400, and nothing is opened (B07, B12)."""
    with pytest.raises(UnusableImage) as caught:
        load(text)
    assert (400, "invalid_image", "image") == (
        caught.value.status,
        caught.value.code,
        caught.value.param,
    )


def test_a_path_is_never_opened(tmp_path):
    """The answer to a path does not tell whether the file exists (B12)."""
    there, missing = tmp_path / "xxxx", tmp_path / "yyyy"
    there.write_bytes(SMALL)
    texts = []
    for path in (there, missing):
        with pytest.raises(UnusableImage) as caught:
            load(str(path))
        texts.append(caught.value.message)
    assert texts[0] == texts[1]
