"""Reads the header of a WebP: walks over its chunks, and cuts an animation to its first frame."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from gateway.transport.picture_facts import BadPicture, Header, orientation_of

MAX_CHUNKS: Final = 100_000
_PROFILE, _ALPHA, _EXIF, _XMP, _ANIMATION = 0x20, 0x10, 0x08, 0x04, 0x02
_PIXELS: Final = (b"VP8 ", b"VP8L")


class _Chunk(NamedTuple):
    kind: bytes
    body: memoryview
    whole: memoryview


def is_webp(data: bytes) -> bool:
    """Tells whether a file begins as a WebP."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def read_webp(data: bytes) -> Header:
    """Reads a WebP's header and walks over its chunks. Raises BadPicture, struct.error."""
    chunks = _chunks(data)
    extended = chunks[0] if chunks and chunks[0].kind == b"VP8X" else None
    flags = 0 if extended is None else _at(extended.body, "<B", 0)
    frames = [chunk for chunk in chunks if chunk.kind == b"ANMF"] if flags & _ANIMATION else []
    pixels = [chunk for chunk in chunks if chunk.kind in _PIXELS]
    if flags & _ANIMATION:
        if not frames:
            raise BadPicture("the picture has no pixels")
    elif len(pixels) != 1 or (extended is None and pixels[0] is not chunks[0]):
        raise BadPicture("the picture has not exactly one set of pixels")
    if extended is None:
        width, height, is_see_through = _still(pixels[0])
    else:
        width, height = _triple(extended.body, 4) + 1, _triple(extended.body, 7) + 1
        is_see_through = bool(flags & _ALPHA)
        if frames:
            _check_frame(frames[0], width, height)
        else:
            still = _still(pixels[0])
            is_see_through |= still[2] or any(chunk.kind == b"ALPH" for chunk in chunks)
            if still[:2] != (width, height):
                raise BadPicture("the picture has two sizes")
    return Header(
        "webp",
        width,
        height,
        orientation_of(
            _first(chunks, b"EXIF", flags & _EXIF), _first(chunks, b"XMP ", flags & _XMP)
        ),
        is_plain_rgb=not is_see_through and not flags & _ANIMATION,
        frames=len(frames) or 1,
        pieces=_pieces(data, chunks, extended, frames),
    )


def _chunks(data: bytes) -> list[_Chunk]:
    (size,) = struct.unpack_from("<I", data, 4)
    view, at, end = memoryview(data), 12, 8 + size
    if end > len(data):
        raise BadPicture("the picture was cut off")
    chunks: list[_Chunk] = []
    while at < end:
        kind, length = struct.unpack_from("<4sI", data, at)
        body, after = at + 8, at + 8 + length
        if after > end or len(chunks) == MAX_CHUNKS:
            raise BadPicture("the picture was cut off or has too many chunks")
        at = after + length % 2
        chunks.append(_Chunk(kind, view[body:after], view[body - 8 : at]))
    return chunks


def _at(body: memoryview, form: str, offset: int) -> int:
    value: int = struct.unpack_from(form, body, offset)[0]
    return value


def _triple(body: memoryview, offset: int) -> int:
    return _at(body, "<H", offset) | _at(body, "<B", offset + 2) << 16


def _still(chunk: _Chunk) -> tuple[int, int, bool]:
    """Returns width, height and whether there is transparency, from the pixels' own header."""
    body = chunk.body
    if chunk.kind == b"VP8 ":
        if body[0] & 1 or bytes(body[3:6]) != b"\x9d\x01\x2a":
            raise BadPicture("the picture has no valid WebP header")
        width, height, alpha = _at(body, "<H", 6) & 0x3FFF, _at(body, "<H", 8) & 0x3FFF, 0
    else:
        bits = _at(body, "<I", 1)
        if body[0] != 0x2F:
            raise BadPicture("the picture has no valid WebP header")
        width, height, alpha = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bits >> 28 & 1
    if not width or not height:
        raise BadPicture("the picture has a side without pixels")
    return width, height, bool(alpha)


def _check_frame(frame: _Chunk, width: int, height: int) -> None:
    left, top = 2 * _triple(frame.body, 0), 2 * _triple(frame.body, 3)
    right, bottom = left + _triple(frame.body, 6) + 1, top + _triple(frame.body, 9) + 1
    if right > width or bottom > height:
        raise BadPicture("the picture has a frame outside of its canvas")


def _first(chunks: list[_Chunk], kind: bytes, is_announced: int) -> bytes | None:
    """Returns the first chunk of a kind; one that is not announced is not looked at."""
    if not is_announced:
        return None
    return next((bytes(chunk.body) for chunk in chunks if chunk.kind == kind), None)


def _pieces(
    data: bytes, chunks: list[_Chunk], extended: _Chunk | None, frames: list[_Chunk]
) -> tuple[bytes | memoryview, ...]:
    """Cuts everything but the first frame and its colours, and corrects what counts it."""
    shown = (b"ICCP", b"ANIM") if frames else (b"ICCP", b"ALPH", *_PIXELS)
    if extended is None:
        shown = _PIXELS
    kept = [
        chunk
        for chunk in chunks
        if chunk is extended or chunk.kind in shown or (frames and chunk is frames[0])
    ]
    size = sum(len(chunk.whole) for chunk in kept)
    if len(kept) == len(chunks) and size + 12 == len(data):
        return ()
    pieces: list[bytes | memoryview] = [chunk.whole for chunk in kept]
    if extended is not None:
        flags = extended.body[0] & ~(_EXIF | _XMP)
        pieces[0] = bytes(extended.whole[:8]) + bytes([flags]) + bytes(extended.whole[9:])
    return (b"RIFF" + struct.pack("<I", size + 4) + b"WEBP", *pieces)
