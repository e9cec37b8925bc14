"""Whatever a picture's colours and way up are, the worker gets upright 8-bit RGB on white."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image, ImageCms, PngImagePlugin

from gateway.config import LimitsConfig
from gateway.routing.request import ImageSource
from gateway.transport.pictures import load_image

SIZE = (24, 16)


def saved(drawn, kind="PNG", **options):
    """Encodes a picture."""
    out = io.BytesIO()
    drawn.save(out, kind, **options)
    return out.getvalue()


def loaded(data):
    """Loads one picture and decodes what comes out, everything about it checked."""
    image = load_image(ImageSource("image", data), LimitsConfig())
    with Image.open(io.BytesIO(image.data)) as shown:
        shown.load()
        assert ("RGB", image.format) == (shown.mode, shown.format.lower())
        assert (image.width, image.height) == shown.size
        assert not {"exif", "xmp", "transparency", "comment"} & set(shown.info)
        assert not shown.getexif()
        return shown.copy()


def near(expected, pixel, by=3):
    """Tells whether a pixel has a colour, within what an encoder may change."""
    return all(abs(a - b) <= by for a, b in zip(expected, pixel, strict=True))


@pytest.mark.parametrize(
    ("mode", "fill", "expected"),
    [
        ("RGB", (200, 30, 30), (200, 30, 30)),
        ("L", 90, (90, 90, 90)),
        ("1", 0, (0, 0, 0)),
        ("1", 1, (255, 255, 255)),
        ("RGBA", (200, 30, 30, 255), (200, 30, 30)),
        ("RGBA", (200, 30, 30, 0), (255, 255, 255)),
        ("RGBA", (200, 30, 30, 51), (244, 210, 210)),
        ("LA", (0, 0), (255, 255, 255)),
        ("LA", (40, 255), (40, 40, 40)),
        ("I;16", 0x8000, (128, 128, 128)),
        ("I;16", 300, (1, 1, 1)),
    ],
)
def test_every_colour_mode_of_a_png_becomes_rgb(mode, fill, expected):
    """Grey, 1-bit, 16-bit and transparent pictures become RGB over white, scaled right (B32)."""
    shown = loaded(saved(Image.new(mode, SIZE, fill)))
    assert near(expected, shown.getpixel((5, 5)), by=1)


def test_a_palette_with_transparency_becomes_rgb():
    """A palette picture keeps its colours, and shows white where it is transparent (B32)."""
    drawn = Image.new("P", SIZE, 1)
    drawn.putpalette([9, 9, 9, 200, 30, 30])
    drawn.paste(0, (0, 0, 4, 4))
    shown = loaded(saved(drawn, transparency=0))
    assert ((255, 255, 255), (200, 30, 30)) == (shown.getpixel((0, 0)), shown.getpixel((9, 9)))


def png(depth, colour, key, row):
    """Writes a PNG of 16 rows with a transparent colour, as no library writes it."""
    header = struct.pack(">IIBBBBB", 16, 16, depth, colour, 0, 0, 0)
    out = b"\x89PNG\r\n\x1a\n"
    body = zlib.compress((b"\0" + row) * 16)
    for kind, data in ((b"IHDR", header), (b"tRNS", key), (b"IDAT", body), (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + kind + data
        out += struct.pack(">I", zlib.crc32(kind + data))
    return out


@pytest.mark.parametrize(
    ("depth", "colour", "key", "row", "expected"),
    [
        (1, 0, b"\0\0", b"\x0f\xff", (255, 255, 255)),
        (2, 0, b"\0\2", b"\xa5" * 4, [(255,) * 3] * 2 + [(85,) * 3]),
        (4, 0, b"\0\3", b"\x33\x45" * 4, [(255,) * 3] * 2 + [(68,) * 3]),
        (8, 0, b"\0\x20", bytes(range(31, 47)), [(31,) * 3, (255,) * 3, (33,) * 3]),
        (8, 2, b"\0\1\0\2\0\3", b"\1\2\3\4\5\6" * 8, [(255, 255, 255), (4, 5, 6)]),
        (16, 0, b"\x20\x01", b"\x20\x01\x20\x02" * 8, [(255,) * 3, (32,) * 3]),
        (16, 2, b"\1\0\2\0\3\0", b"\1\0\2\0\3\0\4\0\5\0\6\0" * 8, [(255,) * 3, (4, 5, 6)]),
    ],
)
def test_a_transparent_colour_is_found_at_every_depth(depth, colour, key, row, expected):
    """The one transparent colour of a PNG shows white, whatever its depth in bits (B32)."""
    shown = loaded(png(depth, colour, key, row))
    expected = expected if isinstance(expected, list) else [expected]
    assert expected == [shown.getpixel((x, 3)) for x in range(len(expected))]


def test_a_printer_s_picture_has_its_colours():
    """A CMYK JPEG, whose values are inverted Adobe's way, is as light as it was meant (B32)."""
    shown = loaded(saved(Image.new("CMYK", SIZE, (0, 255, 255, 0)), "JPEG", quality=100))
    assert near((255, 0, 0), shown.getpixel((5, 5)))


def test_a_grey_jpeg_becomes_rgb():
    """A JPEG with one component becomes RGB (B32)."""
    assert near((90, 90, 90), loaded(saved(Image.new("L", SIZE, 90), "JPEG")).getpixel((5, 5)))


@pytest.mark.parametrize("lossless", [True, False])
def test_a_transparent_webp_becomes_rgb(lossless):
    """A WebP with transparency is shown over white (B32)."""
    data = saved(Image.new("RGBA", SIZE, (200, 30, 30, 0)), "WEBP", lossless=lossless)
    assert (255, 255, 255) == loaded(data).getpixel((5, 5))


def quartered():
    """Draws a picture whose corners differ."""
    drawn = Image.new("RGB", (64, 32), (255, 0, 0))
    drawn.paste((0, 255, 0), (32, 0, 64, 16))
    drawn.paste((0, 0, 255), (0, 16, 32, 32))
    drawn.paste((255, 255, 255), (32, 16, 64, 32))
    return drawn


RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
CORNERS = {
    1: (RED, GREEN, BLUE, WHITE),
    2: (GREEN, RED, WHITE, BLUE),
    3: (WHITE, BLUE, GREEN, RED),
    4: (BLUE, WHITE, RED, GREEN),
    5: (RED, BLUE, GREEN, WHITE),
    6: (BLUE, RED, WHITE, GREEN),
    7: (WHITE, GREEN, BLUE, RED),
    8: (GREEN, WHITE, RED, BLUE),
}


def shows(corners, shown):
    """Tells whether a picture has these colours in its corners, row by row."""
    right, bottom = shown.width - 3, shown.height - 3
    places = [(2, 2), (right, 2), (2, bottom), (right, bottom)]
    return all(near(c, shown.getpixel(p), 12) for c, p in zip(corners, places, strict=True))


@pytest.mark.parametrize("orientation", CORNERS)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_photo_stands_upright(kind, orientation):
    """All eight orientations are applied to the pixels, and the tag is gone (B31)."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    shown = loaded(saved(quartered(), kind, exif=exif, quality=100))
    assert shows(CORNERS[orientation], shown)


def test_an_orientation_in_old_places_counts():
    """ImageMagick's text block and XMP tell the orientation where EXIF does not (B31)."""
    exif = Image.Exif()
    exif[0x0112] = 6
    block = exif.tobytes()
    for key, text in (
        ("Raw profile type exif", f"\nexif\n{len(block):8}\n{block.hex()}\n"),
        ("XML:com.adobe.xmp", "<x tiff:Orientation='1' tiff:Orientation=\"6\"/>"),
    ):
        for is_packed in (False, True):
            info = PngImagePlugin.PngInfo()
            add = info.add_itxt if "xmp" in key else info.add_text
            add(key, text, zip=is_packed)
            assert shows(CORNERS[6], loaded(saved(quartered(), pnginfo=info)))


def test_a_profile_is_applied_and_a_broken_one_is_dropped():
    """Colours are converted by a usable profile; one that is none changes nothing (B32)."""
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for profile in (srgb, lab, b"none", srgb[: len(srgb) // 2]):
        data = saved(Image.new("RGBA", SIZE, (200, 30, 90, 255)), icc_profile=profile)
        shown = loaded(data)
        assert near((200, 30, 90), shown.getpixel((5, 5)))
        assert "icc_profile" not in shown.info
