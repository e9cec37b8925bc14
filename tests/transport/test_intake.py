"""Bodies become payloads: which types are read, and within which limits."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import BodyTooLarge, GatewayError, MediaType
from gateway.routing.request import Payload
from gateway.transport.intake import read_payload

FORM = "multipart/form-data; boundary=cut"


def read(body, content_type="application/json", limit=10_000_000, **headers):
    """Reads a body that arrives at once; returns the payload."""
    sent = {"content-type": content_type} if content_type is not None else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}

    async def arriving():
        yield body

    return asyncio.run(read_payload(sent, arriving(), limit))


def refusal(kind, function, *arguments, **options):
    """Returns the code of a refused body."""
    with pytest.raises(GatewayError) as caught:
        function(*arguments, **options)
    assert kind is type(caught.value)
    return caught.value.code


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/json",
        "application/json; charset=UTF-8",
        'APPLICATION/JSON; Charset="utf-8"',
        "application/json; charset=us-ascii",
    ],
)
def test_json_is_read_under_every_usual_name(content_type):
    """No content type, plain text and JSON are read as JSON, the same on all routes (B08)."""
    assert Payload((("prompt", "é"),)) == read('{"prompt":"é"}'.encode(), content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "image/png",
        "application/xml",
        "multipart/mixed; boundary=cut",
        "nonsense",
    ],
)
def test_another_content_type_is_refused(content_type):
    """A body of another type is a 415, never "invalid JSON"."""
    assert "unsupported_media_type" == refusal(MediaType, read, b"{}", content_type)


def test_curls_default_is_told_which_header_to_set():
    """What curl sends by default is answered with the header that is missing."""
    with pytest.raises(MediaType, match="'Content-Type: application/json'"):
        read(b"{}", "application/x-www-form-urlencoded")


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_a_plain_body_may_say_that_it_is_plain(encoding):
    """The encoding `identity` is no encoding (B35)."""
    assert Payload(()) == read(b"{}", content_encoding=encoding)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate", "zstd", "gzip, identity"])
@pytest.mark.parametrize("content_type", ["application/json", FORM])
def test_a_compressed_body_is_refused_as_such(encoding, content_type):
    """A compressed body is a 415 that says so, never "invalid JSON" (B35)."""
    refused = refusal(MediaType, read, b"\x1f\x8b", content_type, content_encoding=encoding)
    assert "unsupported_media_type" == refused


@pytest.mark.parametrize("content_type", ["application/json", FORM, None])
@pytest.mark.parametrize("length", ["101", "9" * 18, "9" * 5000])
def test_a_body_that_announces_too_much_is_not_read(content_type, length):
    """A length beyond the limit is a 413 before a byte is read."""

    async def unread():
        raise AssertionError("the body was read")
        yield b""

    headers = {"content-length": length, "content-type": content_type or ""}
    with pytest.raises(BodyTooLarge):
        asyncio.run(read_payload(headers, unread(), 100))


@pytest.mark.parametrize(
    ("content_type", "first"),
    [
        ("application/json", b'{"a":"'),
        (FORM, b'--cut\r\nContent-Disposition: form-data; name="a"\r\n\r\n'),
    ],
)
def test_a_body_that_grows_too_large_is_cut_off(content_type, first):
    """Without a length, reading stops at the first byte beyond the limit."""
    taken = []

    async def endless():
        yield first
        while True:
            taken.append(1)
            yield b"x" * 10

    limit = len(first) + 25
    with pytest.raises(BodyTooLarge):
        asyncio.run(read_payload({"content-type": content_type}, endless(), limit))
    assert 3 == len(taken)


@pytest.mark.parametrize("length", ["", "junk", "-5", "4"])
def test_a_length_that_lies_or_says_nothing_is_not_believed(length):
    """Only the bytes that arrive count, whatever small length was announced."""
    assert Payload((("a", 1),)) == read(b'{"a":1}', limit=7, content_length=length)
    refused = refusal(BodyTooLarge, read, b'{"a":1}', limit=6, content_length=length)
    assert "request_too_large" == refused
