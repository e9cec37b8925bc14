"""Reads a picture's header from its bytes: what it is, whatever it is called.

PNG, JPEG and WebP, and nothing else; no decoder runs, and no length in a file is trusted.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from gateway.transport import picture_jpeg, picture_png, picture_webp
from gateway.transport.picture_facts import BadPicture, Header

_OTHER_FORMATS: Final = (
    ("a GIF", re.compile(rb"GIF8")),
    ("a BMP", re.compile(rb"BM")),
    ("a TIFF", re.compile(rb"II[*+]\x00|MM\x00[*+]")),
    ("a HEIC", re.compile(rb".{4}ftyp(hei[cxms]|hev[cxms]|mif1|msf1)", re.DOTALL)),
    ("an AVIF", re.compile(rb".{4}ftyp(avif|avis)", re.DOTALL)),
    ("a JPEG XL", re.compile(rb"\xff\x0a|\0\0\0\x0cJXL ")),
    ("a JPEG 2000", re.compile(rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51")),
    ("an SVG", re.compile(rb"(\xef\xbb\xbf)?\s*<(\?xml|svg|!DOCTYPE svg|!--)", re.IGNORECASE)),
)


def read_header(data: bytes) -> Header:
    """Reads the header, and walks to the end of the picture. Raises BadPicture."""
    try:
        if data.startswith(picture_png.SIGNATURE):
            return picture_png.read_png(data)
        if data.startswith(picture_jpeg.SIGNATURE):
            return picture_jpeg.read_jpeg(data)
        if picture_webp.is_webp(data):
            return picture_webp.read_webp(data)
    except (struct.error, IndexError) as error:
        raise BadPicture("the picture was cut off") from error
    raise BadPicture("these bytes are not a PNG, JPEG or WebP picture")


def other_format(data: bytes) -> str | None:
    """Names the picture format of bytes that are none of ours, as "a GIF"."""
    return next((name for name, pattern in _OTHER_FORMATS if pattern.match(data)), None)
