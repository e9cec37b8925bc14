"""Links to kept pictures: ours, whole and in time, or refused; by rule, and over the route."""

from __future__ import annotations

import string
import time
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.api.artifacts import base_url, router, url_for
from gateway.errors import GatewayError, InvalidRequest, render
from gateway.routing.links import LAST_EXPIRY, check, is_name, read_expiry, sign
from gateway.transport.artifacts import ArtifactStore
from tests.support.serve import run_server

KEY = bytes(range(32))
NAME = "0123456789abcdef" * 2 + ".png"

KEYS = st.binary(min_size=32, max_size=64)
NAMES = st.from_regex(r"[0-9a-f]{32}\.(png|jpeg|webp)", fullmatch=True)
EXPIRIES = st.integers(1, LAST_EXPIRY)
ANY_TEXT = st.text(st.characters(), max_size=60)
"""Lone surrogates too: a query may hold any bytes."""


@given(KEYS, NAMES, EXPIRIES, st.floats(0, LAST_EXPIRY))
def test_a_link_of_ours_holds_until_it_expires(key, name, expires, now):
    """What was signed is admitted before its expiry, and not from then on (B28)."""
    assert (now < expires) == check(key, name, expires, sign(key, name, expires), now)


@given(KEYS, NAMES, EXPIRIES, NAMES | ANY_TEXT)
def test_a_changed_name_fails(key, name, expires, other):
    """A signature admits one name only (B28)."""
    assume(other != name)
    assert not check(key, other, expires, sign(key, name, expires), 0)


@given(KEYS, NAMES, EXPIRIES, EXPIRIES | st.integers())
def test_a_changed_expiry_fails(key, name, expires, other):
    """Nobody can prolong a link, or shorten it (B28)."""
    assume(other != expires)
    assert not check(key, name, other, sign(key, name, expires), 0)


@given(KEYS, NAMES, EXPIRIES, KEYS)
def test_another_key_fails(key, name, expires, other):
    """A copy of the gateway with another key does not admit our links (B28)."""
    assume(other != key)
    assert not check(other, name, expires, sign(key, name, expires), 0)


@given(NAMES, EXPIRIES, ANY_TEXT)
def test_another_signature_fails(name, expires, other):
    """Any other text in the signature's place fails (B28)."""
    assume(other != sign(KEY, name, expires))
    assert not check(KEY, name, expires, other, 0)


@given(st.integers(0, 42), st.sampled_from(string.printable + "é٣\ud800"))
def test_one_changed_character_fails(position, character):
    """A signature has one spelling: another last character that means the same bits fails (B28)."""
    signature = sign(KEY, NAME, 100)
    assert 43 == len(signature)
    changed = signature[:position] + character + signature[position + 1 :]
    assert (changed == signature) == check(KEY, NAME, 100, changed, 0)
    assert not check(KEY, NAME, 100, signature + character, 0)


@pytest.mark.parametrize(
    "expires",
    [0, -1, LAST_EXPIRY + 1, 10**5000, -(10**5000)],
    ids=["zero", "negative", "late", "long", "long negative"],  # Python prints no such numbers
)
def test_an_expiry_out_of_range_fails_without_an_error(expires):
    """Numbers of any length are refused, not tripped over (B28)."""
    assert not check(KEY, NAME, expires, "x", -1.0)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "key",
        "lock",
        ".",
        "..",
        "../" + NAME,
        "/" + NAME,
        NAME + "\n",
        NAME + ".tmp",
        NAME.upper(),
        "٣" * 32 + ".png",
        NAME[1:],
        NAME.replace(".png", ".gif"),
        NAME.replace(".png", "/png"),
        NAME.replace(".png", "\0.png"),
    ],
)
def test_only_names_of_ours_are_names(name):
    """No name can be a path, or another file of the store (B28)."""
    assert is_name(NAME)
    assert not is_name(name)
    assert not check(KEY, name, 100, sign(KEY, name, 100), 0)


@pytest.mark.parametrize(
    "text",
    ["", "0", "01", "+1", "-1", " 1", "1\n", "1.0", "1e3", "0x1", "1_0", "٣", "½", "9" * 13, "nan"],
)
def test_an_expiry_has_one_spelling(text):
    """Anything but a plain number of seconds reads as an expiry that never holds (B28)."""
    assert 0 == read_expiry(text)


@given(EXPIRIES, ANY_TEXT)
def test_any_text_is_read_without_an_error(expires, text):
    """An expiry survives its text, and whatever else a query holds raises nothing (B28)."""
    assert expires == read_expiry(str(expires))
    assert 0 <= read_expiry(text) <= LAST_EXPIRY


async def answer(_, error):
    """Renders an error as the gateway does."""
    told = render(error)
    return Response(told.body, told.status, told.headers)


@asynccontextmanager
async def copies(directory, count=1, clock=time.time):
    """Serves the route from some copies of a gateway; yields (client, store) of each."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            store = ArtifactStore(directory, 10**6, 60, clock=clock)
            await store.start()
            stack.push_async_callback(store.close)
            app = FastAPI(exception_handlers={GatewayError: answer})
            app.state.runtime = SimpleNamespace(artifacts=store)
            app.include_router(router)
            url = await stack.enter_async_context(run_server(app))
            client = httpx.AsyncClient(base_url=url, trust_env=False)
            found.append((await stack.enter_async_context(client), store))
        yield found


def told(response):
    """Returns status and code of an error answer."""
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.anyio
async def test_either_copy_serves_a_link_until_it_expires(tmp_path):
    """20 GETs through two copies get the same bytes; after the stated expiry 404 (B28)."""
    moments = [1000.0]
    async with copies(tmp_path, 2, lambda: moments[-1]) as ((one, store), (two, _)):
        artifact = await store.put(b"picture", "png")
        path = url_for("", store, artifact)
        answers = [await client.get(path) for _ in range(10) for client in (one, two)]
        assert {(200, b"picture")} == {(each.status_code, each.content) for each in answers}
        moments.append(float(artifact.expires))
        assert [(404, "not_found")] * 2 == [told(await each.get(path)) for each in (one, two)]


@pytest.mark.anyio
async def test_a_picture_is_sent_with_its_headers(tmp_path):
    """Type, length and caching are told, to HEAD and with a key of the caller's too (B27)."""
    async with copies(tmp_path) as ((client, store),):
        path = url_for("", store, await store.put(b"picture", "webp"))
        for method, body in (("GET", b"picture"), ("HEAD", b"")):
            got = await client.request(method, path, headers={"authorization": "Bearer x"})
            expected = (200, "image/webp", "7", "nosniff", body)
            names = ("content-type", "content-length", "x-content-type-options")
            assert expected == (got.status_code, *map(got.headers.get, names), got.content)
            private, age, unchanging = got.headers["cache-control"].split(", ")
            assert ("private", "immutable") == (private, unchanging)
            assert 50 <= int(age.removeprefix("max-age=")) <= 61
        refused = await client.post(path)
        assert (405, 9) == (refused.status_code, len(refused.headers["allow"]))  # GET, HEAD


@pytest.mark.anyio
async def test_every_other_link_is_not_found(tmp_path):
    """Wrong, unknown, gone and missing links get one and the same answer, and no list (B28)."""
    async with copies(tmp_path) as ((client, store),):
        artifact = await store.put(b"picture", "png")
        name, expires, signature = artifact.name, artifact.expires, store.signature(artifact)
        gone = url_for("", store, await store.put(b"gone", "png"))
        (tmp_path / gone.split("/")[-1].split("?")[0]).unlink()
        queries = [
            "",
            f"?expires={expires}",
            f"?signature={signature}",
            f"?expires={expires + 1}&signature={signature}",
            f"?expires=0{expires}&signature={signature}",
            f"?expires={'9' * 5000}&signature={signature}",
            f"?expires={expires}&signature={signature[:-1]}",
            f"?expires={expires}&signature=%ff%00",
        ]
        names = ["key", "lock", "..%00", NAME, "%2e%2e"]
        paths = [gone, *(f"/artifacts/{name}{query}" for query in queries)]
        paths += [f"/artifacts/{each}?expires={expires}&signature={signature}" for each in names]
        answers = [await client.get(path) for path in paths]
        assert {(404, "not_found")} == {told(each) for each in answers}
        assert 1 == len({each.content for each in answers})
        for path in ("/artifacts", "/artifacts/", "/artifacts/../key", "/artifacts/%2e%2e%2fkey"):
            assert 404 == (await client.get(path)).status_code


def request(*hosts, scheme="http"):
    """Builds a request with these Host headers, and a proxy's claims beside them."""
    headers = [(b"x-forwarded-host", b"evil.example"), (b"x-forwarded-proto", b"https")]
    headers += [(b"host", host.encode("latin-1")) for host in hosts]
    return Request({"type": "http", "scheme": scheme, "headers": headers})


@pytest.mark.parametrize(
    "host",
    ["a.example", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "[::1]", "my_service:80", "a."],
)
def test_the_base_is_the_host_that_was_asked(host):
    """Without a public URL, links begin with the request's own scheme and host (B27)."""
    assert f"http://{host}" == base_url(request(host), None)
    assert f"https://{host}" == base_url(request(host, scheme="https"), None)
    assert "https://ui.example" == base_url(request(host), "https://ui.example/")


@pytest.mark.parametrize(
    "hosts",
    [
        (), ("",), ("a", "b"), ("a/b",), ("a b",), ("a@b",), ("a?b",), ("a#b",), ("a:b",), ("a:",),
        ("a:0",), ("a:65536",), ("a\n",), ("a:80\n",), ("é",), ("[a.example]",), ("-a",), ("a,b",),
        ("a\\b",), ("a%2fb",), ('a"b',), ("x" * 300,),
    ],
)  # fmt: skip
def test_what_is_no_host_is_not_reflected(hosts):
    """A Host header that is no host and port is refused, unless a public URL is set (B27)."""
    with pytest.raises(InvalidRequest) as caught:
        base_url(request(*hosts), None)
    assert ("invalid_value", "Host") == (caught.value.code, caught.value.param)
    assert "https://ui.example" == base_url(request(*hosts), "https://ui.example")
