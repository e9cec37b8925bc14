"""Multipart forms: parts in order, files told from texts, malformed ones refused."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import GatewayError, InvalidRequest
from gateway.routing.request import Payload, Upload
from gateway.transport.intake import MAX_PARTS, FormReader, read_payload

FORM = "multipart/form-data; boundary=cut"


def part(name, data, *lines, more=""):
    """Writes one part of a form; `more` follows the name in its disposition."""
    disposition = f'Content-Disposition: form-data; name="{name}"{more}'
    head = "\r\n".join([disposition, *lines]).encode()
    return b"--cut\r\n" + head + b"\r\n\r\n" + data + b"\r\n"


def form(*parts, end=b"--cut--\r\n"):
    """Writes a form."""
    return b"".join(parts) + end


def read(body, content_type=FORM, pieces=None):
    """Reads a form that arrives in pieces."""

    async def arriving():
        for piece in [body] if pieces is None else pieces:
            yield piece

    return asyncio.run(read_payload({"content-type": content_type}, arriving(), 10_000_000))


def entries(*parts, **options):
    """Returns the entries of a form with these parts."""
    return read(form(*parts), **options).entries


def is_refused(body, content_type=FORM):
    """Tells whether a form is a 400 with the code for forms."""
    with pytest.raises(InvalidRequest) as caught:
        read(body, content_type)
    return "invalid_multipart" == caught.value.code


def test_parts_keep_their_order_and_their_names():
    """A form is read as its parts, in order, names with brackets and repeats included (B02)."""
    payload = read(
        form(
            part("image[]", b"1", more='; filename="a.png"'),
            part("prompt", "a 狐".encode()),
            part("image[]", b"2", more='; filename="b.png"'),
            part("prompt", b""),
        )
    )
    expected = (
        ("image[]", Upload(b"1", "a.png")),
        ("prompt", "a 狐"),
        ("image[]", Upload(b"2", "b.png")),
        ("prompt", ""),
    )
    assert Payload(expected, is_form=True) == payload


@pytest.mark.parametrize("data", [b"", b"\r\n", b"--cu", b"\r\n--cu", b"\0\xff" * 9])
def test_a_file_keeps_every_byte(data):
    """The bytes of a file part arrive unchanged, also those that resemble a boundary (B14)."""
    assert (("image", Upload(data, "a")),) == entries(part("image", data, more='; filename="a"'))


@pytest.mark.parametrize("size", [1_048_577, 4_000_000])
def test_a_text_part_may_be_large(size):
    """A text part above one megabyte is read whole (B09)."""
    assert (("image", "A" * size),) == entries(part("image", b"A" * size))


@pytest.mark.parametrize(
    ("more", "lines", "value"),
    [
        ("", (), "x"),
        ("", ("Content-Type: text/plain; charset=utf-8",), "x"),
        ('; filename="a.png"', (), Upload(b"x", "a.png")),
        ('; filename="blob"', ("Content-Type: application/octet-stream",), Upload(b"x", "blob")),
        ('; filename="a.png"', ("Content-Type: text/plain",), Upload(b"x", "a.png")),
        ('; filename=""', ("Content-Type: application/octet-stream",), Upload(b"x", "")),
        ("", ("Content-Type: image/png",), Upload(b"x", "")),
        ("", ("content-type: APPLICATION/OCTET-STREAM",), Upload(b"x", "")),
        ("; filename*=UTF-8''%E5%A4%A9.png", (), Upload(b"x", "?")),
    ],
)
def test_a_file_is_told_from_a_text(more, lines, value):
    """A part with a file name of any kind, or a picture's label, is a file (B11, B41)."""
    assert (("image", value),) == entries(part("image", b"x", *lines, more=more))


def test_no_file_chosen_is_a_blank_upload():
    """The part that a browser sends for no file chosen is blank (B05)."""
    [(_, upload)] = entries(
        part("image", b"", "Content-Type: application/octet-stream", more='; filename=""')
    )
    assert upload.is_blank


@pytest.mark.parametrize(
    "filename",
    [
        "天狗 🚀.png",
        "../../../tmp/pwn.png",
        "a" * 300,
        '\\"quoted\\" \\\\ back',
        "C:\\x\\a.png",
        "\0",
    ],
)
def test_a_foreign_file_name_is_a_claim_only(filename):
    """A part with any file name is a file with its own bytes (B41)."""
    body = part("image", b"x", more=f'; filename="{filename}"')
    [(name, upload)] = entries(body)
    assert ("image", b"x") == (name, upload.data)


def test_a_file_name_cannot_add_a_header():
    """A line break inside a file name never turns its rest into a value of ours (B41)."""
    body = part("image", b"x", more='; filename="a.png\r\nX-Evil: 1"')
    try:
        assert (("image", Upload(b"x", '"a.png')),) == read(form(body)).entries
    except GatewayError as error:
        assert 400 == error.status  # noqa: PT017 - read as a file or refused, both are right


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"junk",
        form(end=b"--cut"),
        form(part("a", b"1"), end=b""),
        form(part("a", b"1"), end=b"--cu"),
        form(part("a", b"1"), end=b"--cut-"),
        form(part("a", b"1"))[:-10],
        b"--other\r\n",
        b"--cut\r\n\r\n1\r\n--cut--\r\n",
        b"--cut\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--cut--\r\n",
        b"--cut\r\nContent-Disposition: form-data\r\n\r\n1\r\n--cut--\r\n",
        b"--cut\r\nContent Disposition: form-data; name=a\r\n\r\n1\r\n--cut--\r\n",
        b"--cut\r\nno colon\r\n\r\n1\r\n--cut--\r\n",
        form(part("a", b"1", *(f"X-{n}: {n}" for n in range(100)))),
        form(part("a", b"1", "X-Long: " + "x" * 100_000)),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_malformed_form_is_refused(body):
    """A form that is cut off, has odd headers or parts without a name is a 400 (R5)."""
    assert is_refused(body)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/form-data; boundary=" + "x" * 1000,
        "multipart/form-data; charset=utf-8",
    ],
)
def test_a_form_needs_a_usable_boundary(content_type):
    """A form whose boundary is missing or absurd is a 400 (R5)."""
    assert is_refused(form(part("a", b"1")), content_type)


@pytest.mark.parametrize("data", [b"\xff", b"\xe9t\xe9", b"\xed\xa0\x80"])
def test_texts_are_utf8(data):
    """A text part, or a name, that is no UTF-8 is a 400, never guessed at."""
    assert is_refused(form(part("prompt", data)))
    assert is_refused(form(part("NAME", b"x").replace(b"NAME", data)))


@pytest.mark.parametrize(("count", "is_read"), [(MAX_PARTS, True), (MAX_PARTS + 1, False)])
def test_a_form_has_a_limit_of_parts(count, is_read):
    """A form with more parts than the limit is a 400."""
    body = form(*(part(f"f{number}", b"1") for number in range(count)))
    if is_read:
        assert count == len(read(body).entries)
    else:
        assert is_refused(body)


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b"-" * 1_000_000), (b"\r\n" * 2_500_000, b""), (b"", b"\r\n" * 9)]
)
def test_junk_around_a_form_costs_little(before, after):
    """Megabytes before the first or after the last boundary are passed over quickly (B34)."""
    body = before + form(part("prompt", b"p")) + after
    began = time.process_time()
    try:
        assert (("prompt", "p"),) == read(body).entries
    except GatewayError as error:
        assert 400 == error.status  # noqa: PT017 - read or refused, both are right
    assert 2 > time.process_time() - began


SMALL = form(
    part("image[]", b"\r\n--cu\r\n\xff", "Content-Type: image/png", more='; filename="a.png"'),
    part("prompt", "a 狐".encode()),
    part("seed", b"7"),
)


@pytest.mark.parametrize("at", range(len(SMALL) + 1))
def test_a_form_may_be_cut_at_any_byte(at):
    """A form that arrives in two pieces is the same form, wherever it was cut."""
    reader = FormReader(b"cut")
    reader.write(SMALL[:at])
    reader.write(SMALL[at:])
    assert read(SMALL) == reader.finish()


@settings(deadline=None)
@given(st.lists(st.integers(0, len(SMALL)), max_size=12))
def test_a_form_is_the_same_however_it_is_cut(cuts):
    """A form that arrives in any pieces, empty ones included, is the same form."""
    bounds = [0, *sorted(cuts), len(SMALL)]
    pieces = [SMALL[a:b] for a, b in itertools.pairwise(bounds)]
    assert read(SMALL) == read(None, pieces=pieces)


def test_a_form_may_arrive_byte_by_byte():
    """A form that arrives in single bytes is the same form."""
    assert read(SMALL) == read(None, pieces=[SMALL[at : at + 1] for at in range(len(SMALL))])


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_the_form_reader_fail(data):
    """Whatever the bytes, they are a form or a 400."""
    reader = FormReader(b"cut")
    try:
        reader.write(b"--cut\r\n" + data)
        reader.finish()
    except InvalidRequest as error:
        assert "invalid_multipart" == error.code  # noqa: PT017 - both ends are right
