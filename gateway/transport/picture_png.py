"""Reads the header of a PNG: every chunk is looked at, and none is trusted."""

from __future__ import annotations

import struct
import zlib
from types import MappingProxyType
from typing import Final

from gateway.transport.picture_facts import BadPicture, Cut, Header, orientation_of

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
MAX_CHUNKS: Final = 100_000
MAX_UNFOLDED: Final = 1_048_576
"""Size of a compressed text once unfolded, in bytes."""
MAX_TEXTS: Final = 16
"""Texts that may tell the orientation; a camera writes one or two."""

_DEPTHS: Final = MappingProxyType(
    {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
)
_RGB: Final = 2
_SHOWN: Final = frozenset(
    {
        *(b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"),
        *(b"sRGB", b"gAMA", b"cHRM", b"cICP", b"mDCV", b"cLLI", b"sBIT", b"bKGD", b"pHYs"),
    }
)
"""What a viewer needs; iCCP too, but once: each one would be unfolded."""
_RAW_EXIF: Final = b"Raw profile type exif"
_XMP: Final = b"XML:com.adobe.xmp"


def read_png(data: bytes) -> Header:
    """Reads a PNG's header and walks over its chunks. Raises BadPicture, struct.error."""
    length, kind, width, height, depth, colour, packing, filtering, interlace = struct.unpack_from(
        ">I4sIIBBBBB", data, len(SIGNATURE)
    )
    is_known = depth in _DEPTHS.get(colour, ()) and (packing, filtering) == (0, 0)
    if (length, kind) != (13, b"IHDR") or not is_known or interlace > 1:
        raise BadPicture("the picture has no valid PNG header")
    if not (0 < width < 2**31 and 0 < height < 2**31):
        raise BadPicture("the picture has a side without pixels")
    walk = _Walk(data)
    walk.run()
    return Header(
        "png",
        width,
        height,
        orientation_of(walk.exif or walk.raw_exif, walk.xmp),
        is_plain_rgb=(depth, colour) == (8, _RGB) and not walk.is_see_through,
        frames=walk.frames if walk.is_animated else 1,
        depth=depth,
        pieces=walk.cut.pieces(),
    )


class _Walk:
    """Is one walk over the chunks of a file, and what it has found."""

    def __init__(self, data: bytes) -> None:
        self.cut = Cut(data)
        self.exif: bytes | None = None
        self.raw_exif: bytes | None = None
        self.xmp: bytes | None = None
        self.is_see_through = self.is_animated = False
        self.frames = 0
        self._data = data
        self._texts = 0
        self._has_profile = self._has_pixels = False

    def run(self) -> None:
        """Walks from the header to the end of the picture."""
        at = len(SIGNATURE)
        self.cut.keep(0, at)
        for position in range(MAX_CHUNKS):
            length, kind = struct.unpack_from(">I4s", self._data, at)
            body, end = at + 8, at + 12 + length
            if end > len(self._data):
                raise BadPicture("the picture was cut off")
            if kind == b"IHDR" and position:
                raise BadPicture("the picture has two headers")
            if self._is_shown(kind):
                self.cut.keep(at, end)
            if kind == b"IDAT":
                # The still picture counts as a frame where it is no part of the animation.
                self.frames += not self._has_pixels and not self.frames
                self._has_pixels = True
            elif kind == b"IEND":
                break
            else:
                self._note(kind, self._data[body : end - 4])
            at = end
        else:
            raise BadPicture(f"the picture has over {MAX_CHUNKS} chunks")
        if not self._has_pixels:
            raise BadPicture("the picture has no pixels")

    def _is_shown(self, kind: bytes) -> bool:
        if kind != b"iCCP":
            return kind in _SHOWN
        is_first, self._has_profile = not self._has_profile, True
        return is_first and not self._has_pixels

    def _note(self, kind: bytes, body: bytes) -> None:
        if kind == b"tRNS":
            self.is_see_through = True
        elif kind == b"acTL":
            self.is_animated = True
        elif kind == b"fcTL":
            self.frames += 1
        elif kind == b"eXIf":
            self.exif = body
        elif kind in (b"tEXt", b"zTXt", b"iTXt"):
            key, _, text = body.partition(b"\0")
            if key == _RAW_EXIF:
                self.raw_exif = _unhex(self._unfolded(kind, text))
            elif key == _XMP:
                self.xmp = self._unfolded(kind, text)

    def _unfolded(self, kind: bytes, text: bytes) -> bytes:
        """Returns a text, unfolded within bounds; one that is broken is empty."""
        self._texts += 1
        if self._texts > MAX_TEXTS:
            raise BadPicture(f"the picture has over {MAX_TEXTS} texts about its orientation")
        is_packed = kind == b"zTXt"
        if kind == b"iTXt":
            is_packed, text = text[:1] not in (b"", b"\0"), text[2:].split(b"\0", 2)[-1]
        elif is_packed:
            text = text[1:]
        if not is_packed:
            return text
        unfolding = zlib.decompressobj()
        try:
            text = unfolding.decompress(text, MAX_UNFOLDED)
        except zlib.error:
            return b""
        if unfolding.unconsumed_tail:
            raise BadPicture("a text in the picture unfolds to over a megabyte")
        return text


def _unhex(text: bytes) -> bytes:
    """Reads the block that ImageMagick writes: three lines about it, then hexadecimal."""
    try:
        return bytes.fromhex("".join(text.decode("latin-1").split("\n")[3:]))
    except ValueError:
        return b""
