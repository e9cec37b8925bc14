"""Fetches the picture behind an image URL; the only code that dials where a caller says.

A name is resolved once, all its addresses are judged by `routing.addresses`, and those very
addresses are dialled. Errors and logs tell nothing of the URL or of what lies behind it.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.errors import UnusableImage
from gateway.routing.addresses import HostRule, Target, target_of
from gateway.routing.places import is_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from gateway.routing.request import ImageSource

MAX_REDIRECTS: Final = 3
LOOKUPS: Final = 4
FORBIDDEN: Final = (
    "the image URL may not be fetched; it takes http or https on the usual port, no user name, "
    "and a host that this server is allowed to reach; or send the picture itself"
)
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_UNTYPED: Final = frozenset(("application/octet-stream", "binary/octet-stream"))
"""Types that stores give to files whose type nobody told them."""
_HEADERS: Final = (
    ("Accept", "image/png, image/jpeg, image/webp"),
    # Nothing is unpacked here, so that a small answer cannot grow past the size cap.
    ("Accept-Encoding", "identity"),
    ("User-Agent", "turnout"),
)


class _Forbidden(Exception):
    """Says that a target must not be dialled."""


class _Failed(Exception):
    """Says, after the words "the image URL", why it gave no picture."""


class Fetcher:
    """Fetches pictures, each over a connection of its own that ends with it.

    Raises ValueError for an entry of `allow_hosts` that is no host. `resolve` and `tls` stand for
    the system's own resolver and trusted certificates.
    """

    def __init__(
        self,
        allow_hosts: Iterable[str] = (),
        *,
        max_bytes: int = 20_971_520,
        total_seconds: float = 10.0,
        connect_seconds: float = 3.0,
        resolve: Callable[[str, int], Awaitable[Sequence[str]]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.rule = HostRule(allow_hosts)
        self._max_bytes = max_bytes
        self._total_seconds = total_seconds
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_seconds, sock_connect=connect_seconds
        )
        self._resolve = resolve or self._look_up
        # Of its own: a name server that is slow must not hold the threads that others work in.
        self._lookups = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="lookups")
        self._tls = tls

    async def resolve(self, sources: tuple[ImageSource, ...]) -> tuple[ImageSource, ...]:
        """Returns the input images with bytes in the place of URLs; raises UnusableImage."""
        # One after the other, so that a request holds one connection and one unfinished body.
        return tuple(
            [
                replace(source, value=await self.get(source.value, source.field))
                if isinstance(source.value, str) and is_url(source.value)
                else source
                for source in sources
            ]
        )

    def close(self) -> None:
        """Lets the lookups end; nothing can be fetched after this."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._lookups, look)
        return [str(place[0]) for *_, place in found]

    async def get(self, url: str, field: str) -> bytes:
        """Returns the bytes behind a URL that the caller wrote in a field; raises UnusableImage."""
        # The causes name hosts and addresses, so they are cut off before anybody can log them.
        try:
            # One clock around lookup, redirects and body, however slowly the bytes drip in.
            async with asyncio.timeout(self._total_seconds):
                return await self._follow(url)
        except _Forbidden:
            raise UnusableImage(FORBIDDEN, code="image_url_forbidden", param=field) from None
        except _Failed as failed:
            fault = str(failed)
        except TimeoutError:
            fault = "did not answer in time"
        except (aiohttp.ClientError, OSError):
            fault = "could not be fetched"
        raise UnusableImage(
            f"the image URL {fault}; check it, or send the picture itself",
            code="image_url_fetch_failed",
            param=field,
        ) from None

    async def _follow(self, url: str) -> bytes:
        base = ""
        for _ in range(MAX_REDIRECTS + 1):
            target = target_of(url, base)
            if target is None or not self.rule.may_ask(target):
                raise _Forbidden
            found = await self._ask(target, await self._addresses(target))
            if isinstance(found, bytes):
                return found
            url, base = found, target.url
        raise _Failed(f"redirects more than {MAX_REDIRECTS} times")

    async def _addresses(self, target: Target) -> tuple[str, ...]:
        """Returns the addresses that may be dialled for a target."""
        addresses: tuple[IPv4Address | IPv6Address, ...] = ()
        if target.literal is not None:
            addresses = (target.literal,)
        else:
            with suppress(OSError, ValueError):  # no such name, or one that DNS cannot hold
                found = await self._resolve(target.host, target.port)
                addresses = tuple(map(ip_address, found))
        if not addresses:
            if self.rule.is_listed(target):
                raise _Failed("names a host that is not known")
            # Not told apart from a private host: else a caller could list our internal names.
            raise _Forbidden
        if not self.rule.may_dial(target, addresses):
            raise _Forbidden
        return tuple(map(str, addresses))

    async def _ask(self, target: Target, addresses: tuple[str, ...]) -> bytes | str:
        """Returns the body of an answer, or the place that it redirects to."""
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(addresses),
            use_dns_cache=False,
            force_close=True,
            ssl=self._tls or True,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                timeout=self._timeout,
            ) as session,
            session.get(
                URL(target.url, encoded=True), headers=_HEADERS, allow_redirects=False
            ) as response,
        ):
            place = response.headers.get("Location")
            if response.status in _REDIRECTS and place is not None:
                return place
            return await self._read(response)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        if response.status != 200:
            raise _Failed(f"answers {response.status}")
        if not response.content_type.startswith("image/") and response.content_type not in _UNTYPED:
            raise _Failed("holds something other than a picture")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise _Failed("answers in a compressed form that was not asked for")
        chunks, total = [], response.content_length or 0
        if total <= self._max_bytes:
            total = 0
            async for chunk in response.content.iter_any():
                total += len(chunk)
                if total > self._max_bytes:
                    break
                chunks.append(chunk)
        if total > self._max_bytes:
            raise _Failed(f"holds more than {self._max_bytes} bytes")
        return b"".join(chunks)


class _Pinned(AbstractResolver):
    """Answers every lookup with the addresses that were judged."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Returns the judged addresses; the connection takes SNI and Host from the URL."""
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Holds nothing that has to be closed."""
