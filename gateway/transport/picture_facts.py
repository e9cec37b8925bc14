"""What every picture's header tells: size, way up, colours, frames, and which parts are needed.

Knows no file format; each format has its own reader, and none of them decodes a pixel.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Final

_EXIF_LABEL: Final = re.compile(rb"(?:Exif\0\0){1,2}")
_TIFF: Final = re.compile(rb"II(?:\*\0|\0\*)|MM(?:\*\0|\0[*+])")
_XMP_ORIENTATION: Final = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_ORIENTATION: Final = 0x0112


class BadPicture(Exception):
    """Says in what way bytes are not the picture they should be."""


@dataclass(frozen=True, slots=True)
class Header:
    """Is what a file says about its picture before anything is decoded.

    Width and height are as stored; `upright` is as a viewer shows them. `depth` is in bits.
    """

    format: str
    width: int
    height: int
    orientation: int
    is_plain_rgb: bool
    frames: int = 1
    depth: int = 8
    pieces: tuple[bytes | memoryview, ...] = field(default=(), repr=False, compare=False)
    """What the first frame needs, to be joined; empty where that is the whole file."""

    @property
    def has_metadata(self) -> bool:
        """Tells whether the file holds anything that its first frame does not need."""
        return bool(self.pieces)

    @property
    def upright(self) -> tuple[int, int]:
        """Is the width and height with the orientation applied."""
        is_sideways = self.orientation >= 5
        return (self.height, self.width) if is_sideways else (self.width, self.height)

    def cleaned(self, data: bytes) -> bytes:
        """Returns the file with nothing but its first frame; no pixel of that is touched."""
        return b"".join(self.pieces) if self.pieces else data


class Cut:
    """Collects the parts of a file that are kept, and knows whether that is all of it."""

    def __init__(self, data: bytes) -> None:
        self.is_whole = True
        self._view = memoryview(data)
        self._pieces: list[bytes | memoryview] = []
        self._start = self._stop = 0

    def keep(self, start: int, stop: int) -> None:
        """Keeps a part of the file; neighbours become one piece."""
        if start != self._stop:
            self.is_whole = False
            self._flush(start)
        self._stop = stop

    def put(self, part: bytes) -> None:
        """Puts other bytes in the place of a part."""
        self.is_whole = False
        self._flush(self._stop)
        self._pieces.append(part)

    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """Returns the kept parts, or none where nothing is left out."""
        if self.is_whole and self._stop == len(self._view):
            return ()
        self._flush(self._stop)
        return tuple(self._pieces)

    def _flush(self, start: int) -> None:
        if self._stop > self._start:
            self._pieces.append(self._view[self._start : self._stop])
        self._start = self._stop = start


def orientation_of(exif: bytes | None, xmp: bytes | None) -> int:
    """Returns the orientation, 1 to 8, from EXIF or else from XMP; 1 where neither tells."""
    told = _exif_orientation(_EXIF_LABEL.sub(b"", exif, count=1)) if exif else None
    if told is None and xmp and (match := _XMP_ORIENTATION.search(xmp)):
        told = int(match[1])
    return told if told is not None and 1 <= told <= 8 else 1


def _exif_orientation(block: bytes) -> int | None:
    """Looks the orientation up in the first directory of an EXIF block; broken ends end it."""
    if not _TIFF.match(block):
        return None
    order = "<" if block.startswith(b"I") else ">"
    told = None
    try:
        (start,) = struct.unpack_from(order + "I", block, 4)
        (count,) = struct.unpack_from(order + "H", block, start)
        for at in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind, values = struct.unpack_from(order + "HHI", block, at)
            if tag == _ORIENTATION:
                # A short, or a long as some cameras write it; anything else tells nothing.
                form = {3: "H", 4: "I"}.get(kind if values == 1 else 0)
                told = 1 if form is None else struct.unpack_from(order + form, block, at + 8)[0]
    except struct.error:
        pass  # what was read so far holds
    return told
