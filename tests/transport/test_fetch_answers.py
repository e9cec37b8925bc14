"""What an image URL's host may answer: the caps on size, time and type, and redirects."""

from __future__ import annotations

import asyncio
import gzip
import logging
from contextlib import asynccontextmanager

import pytest

from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource
from gateway.transport.fetch import Fetcher
from tests.transport.test_fetch import OK, PICTURE, Names, refusal, site

pytestmark = pytest.mark.anyio


def answer(body=PICTURE, status="200 OK", **headers):
    """Writes an answer with its length."""
    fields = {"Content-Type": "image/png", "Content-Length": len(body)} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


@asynccontextmanager
async def opened(content, **options):
    """Offers a fetcher that may reach a site on 127.0.0.1, the site's URL, and its heads."""
    async with site(content) as (port, heads):
        yield Fetcher([f"127.0.0.1:{port}"], **options), f"http://127.0.0.1:{port}/x.png", heads


async def failure(content, **options):
    """Returns code and field of a fetch that fails, and its message."""
    async with opened(content, **options) as (fetcher, url, _):
        error = await refusal(fetcher, url)
    assert ("image_url_fetch_failed", "image_url") == (error.code, error.param)
    assert error.__cause__ is None
    assert "127.0.0.1" not in error.message
    return error.message


async def test_a_listed_loopback_host_is_fetched():
    """A host that the operator lists may be private and use its own port; bytes come whole."""
    async with opened(OK) as (fetcher, url, heads):
        assert PICTURE == await fetcher.get(url, "image_url")
    [head] = heads
    assert head.startswith("GET /x.png HTTP/1.1\r\n")
    assert "Accept-Encoding: identity\r\n" in head
    assert not {"cookie", "authorization", "referer"} & set(head.lower().replace(":", " ").split())


async def test_only_urls_are_fetched_and_the_order_stays():
    """Bytes and base64 stay as they are; a URL becomes bytes in its place (B03)."""
    async with opened(OK) as (fetcher, url, heads):
        sources = (
            ImageSource("image", b"bytes"),
            ImageSource("url", f" {url}"),
            ImageSource("image", "aGk="),
        )
        found = await fetcher.resolve(sources)
    assert [("image", b"bytes"), ("url", PICTURE), ("image", "aGk=")] == [
        (source.field, source.value) for source in found
    ]
    assert 1 == len(heads)


@pytest.mark.parametrize("kind", ["image/png", "image/x-odd; a=b", "binary/octet-stream", None])
async def test_a_picture_s_type_may_be_vague(kind):
    """Any image type, octets, and no type at all are taken; the bytes are looked at later."""
    async with opened(answer(Content_Type=kind)) as (fetcher, url, _):
        assert PICTURE == await fetcher.get(url, "image_url")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (answer(status="404 Not Found"), "answers 404"),
        (answer(status="500 Oops"), "answers 500"),
        (answer(status="204 No Content", body=b"", Content_Length=None), "answers 204"),
        (answer(status="206 Partial Content"), "answers 206"),
        (answer(status="304 Not Modified", body=b""), "answers 304"),
        (answer(status="302 Found"), "answers 302"),
        (answer(Content_Type="text/html"), "something other than a picture"),
        (answer(Content_Type="application/json"), "something other than a picture"),
        (answer(gzip.compress(PICTURE), Content_Encoding="gzip"), "compressed form"),
        (answer(Content_Length=99), "could not be fetched"),
        (answer(Content_Length="x"), "could not be fetched"),
        (answer(Content_Length=None, Transfer_Encoding="chunked"), "could not be fetched"),
        (answer(X="x" * 100_000), "could not be fetched"),
        (b"SSH-2.0-x\r\n", "could not be fetched"),
        (b"", "could not be fetched"),
    ],
)
async def test_an_answer_that_is_no_picture_fails(content, words):
    """Statuses, types, encodings and broken answers fail with their reason (B07)."""
    assert words in await failure(content)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 1000000000000",
        b"Connection: close",
        b"Transfer-Encoding: chunked",
    ],
)
async def test_the_size_is_capped(head):
    """An answer over the cap fails, by the length that it says or while it streams (B07)."""
    body = b"1388\r\n" + b"x" * 5000 + b"\r\n" if b"chunked" in head else b"x" * 5000
    content = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n" + head + b"\r\n\r\n" + body
    assert "holds more than 4999 bytes" in await failure(content, max_bytes=4999)


async def test_a_picture_of_just_the_cap_is_taken():
    """The cap itself is still allowed."""
    async with opened(OK, max_bytes=len(PICTURE)) as (fetcher, url, _):
        assert PICTURE == await fetcher.get(url, "image_url")


async def test_an_endless_body_is_not_read_to_its_end():
    """A host that never stops sending is left as soon as the cap is passed (B07)."""
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                sent += 65536
                await writer.drain()
        except ConnectionError:
            writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        fetcher = Fetcher([f"127.0.0.1:{port}"], max_bytes=1_000_000)
        error = await refusal(fetcher, f"http://127.0.0.1:{port}/")
    assert "holds more than 1000000 bytes" in error.message
    assert sent < 50_000_000


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n"])
async def test_a_slow_drip_is_cut(start):
    """One clock runs around the whole fetch, however steadily the bytes drip in (B07)."""
    ended = asyncio.Event()

    async def drip(reader, writer):
        writer.write(start or b"HTTP/1.1 200 ")
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            writer.close()
            ended.set()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        fetcher = Fetcher([f"127.0.0.1:{port}"], total_seconds=0.3)
        async with asyncio.timeout(8):  # below the default, so that the option counts
            error = await refusal(fetcher, f"http://127.0.0.1:{port}/")
        assert "did not answer in time" in error.message
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_slow_lookup_is_cut():
    """The clock runs while a name is looked up as well."""

    async def never(host, port):
        await asyncio.sleep(60)
        return ["127.0.0.1"]

    async with asyncio.timeout(8):
        error = await refusal(Fetcher(resolve=never, total_seconds=0.1), "http://img.test/")
    assert ("image_url_fetch_failed", True) == (error.code, "in time" in error.message)


async def test_a_listed_name_that_is_not_known_is_told():
    """For a host that the operator lists, the caller learns that nobody knows it."""
    error = await refusal(Fetcher(["img.test"], resolve=Names()), "http://img.test/")
    assert ("image_url_fetch_failed", True) == (error.code, "not known" in error.message)


@pytest.mark.parametrize(("hops", "is_found"), [(3, True), (4, False)])
async def test_three_redirects_are_followed(hops, is_found):
    """Relative redirects are followed three times, not four (B43)."""

    def walk(head):
        step = int(head.split()[1].strip("/x.png") or 0)
        return OK if step == hops else answer(b"", "303 Other", Location=f"/{step + 1}")

    async with opened(walk) as (fetcher, url, heads):
        if is_found:
            assert PICTURE == await fetcher.get(url, "image_url")
        else:
            error = await refusal(fetcher, url)
            assert "redirects more than 3 times" in error.message
    assert 4 == len(heads)


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch):
    """Proxy variables change nothing: a proxy would look names up again, unjudged (B43)."""
    async with site(OK) as (proxy, asked), opened(OK) as (fetcher, url, heads):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        assert PICTURE == await fetcher.get(url, "image_url")
    assert (0, 1) == (len(asked), len(heads))


async def test_nothing_of_the_url_is_logged(caplog):
    """Neither success nor failure writes the URL into a log."""
    caplog.set_level(logging.DEBUG)
    async with opened(answer(status="500 Oops")) as (fetcher, url, _):
        with pytest.raises(UnusableImage):
            await fetcher.get(f"{url}?key=canary", "image_url")
        await refusal(fetcher, "http://canary.test/canary")
    assert "canary" not in caplog.text
    assert "x.png" not in caplog.text
