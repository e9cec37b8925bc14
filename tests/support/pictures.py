"""Pictures for tests: made by Pillow, read by Pillow."""

from __future__ import annotations

import base64
import io
import random

from PIL import Image


def picture(width=8, height=8, colour=(200, 30, 30), fmt="png", mode="RGB", **options):
    """Returns the bytes of a one-coloured picture."""
    out = io.BytesIO()
    fill = colour if mode == "RGB" else 128
    Image.new(mode, (width, height), fill).save(out, format=fmt, **options)
    return out.getvalue()


PNG8 = picture()
B64 = base64.b64encode(PNG8).decode()
DATA8 = f"data:image/png;base64,{B64}"


def facts(data):
    """Returns the true format, width and height of picture bytes, decoded to the end."""
    with Image.open(io.BytesIO(data)) as opened:
        opened.load()
        return opened.format.lower(), opened.width, opened.height


def facts_of(datum):
    """Returns the facts of one `data` entry of a JSON answer."""
    return facts(base64.b64decode(datum["b64_json"], validate=True))


def noise(width, height, seed):
    """Returns a PNG that does not compress: about three bytes per pixel."""
    data = random.Random(seed).randbytes(width * height * 3)
    out = io.BytesIO()
    Image.frombytes("RGB", (width, height), data).save(out, format="png", compress_level=0)
    return out.getvalue()
