"""What a worker receives for every kind of input picture, and what never reaches one."""

from __future__ import annotations

import asyncio
import base64
import io
import struct
import time
import zlib

import psutil
import pytest
from PIL import Image

from tests.support.house import code_of
from tests.support.pictures import PNG8

pytestmark = pytest.mark.anyio

ORIENTATION, GPS = 0x0112, 0x8825


def saved(kind, mode="RGB", size=(60, 40), colour=None, **options):
    """Encodes a one-coloured picture."""
    out = io.BytesIO()
    Image.new(mode, size, colour or 0).save(out, kind, **options)
    return out.getvalue()


def photo(orientation, kind="JPEG"):
    """Encodes a photo of 60x40 as a phone does, with its place and its orientation."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[0x010F] = "a maker"
    exif[GPS] = {1: "N", 2: (52.0, 31.0, 12.0)}
    return saved(kind, colour=(200, 30, 30), exif=exif)


async def edit(house, data, name="photo.bin", kind="application/octet-stream", **fields):
    """Sends a picture as a file of a form."""
    fields = {"prompt": "p", **fields}
    return await house.client.post(
        "/v1/images/edits", data=fields, files={"image": (name, data, kind)}
    )


def received(worker):
    """Opens the one picture that a worker was given; its label has to be true."""
    ((_, name, kind, data),) = worker.requests[-1].files
    with Image.open(io.BytesIO(data)) as shown:
        shown.load()
    fmt = shown.format.lower()
    assert (f"image_0.{fmt}", f"image/{fmt}") == (name.replace(".jpg", ".jpeg"), kind)
    return shown, data


@pytest.mark.parametrize("kind", ["application/octet-stream", "", "image/jpeg", "image/jpg"])
@pytest.mark.parametrize("name", ["blob", "x.jpg"])
async def test_the_bytes_decide_the_type(house, kind, name):
    """A PNG is forwarded as image/png, byte for byte, whatever its label says (B11)."""
    text, image = await house.two_tracks()
    assert 200 == (await edit(house, PNG8, name, kind)).status_code
    assert (0, 1) == (text.hits, image.hits)
    assert PNG8 == received(image)[1]


async def test_a_text_with_a_picture_s_label_is_refused(house):
    """Text bytes labelled image/png are a 400, and no worker is called (B11)."""
    text, image = await house.two_tracks()
    response = await edit(house, b"hello, I am a text", "x.png", "image/png")
    assert (400, "invalid_image", "image") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "/tmp/x.png", "file:///tmp/x.png", "../../x.jpg", "s3://b/x.png"]
)
async def test_a_path_is_no_picture(house, path):
    """A path is a 400 at once; nothing is opened, and no worker is called (B12)."""
    text, image = await house.two_tracks()
    response = await house.generate(prompt="p", image=path)
    assert (400, "invalid_image", "image") == code_of(response)
    assert (0, 0) == (text.hits, image.hits)


HEIF = b"\0\0\0\x18ftyp" + b"%s" + b"\0\0\0\0mif1heic"
OTHERS = {
    "HEIC": HEIF % b"heic",
    "AVIF": HEIF % b"avif",
    "TIFF": saved("TIFF"),
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "GIF": saved("GIF", "L"),
    "BMP": saved("BMP"),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_another_format_is_told_which_are_taken(house, kind):
    """HEIC, AVIF, TIFF, SVG, GIF and BMP are a 400 that lists what is allowed (B30)."""
    text, image = await house.two_tracks()
    response = await edit(house, OTHERS[kind])
    assert (400, "unsupported_image_format", "image") == code_of(response)
    assert "PNG, JPEG or WebP" in response.json()["error"]["message"]
    assert (0, 0) == (text.hits, image.hits)


@pytest.mark.parametrize("kind", ["WEBP", "JPEG", "PNG"])
async def test_an_allowed_format_always_works(house, kind):
    """A plain WebP, JPEG or PNG reaches the worker byte for byte (B30)."""
    _, image = await house.two_tracks()
    data = saved(kind)
    assert 200 == (await edit(house, data)).status_code
    assert data == received(image)[1]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    ("orientation", "size"), [(1, (60, 40)), (2, (60, 40)), (3, (60, 40)), (6, (40, 60))]
)
async def test_a_photo_arrives_upright_and_without_its_place(house, kind, orientation, size):
    """The worker gets upright pixels without tag and GPS; size auto is the upright one (B31)."""
    _, image = await house.two_tracks()
    response = await edit(house, photo(orientation, kind), size="auto")
    assert 200 == response.status_code
    shown, data = received(image)
    assert ("RGB", size) == (shown.mode, shown.size)
    assert not shown.getexif()
    assert b"a maker" not in data
    asked = tuple(map(int, image.requests[0].texts["size"].split("x")))
    assert (size[0] < size[1]) == (asked[0] < asked[1])


COLOURS = {
    "CMYK": (saved("JPEG", "CMYK", colour=(0, 255, 255, 0), quality=100), (255, 0, 0)),
    "palette": (saved("PNG", "P", transparency=0), (255, 255, 255)),
    "grey": (saved("PNG", "L", colour=90), (90, 90, 90)),
    "RGBA": (saved("PNG", "RGBA", colour=(0, 0, 0, 0)), (255, 255, 255)),
    "16 bits": (saved("PNG", "I;16", colour=300), (1, 1, 1)),
}


@pytest.mark.parametrize("kind", COLOURS)
async def test_every_colour_mode_arrives_as_rgb(house, kind):
    """CMYK, palette, grey, RGBA and 16-bit pictures arrive as 8-bit RGB over white (B32)."""
    _, image = await house.two_tracks()
    data, expected = COLOURS[kind]
    assert 200 == (await edit(house, data)).status_code
    shown, _ = received(image)
    assert "RGB" == shown.mode
    pixel = shown.getpixel((9, 9))
    assert all(abs(a - b) < 5 for a, b in zip(expected, pixel, strict=True))


def animation():
    """Encodes an animation of three frames."""
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("red", "green", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:])
    return out.getvalue()


async def test_the_first_frame_of_an_animation_is_used_and_said_so(house):
    """An animated PNG arrives as its first frame, and a header warns the caller (B30)."""
    _, image = await house.two_tracks()
    response = await edit(house, animation())
    assert 200 == response.status_code
    shown, _ = received(image)
    assert ((255, 0, 0), 1) == (shown.getpixel((9, 9)), shown.n_frames)
    assert "image: the first of 3 frames is used" == response.headers["x-turnout-warning"]


async def test_an_animation_is_refused_where_that_is_configured(house):
    """With limits.animated_images = "refuse" an animation is a 400 (B30)."""
    text, image = await house.two_tracks(limits={"animated_images": "refuse"})
    assert (400, "invalid_image", "image") == code_of(await edit(house, animation()))
    assert (0, 0) == (text.hits, image.hits)


def bomb(side=50_000, weight=1_000_000):
    """Writes a PNG that announces a huge picture and holds a part of it."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    out = b"\x89PNG\r\n\x1a\n"
    # Stored, not packed: the file has the weight that the real one would have.
    body = zlib.compress(b"\0" * weight, 0)
    for kind, data in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + kind + data
        out += struct.pack(">I", zlib.crc32(kind + data))
    return out


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "data url"])
async def test_ten_bombs_at_once_cost_little_and_delay_nobody(house, is_file):
    """Ten bombs are 400s from their headers, in little time and memory; others go on (B33)."""
    text, image = await house.two_tracks()
    data = bomb()
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    memory = psutil.Process().memory_info
    before, began, loop = memory().rss, time.monotonic(), asyncio.get_running_loop()
    bombs = [
        asyncio.create_task(edit(house, data) if is_file else house.generate(prompt="p", image=url))
        for _ in range(10)
    ]
    peak, longest = before, 0.0
    while not all(task.done() for task in bombs):
        turn = loop.time()
        await asyncio.sleep(0.002)
        peak, longest = max(peak, memory().rss), max(longest, loop.time() - turn)
    assert {(400, "image_too_large", "image")} == {code_of(task.result()) for task in bombs}
    assert 10 > time.monotonic() - began
    assert 200_000_000 > peak - before
    assert longest < 1, "bombs kept everybody waiting"
    assert (0, 0) == (text.hits, image.hits)
    assert 200 == (await house.generate(prompt="p")).status_code
