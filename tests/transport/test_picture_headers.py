"""A picture's header is read without a decoder, from any bytes, and agrees with the decoder."""

from __future__ import annotations

import io
import random
import struct
import time
import warnings
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gateway.transport.picture_facts import BadPicture
from gateway.transport.picture_headers import other_format, read_header
from gateway.transport.picture_jpeg import MAX_SCANS

ORIENTATION = 0x0112
FAULTS = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError)
FAULTS += (OverflowError, struct.error, zlib.error)


def saved(kind, mode="RGB", size=(20, 14), orientation=None, **options):
    """Encodes a small picture."""
    if orientation is not None:
        options["exif"] = Image.Exif()
        options["exif"][ORIENTATION] = orientation
        options["exif"][0x010F] = "a maker"
    out = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(out, kind, **options)
    return out.getvalue()


def animation(kind):
    """Encodes an animation of three frames."""
    frames = [Image.new("RGB", (20, 14), colour) for colour in ("red", "green", "blue")]
    return saved(kind, save_all=True, append_images=frames)


REAL = (
    *(saved("PNG", mode) for mode in ("RGB", "L", "P", "RGBA", "LA", "1", "I;16")),
    *(saved("JPEG", mode) for mode in ("RGB", "L", "CMYK")),
    *(saved("WEBP", mode, lossless=lossless) for mode in ("RGB", "RGBA") for lossless in (0, 1)),
    *(saved(kind, orientation=6) for kind in ("PNG", "JPEG", "WEBP")),
    saved("JPEG", progressive=True, comment="a comment", icc_profile=b"a profile"),
    saved("WEBP", xmp=b'<x tiff:Orientation="8"/>'),
    saved("JPEG", xmp=b'<x tiff:Orientation="8"/>'),
    animation("PNG"),
    animation("WEBP"),
)


def pillow(data):
    """Returns what the decoder says, or None where it fails."""
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        try:
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as shown:
                frames = getattr(shown, "n_frames", 1) if shown.format != "MPO" else 1
                size, kind, mode = shown.size, shown.format, shown.mode
                shown.load()
                is_plain = mode == "RGB" and "transparency" not in shown.info
                orientation = upright(shown)
        except FAULTS:
            return None
    # At the first broken entry of EXIF the decoder gives up, and we go on as browsers do.
    if any("Truncated" in str(each) or "Corrupt" in str(each) for each in complaints):
        orientation = None
    return {"MPO": "jpeg"}.get(kind, kind.lower()), size, orientation, is_plain, frames


def upright(shown):
    """Returns the orientation that the decoder finds; 1 where that is none."""
    try:
        told = shown.getexif().get(ORIENTATION, 1)
    except FAULTS:
        return 1
    return told if told in range(1, 9) else 1


def check(data):
    """Reads any bytes; where the decoder reads them too, both say the same."""
    try:
        header = read_header(data)
    except BadPicture:
        return False
    said = pillow(data)
    if said is None:
        return False
    kind, size, orientation, is_plain, frames = said
    assert (kind, size) == (header.format, (header.width, header.height))
    assert orientation in (None, header.orientation)
    assert is_plain or not header.is_plain_rgb
    if frames == header.frames == 1:
        cleaned = pillow(header.cleaned(data))
        assert cleaned is None or (kind, size) == cleaned[:2]
    return True


@pytest.mark.parametrize("data", REAL, ids=range(len(REAL)))
def test_a_header_says_what_the_decoder_says(data):
    """Format, size, orientation, colours and frames are those that the decoder finds (B11, B31)."""
    header = read_header(data)
    assert check(data)
    assert pillow(data)[3:] == (header.is_plain_rgb or header.frames > 1, header.frames)


@pytest.mark.parametrize("data", REAL, ids=range(len(REAL)))
def test_every_beginning_of_a_picture_is_refused(data):
    """A file that ends anywhere before its end is no picture (R2)."""
    for stop in range(len(data)):
        with pytest.raises(BadPicture):
            read_header(data[:stop])


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\x40\0\0\0WEBPVP8X"]),
    st.binary(max_size=200),
)
def test_any_bytes_are_read_or_refused(begin, rest):
    """No bytes whatever make a reader fail in another way (R2, B33)."""
    check(begin + rest)


@settings(deadline=None, max_examples=500)
@given(st.sampled_from(REAL), st.data())
def test_a_changed_picture_is_read_as_the_decoder_reads_it(data, draw):
    """Real files with changed, cut and doubled bytes: refused, or as the decoder says (B33)."""
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(changed) - 1))
        to = draw.draw(st.integers(at, min(len(changed), at + 40)))
        kind = draw.draw(st.integers(0, 2))
        if kind == 0:
            changed[at] = draw.draw(st.integers(0, 255))
        elif kind == 1:
            changed[at:at] = changed[at:to]
        elif len(changed) - (to - at) > 1:
            del changed[at:to]
    check(bytes(changed))


def chunk(kind, body=b""):
    """Writes one chunk of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def ihdr(width, height, depth=8, colour=2):
    """Writes a PNG's first chunk."""
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


SIGN = b"\x89PNG\r\n\x1a\n"
IDAT = chunk(b"IDAT", zlib.compress(b"\0" * 20_000))
IEND = chunk(b"IEND")
UNFOLDS = zlib.compress(b"\n" * 20_000_000)
RAW = b"Raw profile type exif\0"
JPEG = saved("JPEG", progressive=True)
SCAN = JPEG[JPEG.rindex(b"\xff\xda") : -2]
WEBP = saved("WEBP", orientation=6)
HOSTILE = {
    "two sizes": SIGN + ihdr(64, 64) + ihdr(50_000, 50_000) + IDAT + IEND,
    "no side": SIGN + ihdr(0, 64) + IDAT + IEND,
    "negative side": SIGN + ihdr(2**31, 64) + IDAT + IEND,
    "no such depth": SIGN + ihdr(64, 64, 4, 2) + IDAT + IEND,
    "no pixels": SIGN + ihdr(64, 64) + IEND,
    "size not first": SIGN + chunk(b"tEXt", b"a\0b") + ihdr(64, 64) + IDAT + IEND,
    "zTXt bomb": SIGN + ihdr(64, 64) + chunk(b"zTXt", RAW + b"\0" + UNFOLDS) + IDAT + IEND,
    "iTXt bomb": SIGN
    + ihdr(64, 64)
    + chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + UNFOLDS)
    + IDAT
    + IEND,
    "many texts": SIGN + ihdr(64, 64) + chunk(b"zTXt", RAW + b"\0x") * 99 + IDAT + IEND,
    "many chunks": SIGN + ihdr(64, 64) + chunk(b"tEXt", b"a") * 100_001 + IDAT + IEND,
    "long chunk": SIGN + ihdr(64, 64) + b"\xff\xff\xff\xffIDAT" + IDAT + IEND,
    "many scans": JPEG[:-2] + SCAN * MAX_SCANS + b"\xff\xd9",
    "many segments": JPEG[:2] + b"\xff\xfe\0\2" * 20_000 + JPEG[2:],
    "two frames": JPEG[:-2] + JPEG[JPEG.index(b"\xff\xc2") :],
    "no end": JPEG[:-2],
    "stuffing": JPEG[:-2] + b"\xff\0" * 1_000_000,
    "fill": JPEG[:-2] + b"\xff" * 2_000_000,
    "WebP that is longer": b"RIFF\xff\xff\xff\x7f" + WEBP[8:],
    "WebP of two sizes": WEBP[:24] + b"\xff\x3f\0\xff\x3f\0" + WEBP[30:],
    "WebP without a frame": WEBP[:20] + b"\x02" + WEBP[21:],
    "GIF in a WebP": b"GIF89a" + WEBP,
    "zip": b"PK\3\4" + SIGN,
    "script": b"<script>" + JPEG,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_from_their_headers(name):
    """Bombs, polyglots and files that contradict themselves are refused, and at once (B33)."""
    began = time.process_time()
    with pytest.raises(BadPicture):
        read_header(HOSTILE[name])
    assert 1 > time.process_time() - began


def test_a_bomb_in_the_dimensions_costs_nothing():
    """The size of a bomb is read without unfolding it (B33)."""
    header = read_header(SIGN + ihdr(50_000, 50_000) + IDAT + IEND)
    assert (50_000, 50_000) == (header.width, header.height)


@pytest.mark.parametrize("seed", range(3))
def test_other_formats_are_told_from_noise(seed):
    """Only what begins as a known format is named as one (B30)."""
    noise = b"x" + random.Random(seed).randbytes(64)
    assert other_format(noise) is None
    assert ("a GIF", "a TIFF") == (other_format(b"GIF89a"), other_format(b"II*\0"))
