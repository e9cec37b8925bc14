"""What a picture carries beside its pixels is cut out, and no pixel changes by that."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageCms, PngImagePlugin

from gateway.config import LimitsConfig
from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource
from gateway.transport.picture_headers import read_header
from gateway.transport.pictures import PictureLoader, load_image

SECRET = b"latitude 52.5200"
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def noise(mode="RGB", size=(64, 48)):
    """Draws a picture that no encoder can guess."""
    bands = [Image.effect_noise(size, 90 + band) for band in range(len(mode))]
    return Image.merge(mode, bands)


def saved(kind, drawn=None, **options):
    """Encodes a picture."""
    out = io.BytesIO()
    (drawn or noise()).save(out, kind, **options)
    return out.getvalue()


def exif():
    """Writes an EXIF block with a secret and an orientation of 1."""
    block = Image.Exif()
    block[0x010E] = SECRET.decode()
    block[0x0112] = 1
    return block


def texts(packed=False):
    """Writes the texts of a PNG."""
    info = PngImagePlugin.PngInfo()
    info.add_text("where", SECRET.decode() * 9, zip=packed)
    info.add_itxt("XML:com.adobe.xmp", "<x>" + SECRET.decode() + "</x>", zip=packed)
    info.add_text("late", SECRET.decode())
    info.add(b"prVt", SECRET, after_idat=True)
    return info


CARRYING = {
    "jpeg exif": saved("JPEG", exif=exif()),
    "jpeg xmp": saved("JPEG", xmp=SECRET),
    "jpeg comment": saved("JPEG", comment=SECRET),
    "jpeg tail": saved("JPEG") + SECRET,
    "jpeg profile": saved("JPEG", exif=exif(), icc_profile=SRGB),
    "jpeg progressive": saved("JPEG", exif=exif(), progressive=True, quality=90),
    "jpeg restarts": saved("JPEG", exif=exif(), restart_marker_blocks=1),
    "png exif": saved("PNG", exif=exif()),
    "png texts": saved("PNG", pnginfo=texts()),
    "png packed texts": saved("PNG", pnginfo=texts(packed=True), exif=exif()),
    "png tail": saved("PNG") + b"PK\3\4" + SECRET,
    "png profile": saved("PNG", exif=exif(), icc_profile=SRGB),
    "webp exif": saved("WEBP", exif=exif()),
    "webp xmp": saved("WEBP", xmp=SECRET, lossless=True),
    "webp tail": saved("WEBP") + SECRET,
    "webp profile": saved("WEBP", exif=exif(), icc_profile=SRGB),
}


def load(data, **limits):
    """Loads one picture."""
    return load_image(ImageSource("image", data), LimitsConfig(**limits))


def opened(data):
    """Decodes a picture to its end."""
    with Image.open(io.BytesIO(data)) as shown:
        shown.load()
        return shown


@pytest.mark.parametrize("name", CARRYING)
def test_metadata_is_cut_and_no_pixel_changes(name):
    """EXIF, XMP, texts, comments and tails are gone; format, pixels and profile stay (B31)."""
    data = CARRYING[name]
    image = load(data)
    before, after = opened(data), opened(image.data)
    assert before.tobytes() == after.tobytes()
    assert before.format == after.format
    assert before.info.get("icc_profile") == after.info.get("icc_profile")
    assert SECRET not in image.data
    assert not {"exif", "xmp", "comment"} & set(after.info)
    assert not after.getexif()
    assert image == load(image.data)


@pytest.mark.parametrize("name", CARRYING)
def test_a_picture_without_metadata_is_the_same_object(name):
    """What was cut once needs nothing more, and is passed on byte for byte."""
    once = load(CARRYING[name]).data
    assert once is load(once).data


def animated(kind, mode="RGB", count=3, **options):
    """Encodes an animation whose first frame is red."""
    colours = ["red", "green", "blue", "white"]
    frames = [Image.new(mode, (64, 48), colours[i % 4]) for i in range(count)]
    return saved(kind, frames[0], save_all=True, append_images=frames[1:], **options)


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (animated("PNG"), 3),
        (animated("PNG", default_image=True), 3),
        (animated("PNG", mode="RGBA", count=9), 9),
        (animated("WEBP"), 3),
        (animated("WEBP", lossless=True, count=40), 40),
    ],
    ids=["png", "png default", "png alpha", "webp", "webp lossless"],
)
@pytest.mark.anyio
async def test_of_an_animation_the_first_frame_is_used(data, frames):
    """An animated PNG or WebP becomes its first frame, and the caller is told (B30)."""
    loader = PictureLoader(LimitsConfig())
    (image,), warnings = await loader.load((ImageSource("image", data),))
    loader.close()
    shown = opened(image.data)
    assert ("RGB", 1) == (shown.mode, getattr(shown, "n_frames", 1))
    assert all(abs(a - b) < 6 for a, b in zip((255, 0, 0), shown.getpixel((9, 9)), strict=True))
    assert (f"image: the first of {frames} frames is used",) == warnings
    with pytest.raises(UnusableImage, match=f"has {frames} frames") as caught:
        load(data, animated_images="refuse")
    assert ("invalid_image", "image") == (caught.value.code, caught.value.param)


def test_a_single_frame_is_no_animation():
    """A still picture, and an animation of one frame, is never refused for being animated."""
    data = animated("WEBP")
    one = read_header(data).cleaned(data)
    assert b"ANMF" in one
    assert "png" == load(one, animated_images="refuse").format
    assert "png" == load(saved("PNG"), animated_images="refuse").format
