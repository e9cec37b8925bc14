"""What an image URL must never reach: no address of the corpus, in any disguise (B43)."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address

import pytest

from gateway.errors import UnusableImage
from gateway.transport.fetch import FORBIDDEN, Fetcher
from tests.routing.test_addresses import CORPUS

pytestmark = pytest.mark.anyio

WORLD = "93.184.216.34"
PICTURE = b"\x89PNG and more"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 13\r\n\r\n" + PICTURE


class Watch:
    """Sees every connection that this process begins, and stops those that would leave it."""

    def __init__(self):
        self.dialled = None
        sys.addaudithook(self._see)

    def _see(self, event, arguments):
        if event == "socket.connect" and self.dialled is not None:
            host, port = arguments[1][:2]
            self.dialled.append((host, port))
            if host != "127.0.0.1":
                raise ConnectionRefusedError("a test dials nobody but 127.0.0.1")


@pytest.fixture(scope="session")
def watch():
    """Offers the one watch of this process; such a hook cannot be taken off again."""
    return Watch()


@pytest.fixture
def dialled(watch):
    """Lists what is dialled during the test."""
    watch.dialled = []
    yield watch.dialled
    watch.dialled = None


@asynccontextmanager
async def site(answer, tls=None):
    """Serves an answer, or what a function makes of the request's head; yields port and heads."""
    heads = []

    async def serve(reader, writer):
        try:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(answer(heads[-1]) if callable(answer) else answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


class Names:
    """Is a resolver that gives each lookup of a name the next of its answers, then none."""

    def __init__(self, **answers):
        self.answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append((host, port))
        if not self.answers.get(host):
            raise OSError("no such name")
        return self.answers[host].pop(0)


async def refusal(fetcher, url):
    """Returns the error of a fetch that must fail."""
    with pytest.raises(UnusableImage) as caught:
        await fetcher.get(url, "image_url")
    return caught.value


def forbidden(error):
    """Returns what every forbidden target is told, beside what this one was."""
    told = (error.code, error.param, error.message, error.__cause__, error.__suppress_context__)
    return ("image_url_forbidden", "image_url", FORBIDDEN, None, True), told


def disguises(text):
    """Lists the ways to write one address in a URL."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        forms = [f"[{text}]", f"[{text.upper()}]", f"[{address.exploded}]", f"[{text}%25lo]", text]
    else:
        a, b, c, d = address.packed
        number = int(address)
        forms = [text, f"[{text}]", str(number), f"0x{number:x}", f"0X{number:X}", f"0{number:o}"]
        forms += [f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"]
        forms += [f"{a}.{b}.{c * 256 + d}", f"{a}.{number & 0xFFFFFF}", f"{a:03}.{b}.{c}.{d}"]
        forms += [f"[::ffff:{text}]", f"[::{text}]", f"[64:ff9b::{text}]", f"{a}%2e{b}.{c}.{d}"]
        forms += [f"{text}.", f"{text}..", text.replace(".", "\u3002")]
        forms += ["".join(chr(ord(x) + 0xFEE0) if x.isdigit() else x for x in text)]
    return [*forms, *(f"user:word@{form}" for form in forms), f"{WORLD}@{forms[0]}"]


@pytest.mark.parametrize("address", CORPUS)
async def test_no_way_to_write_an_address_reaches_it(address, dialled):
    """Every disguise of every address of the corpus is forbidden without a connection (B43)."""
    names = Names()
    fetcher = Fetcher(resolve=names)
    for form in disguises(address):
        for url in (f"http://{form}/x.png", f"HTTPS://{form}:443/x.png", f"http://{form}:8080/"):
            expected, told = forbidden(await refusal(fetcher, url))
            assert expected == told, url
    assert ([], []) == (dialled, names.asked)


@pytest.mark.parametrize("address", CORPUS)
async def test_no_name_leads_to_a_denied_address(address, dialled):
    """A name with a denied address, alone or among public ones, is forbidden (B43)."""
    names = Names(img_test=[[address], [WORLD, address], [address, WORLD]])
    fetcher = Fetcher(resolve=names)
    for host in ("img.test", "IMG.test.", "img.TEST"):
        expected, told = forbidden(await refusal(fetcher, f"http://{host}/x.png"))
        assert expected == told
    assert ([], 3) == (dialled, len(names.asked))


@pytest.mark.parametrize("address", CORPUS)
async def test_no_redirect_leads_to_a_denied_address(address, dialled):
    """A listed host that redirects to an address of the corpus is followed no further (B43)."""
    host = f"[{address}]" if ":" in address else address
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://{host}/x\r\nContent-Length: 0\r\n\r\n"
    async with site(moved.encode()) as (port, heads):
        fetcher = Fetcher([f"127.0.0.1:{port}", "*"], resolve=Names())
        error = await refusal(fetcher, f"http://127.0.0.1:{port}/")
    expected, told = forbidden(error)
    assert expected == told
    assert ([("127.0.0.1", port)], 1) == (dialled, len(heads))


@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/",
        "//user@127.0.0.1:{port}/",
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://inner.test/",
        "http://world.test:8080/",
        "http://2130706433:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "\\\\127.0.0.1:{port}",
    ],
)
async def test_no_redirect_leads_to_another_scheme_port_or_name(place, dialled):
    """A redirect to a file, another port, a private name or a disguise is forbidden (B43)."""

    def moved(_):
        where = place.format(port=port)
        return f"HTTP/1.1 307 Go\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()

    names = Names(localhost=[["::1", "127.0.0.1"]], inner_test=[["10.0.0.5"]], world_test=[[WORLD]])
    async with site(moved) as (port, heads):
        fetcher = Fetcher([f"127.0.0.1:{port}", "*"], resolve=names)
        expected, told = forbidden(await refusal(fetcher, f"http://127.0.0.1:{port}/"))
    assert expected == told
    assert ([("127.0.0.1", port)], 1) == (dialled, len(heads))


async def test_the_address_that_was_judged_is_the_one_that_is_dialled(dialled):
    """A name that turns private after its first answer is asked once, dialled as judged (B43)."""
    async with site(OK) as (port, heads):
        names = Names(img_test=[[WORLD], ["127.0.0.1"]])
        error = await refusal(Fetcher(resolve=names), "http://img.test/x.png")
        assert "image_url_fetch_failed" == error.code
        assert [("img.test", 80)] == names.asked
        assert [(WORLD, 80)] == dialled
        names = Names(img_test=[["127.0.0.1"], ["127.0.0.2"]])
        fetcher = Fetcher([f"img.test:{port}"], resolve=names)
        assert PICTURE == await fetcher.get(f"http://img.test:{port}/x.png", "image_url")
    assert [("img.test", port)] == names.asked
    assert [(WORLD, 80), ("127.0.0.1", port)] == dialled
    assert f"Host: img.test:{port}\r\n" in heads[0]


async def test_every_hop_is_looked_up_and_judged_again(dialled):
    """A host that redirects to itself and turns private meanwhile is forbidden (B43)."""
    moved = b"HTTP/1.1 301 Go\r\nLocation: http://b.test/\r\nContent-Length: 0\r\n\r\n"
    async with site(moved) as (port, heads):
        names = Names(a_test=[["127.0.0.1"]], b_test=[["127.0.0.1"]])
        fetcher = Fetcher([f"a.test:{port}", "*"], resolve=names)
        expected, told = forbidden(await refusal(fetcher, f"http://a.test:{port}/"))
    assert expected == told
    assert [("a.test", port), ("b.test", 80)] == names.asked
    assert ([("127.0.0.1", port)], 1) == (dialled, len(heads))


async def test_a_name_that_is_not_known_looks_like_a_private_one(dialled):
    """A caller cannot list our internal names: unknown and private read the same (B43)."""
    fetcher = Fetcher(resolve=Names(inner_test=[["10.0.0.5"]], empty_test=[[]]))
    for host in ("inner.test", "none.test", "empty.test"):
        expected, told = forbidden(await refusal(fetcher, f"http://{host}/"))
        assert expected == told
    assert [] == dialled


async def test_the_system_s_own_names_are_judged_too(dialled):
    """With the system's resolver `localhost` is looked up and forbidden (B43)."""
    expected, told = forbidden(await refusal(Fetcher(), "http://localhost/x.png"))
    assert expected == told
    assert [] == dialled
