"""Reads a request body within its limits into a Payload: JSON or a multipart form.

Does not judge what the values mean; that is the inspector's work.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import BodyTooLarge, InvalidRequest, MediaType
from gateway.routing.request import Payload, Upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

MAX_PARTS: Final = 80
MAX_MEMBERS: Final = 200
THREAD_BYTES: Final = 262_144
"""Larger bodies are parsed in a thread, so that one caller does not hold up the others."""
_NAME: Final = re.compile(rb'\s*"[^"\\]*(?:\\.[^"\\]*)*"\s*:\s*')
_COMMA: Final = re.compile(rb"\s*,?\s*")


async def read_payload(
    headers: Mapping[str, str], body: AsyncIterator[bytes], max_body_bytes: int
) -> Payload:
    """Reads the whole body as what its content type says.

    No content type and `text/plain` are read as JSON. Raises MediaType, BodyTooLarge or
    InvalidRequest; a body that announces too much is refused before a byte of it is read.
    """
    kind, options = parse_options_header(headers.get("content-type", ""))
    boundary = _checked_kind(kind, options, headers.get("content-encoding", ""))
    length = headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > max_body_bytes):
        raise _too_large(max_body_bytes, boundary)
    chunks = _limited(body, max_body_bytes, boundary)
    if boundary is None:
        data = b"".join([chunk async for chunk in chunks])
        if len(data) < THREAD_BYTES:
            return parse_json(data)
        return await asyncio.to_thread(parse_json, data)
    form = FormReader(boundary)
    async for chunk in chunks:
        form.write(chunk)
    return form.finish()


def _checked_kind(kind: bytes, options: dict[bytes, bytes], encoding: str) -> bytes | None:
    """Returns the boundary of a form, None for JSON."""
    if encoding.strip().lower() not in ("", "identity"):
        raise MediaType("compressed bodies are not read; send it without 'Content-Encoding'")
    if kind in (b"", b"text/plain", b"application/json"):
        charset = options.get(b"charset", b"utf-8").lower()
        if charset not in (b"utf-8", b"utf8", b"us-ascii"):
            raise MediaType("JSON is read as UTF-8 only; send it so")
        return None
    if kind == b"multipart/form-data":
        if not options.get(b"boundary"):
            raise InvalidRequest("the form names no boundary", code="invalid_multipart")
        return options[b"boundary"]
    if kind == b"application/x-www-form-urlencoded":
        raise MediaType(
            "this content type is not read; for JSON set the header "
            "'Content-Type: application/json', for files send multipart/form-data"
        )
    raise MediaType("send application/json, or multipart/form-data with a file part 'image'")


async def _limited(
    body: AsyncIterator[bytes], max_body_bytes: int, boundary: bytes | None
) -> AsyncIterator[bytes]:
    total = 0
    async for chunk in body:
        total += len(chunk)
        if total > max_body_bytes:
            raise _too_large(max_body_bytes, boundary)
        yield chunk


def _too_large(max_body_bytes: int, boundary: bytes | None) -> BodyTooLarge:
    """Builds the error; of a form's fields only pictures may be large, so they are named."""
    return BodyTooLarge(
        f"the request body is too large; the limit is {max_body_bytes} bytes",
        param=None if boundary is None else "image",
    )


def parse_json(data: bytes) -> Payload:
    """Parses one JSON object, strictly: no duplicate names, NaN, lone surrogates, byte order mark.

    Raises InvalidRequest with the code `invalid_json`.
    """
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if len(raw) > MAX_MEMBERS:
            raise InvalidRequest(
                f"the JSON object has more than {MAX_MEMBERS} members", code="invalid_json"
            )
        entries = tuple((name, msgspec.json.decode(value)) for name, value in raw.items())
    except msgspec.DecodeError as error:
        fault = "the body is empty" if not data.strip() else f"it is not: {error}"
        raise InvalidRequest(
            f"the body has to be one JSON object in UTF-8; {fault}", code="invalid_json"
        ) from error
    except RecursionError as error:
        raise InvalidRequest("the JSON is nested too deep", code="invalid_json") from error
    if _has_duplicates(data, raw):
        raise InvalidRequest("a name is given twice in the JSON object", code="invalid_json")
    return Payload(entries)


def _has_duplicates(data: bytes, raw: Mapping[str, msgspec.Raw]) -> bool:
    """Walks along the decoded members; a member that the mapping lost stops the walk early.

    The text is known to be one valid object, so only its top level needs a look, and every
    value is stepped over at once.
    """
    at = _after(_COMMA, data, data.index(b"{") + 1)
    for value in raw.values():
        at = _after(_NAME, data, at)
        text = memoryview(value)
        if data[at : at + len(text)] != text:
            return True
        at = _after(_COMMA, data, at + len(text))
    return data[at : at + 1] != b"}"


def _after(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Returns where a pattern's match at a place ends; the place itself without a match."""
    match = pattern.match(data, at)
    return match.end() if match else at


class FormReader:
    """Is a multipart form that is read as it arrives."""

    def __init__(self, boundary: bytes) -> None:
        self._entries: list[tuple[str, object]] = []
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value, self._data = bytearray(), bytearray(), bytearray()
        self._is_complete = False
        callbacks: dict[str, Any] = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._data.extend(data[start:end]),
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        try:
            self._parser = MultipartParser(boundary, callbacks)
        except FormParserError as error:
            raise _malformed() from error

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes of the body."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _malformed() from error

    def finish(self) -> Payload:
        """Returns the whole form; a form that was cut off is an error."""
        if not self._is_complete:
            raise _malformed()
        return Payload(tuple(self._entries), is_form=True)

    def _begin(self) -> None:
        if len(self._entries) >= MAX_PARTS:
            raise InvalidRequest(
                f"the form has more than {MAX_PARTS} parts", code="invalid_multipart"
            )
        self._headers = {}
        self._data = bytearray()

    def _end_header(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name, self._value = bytearray(), bytearray()

    def _end_part(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if kind != b"form-data" or b"name" not in options:
            raise _malformed()
        name = _utf8(options[b"name"])
        part_type = self._headers.get(b"content-type", b"").lower()
        is_file = b"filename" in options or b"filename*" in self._headers.get(
            b"content-disposition", b""
        )
        if is_file or part_type.startswith((b"image/", b"application/octet-stream")):
            filename = options.get(b"filename", b"?" if is_file else b"").decode("utf-8", "replace")
            self._entries.append((name, Upload(bytes(self._data), filename)))
        else:
            self._entries.append((name, _utf8(bytes(self._data))))

    def _end(self) -> None:
        self._is_complete = True


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            "the form's texts have to be UTF-8", code="invalid_multipart"
        ) from error


def _malformed() -> InvalidRequest:
    return InvalidRequest("the form is malformed or cut off", code="invalid_multipart")
