"""Image URLs: off by default, and fetched by the gateway through one guarded door."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.support.house import code_of
from tests.support.pictures import PNG8

pytestmark = pytest.mark.anyio

PAGES = {
    "/cat.png": (200, "image/png", PNG8),
    "/blob": (200, "application/octet-stream", PNG8),
    "/page": (200, "text/html", b"<html>"),
    "/text.png": (200, "image/png", b"no picture"),
}


class Shop:
    """Is a server of pictures that counts who comes."""

    def __init__(self):
        self.asked = []
        self.to = ""

    async def serve(self, reader, writer):
        """Answers one request."""
        line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode()
        path = line.split()[1]
        self.asked.append(path)
        status, kind, body = PAGES.get(path, (404, "text/plain", b"nothing"))
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        if path == "/away":
            head = f"HTTP/1.1 302 X\r\nlocation: {self.to}\r\ncontent-length: 0\r\n"
            body = b""
        writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()


@pytest.fixture
async def shop():
    """Offers a server of pictures on this machine, as `shop.url`."""
    shop = Shop()
    async with await asyncio.start_server(shop.serve, "127.0.0.1", 0) as server:
        shop.port = server.sockets[0].getsockname()[1]
        shop.url = f"http://127.0.0.1:{shop.port}"
        yield shop


def shapes(url):
    """Lists the places where a client may put an image URL, as (path, call, field)."""
    part = {"type": "image_url", "image_url": {"url": url}}
    message = {"role": "user", "content": [{"type": "text", "text": "p"}, part]}
    return [
        ("/generate", {"json": {"prompt": "p", "image": url}}, "image"),
        ("/generate", {"json": {"prompt": "p", "image_url": {"url": url}}}, "image_url"),
        ("/v1/images/edits", {"files": [("prompt", (None, "p")), ("url[]", (None, url))]}, "url"),
        ("/v1/chat/completions", {"json": {"messages": [message]}}, "messages"),
    ]


async def test_a_url_is_fetched_here_and_the_worker_gets_bytes(house, shop):
    """Wherever the URL stands, the worker receives the picture's bytes, and no URL (R9)."""
    fetch = {"enabled": True, "allow_hosts": [f"127.0.0.1:{shop.port}"]}
    text, image = await house.two_tracks(fetch=fetch)
    for path, call, _ in shapes(shop.url + "/cat.png"):
        assert 200 == (await house.client.post(path, **call)).status_code
    assert 200 == (await house.generate(prompt="p", image=shop.url + "/blob")).status_code
    assert (0, 5, 5) == (text.hits, image.hits, len(shop.asked))
    for request in image.requests:
        assert [PNG8] == [data for *_, data in request.files]
        assert b"127.0.0.1" not in request.body


@pytest.mark.parametrize("page", ["/404.png", "/page", "/text.png"])
async def test_what_cannot_be_loaded_is_an_error_and_no_sentence(house, shop, page):
    """A missing page, a page of HTML or a broken picture is a 400, never T2I (B07)."""
    fetch = {"enabled": True, "allow_hosts": [f"127.0.0.1:{shop.port}"]}
    text, image = await house.two_tracks(fetch=fetch)
    code = "invalid_image" if page == "/text.png" else "image_url_fetch_failed"
    for path, call, field in shapes(shop.url + page):
        assert (400, code, field) == code_of(await house.client.post(path, **call))
    assert (0, 0) == (text.hits, image.hits)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1"])
async def test_the_gateway_is_no_way_into_the_network(house, shop, host):
    """Local addresses are refused however they are written and wherever they stand (B43)."""
    text, image = await house.two_tracks(fetch={"enabled": True})
    messages = set()
    for path, call, field in shapes(f"http://{host}:{shop.port}/cat.png"):
        response = await house.client.post(path, **call)
        assert (400, "image_url_forbidden", field) == code_of(response)
        messages.add(response.json()["error"]["message"])
    assert (1, [], 0, 0) == (len(messages), shop.asked, text.hits, image.hits)


async def test_a_redirect_is_judged_again(house, shop):
    """A host that may be asked cannot send the gateway to one that may not (B43)."""
    fetch = {"enabled": True, "allow_hosts": [f"127.0.0.1:{shop.port}"]}
    text, image = await house.two_tracks(fetch=fetch)
    for target in ("http://169.254.169.254/latest/", "http://localhost:1/x.png", "file:///etc/x"):
        shop.to = target
        response = await house.generate(prompt="p", image=shop.url + "/away")
        assert (400, "image_url_forbidden", "image") == code_of(response)
    shop.to = "/cat.png"
    assert 200 == (await house.generate(prompt="p", image=shop.url + "/away")).status_code
    assert (0, 1) == (text.hits, image.hits)


async def test_urls_are_off_by_default(house, shop):
    """Without `fetch.enabled` no URL is fetched, and nobody is asked."""
    text, image = await house.two_tracks()
    for path, call, field in shapes(shop.url + "/cat.png"):
        response = await house.client.post(path, **call)
        assert (400, "image_url_forbidden", field) == code_of(response)
    assert ([], 0, 0) == (shop.asked, text.hits, image.hits)
