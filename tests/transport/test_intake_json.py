"""JSON bodies are read strictly: one clean object, every name once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.routing.request import Payload
from gateway.transport.intake import parse_json


def is_refused(body):
    """Tells whether a body is a 400 with the code for JSON."""
    with pytest.raises(InvalidRequest) as caught:
        parse_json(body)
    return (400, "invalid_json") == (caught.value.status, caught.value.code)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("{}", ()),
        (' \r\n\t{ "b" : 1 , "a" : [ 2 ] } ', (("b", 1), ("a", [2]))),
        ('{"a": "\\ud83d\\ude80", "天": null}', (("a", "🚀"), ("天", None))),
        ('{"a": "\\"}{,\\\\", "b\\"": 1.5}', (("a", '"}{,\\'), ('b"', 1.5))),
        ('{"a": {"x": 1, "x": 2}}', (("a", {"x": 2}),)),
        ('{"": true}', (("", True),)),
    ],
)
def test_an_object_becomes_entries_in_order(text, entries):
    """A JSON object is read as its members, in order, with their own types."""
    assert Payload(entries) == parse_json(text.encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"{",
        b'{"a":1',
        b'{"a":1,}',
        b"{'a':1}",
        b"{a:1}",
        b"{} {}",
        b"{}x",
        b"\xef\xbb\xbf{}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":01}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00x"}',
        b'{"\\ud800":1}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xff"}',
        b'{"\xff":1}',
        b'{"a":"\n"}',
        b'{"a":"\\x41"}',
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-32-le"),
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_not_one_clean_object_is_refused(body):
    """Anything but one JSON object in clean UTF-8 is a 400, however deep or odd (R5)."""
    assert is_refused(body)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"a":2}',
        '{"a":1,"b":2,"a":1}',
        '{"b":0,"a":1,"a":1,"c":2}',
        '{"a":1,"\\u0061":1}',
        '{"prompt":"x","image":"y","prompt":"x"}',
        '{ "a" : {"a":1} , "a" : {"a":1} }',
        '{"":1,"":1}',
    ],
)
def test_a_name_given_twice_is_refused(text):
    """A name given twice at the top level is a 400, whatever its values and spelling."""
    assert is_refused(text.encode())


SPACE = st.text(" \t\r\n", max_size=2)
NAMES = st.one_of(st.sampled_from(["a", "b", 'a"', "é"]), st.text(max_size=4))
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**80), 2**80),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def objects(draw):
    """Writes a JSON object with odd white space and odd escapes; names may repeat."""

    def spelled(value):
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, str) and value.isalpha() and draw(st.booleans()):
            return '"' + "".join(f"\\u{ord(c):04X}" for c in value if ord(c) < 0x10000) + '"'
        return text

    members = draw(st.lists(st.tuples(NAMES, VALUES), max_size=5))
    written = [
        draw(SPACE) + spelled(name) + draw(SPACE) + ":" + draw(SPACE) + spelled(value) + draw(SPACE)
        for name, value in members
    ]
    return draw(SPACE) + "{" + (",".join(written) or draw(SPACE)) + "}" + draw(SPACE)


@settings(deadline=None, max_examples=80)
@given(objects())
def test_json_is_read_as_the_standard_library_reads_it(text):
    """A second reader agrees about every name, every value, and about names given twice."""
    members = json.loads(text, object_pairs_hook=list)
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        assert is_refused(text.encode())
    else:
        payload = parse_json(text.encode())
        assert tuple(json.loads(text).items()) == payload.entries
        assert not payload.is_form


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_no_bytes_make_the_reader_fail(data):
    """Whatever the bytes, they are a payload or a 400."""
    try:
        parse_json(data)
    except InvalidRequest as error:
        assert "invalid_json" == error.code  # noqa: PT017 - both ends are right, one has a code
