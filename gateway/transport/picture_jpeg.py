"""Reads the header of a JPEG: walks over its segments and counts its scans."""

from __future__ import annotations

import re
import struct
from typing import Final

from gateway.transport.picture_facts import BadPicture, Cut, Header, orientation_of

SIGNATURE: Final = b"\xff\xd8\xff"
MAX_SEGMENTS: Final = 10_000
MAX_SCANS: Final = 100
"""Each scan passes over the whole picture once more; encoders write about ten."""
MAX_SCANNED: Final = 500_000_000
"""Pixels that all the scans pass over, together."""

_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""Any marker but a restart, which belongs to the pixels, as an escaped FF does."""
_WINDOW: Final = 1_048_576
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_USUAL_FRAMES: Final = frozenset((0xC0, 0xC1, 0xC2))
_SOI, _EOI, _SOS, _COM = 0xD8, 0xD9, 0xDA, 0xFE
_SEGMENTS: Final = _FRAMES | {0xC4, 0xCC, *range(_SOS, 0xF0), _COM}
_XMP: Final = b"http://ns.adobe.com/xap/1.0/\0"


def read_jpeg(data: bytes) -> Header:
    """Reads a JPEG's header and walks over its segments. Raises BadPicture, struct.error."""
    walk = _Walk(data)
    walk.run()
    if walk.scans * walk.width * walk.height > MAX_SCANNED and walk.scans > 16:
        raise BadPicture(f"the picture has {walk.scans} scans, too many for its size")
    return Header(
        "jpeg",
        walk.width,
        walk.height,
        orientation_of(b"".join(walk.exif), walk.xmp),
        is_plain_rgb=walk.is_plain_rgb,
        pieces=walk.cut.pieces(),
    )


def _next_marker(data: bytes, at: int) -> int:
    """Finds the next marker; window by window, so that other threads get their turn."""
    for start in range(at, len(data), _WINDOW):
        match = _MARKER.search(data, start, start + _WINDOW + 1)
        if match is not None:
            return match.start()
    raise BadPicture("the picture was cut off")


class _Walk:
    """Is one walk over the segments of a file, and what it has found."""

    def __init__(self, data: bytes) -> None:
        self.cut = Cut(data)
        self.width = self.height = self.scans = 0
        self.is_plain_rgb = False
        self.exif: list[bytes] = []
        self.xmp: bytes | None = None
        self._data = data

    def run(self) -> None:
        """Walks from the first marker to the end of the picture."""
        data, at, is_in_scan = self._data, 2, False
        self.cut.keep(0, at)
        for _ in range(MAX_SEGMENTS):
            start = _next_marker(data, at)
            code = data[start + 1]
            # Between two segments there may be FF to fill up, and else nothing.
            if is_in_scan or not data[at:start].strip(b"\xff"):
                self.cut.keep(at, start)
            if code == _EOI:
                self.cut.keep(start, start + 2)
                break
            if code not in _SEGMENTS:
                raise BadPicture("the picture has a marker where none can be")
            (length,) = struct.unpack_from(">H", data, start + 2)
            at = start + 2 + length
            if length < 2 or at > len(data):
                raise BadPicture("the picture was cut off")
            is_in_scan = code == _SOS
            self._segment(code, start, at)
        else:
            raise BadPicture(f"the picture has over {MAX_SEGMENTS} segments")
        if not self.scans:
            raise BadPicture("the picture has no pixels")

    def _segment(self, code: int, start: int, end: int) -> None:
        body = self._data[start + 4 : end]
        if code in _FRAMES:
            self._frame(code, body)
        elif code == _SOS:
            self.scans += 1
            if not self.width:
                raise BadPicture("the picture has pixels before its size")
            if self.scans > MAX_SCANS:
                raise BadPicture(f"the picture has over {MAX_SCANS} scans")
        elif code >= 0xE0:
            self._application(code, body, start, end)
            return
        self.cut.keep(start, end)

    def _frame(self, code: int, body: bytes) -> None:
        depth, height, width, components = struct.unpack_from(">BHHB", body)
        if self.width:
            raise BadPicture("the picture has two headers")
        if not width or not height:
            raise BadPicture("the picture has a side without pixels")
        if depth != 8 or components not in (1, 3, 4):
            raise BadPicture("the picture is a JPEG of a rare kind; save it as 8-bit RGB")
        self.width, self.height = width, height
        self.is_plain_rgb = components == 3 and code in _USUAL_FRAMES

    def _application(self, code: int, body: bytes, start: int, end: int) -> None:
        """Keeps what changes the colours, notes what tells the orientation, drops the rest."""
        if self.scans:
            return  # too late to change or tell anything
        if code == 0xE1 and body.startswith(b"Exif\0\0"):
            self.exif.append(body[6:])
        elif code == 0xE1 and body.startswith(_XMP):
            self.xmp = body[len(_XMP) :]
        elif code == 0xE2 and body.startswith(b"ICC_PROFILE\0"):
            self.cut.keep(start, end)
        elif code == 0xE0 and body.startswith(b"JFIF\0") and len(body) >= 14:
            self._trimmed(start, end, body[:12] + b"\0\0")  # without a thumbnail
        elif code == 0xEE and body.startswith(b"Adobe") and len(body) >= 12:
            self._trimmed(start, end, body[:12])

    def _trimmed(self, start: int, end: int, body: bytes) -> None:
        segment = self._data[start : start + 2] + struct.pack(">H", len(body) + 2) + body
        if segment == self._data[start:end]:
            self.cut.keep(start, end)
        else:
            self.cut.put(segment)
