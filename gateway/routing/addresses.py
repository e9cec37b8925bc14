"""Decides which image URLs may be fetched, and which addresses may be dialled for them.

The table is our own: what `ipaddress` calls global changes with the Python version, and takes
some ways into private networks for public ones. Knows no sockets, and resolves no names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_URL_LETTERS: Final = 8192
WEB_PORTS: Final = (80, 443)
ANY_PUBLIC_HOST: Final = "*"

_DENIED_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; Linux dials itself at 0.0.0.0
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier NAT; holds one cloud's metadata at 100.100.100.200
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # the host of a virtual machine at Azure, seen only from inside
            "169.254.0.0/16",  # link-local; holds most clouds' metadata
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; holds one cloud's metadata
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT relays
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_GIVEN_OUT_V6, _NAT64 = tuple(
    map(
        IPv6Network,
        (
            # All that is given out to the public. Outside lie ::/8 with loopback, IPv4-compatible
            # and local NAT64 (64:ff9b:1::/48), discard-only 100::/64, segment routing 5f00::/16,
            # unique local fc00::/7, link-local fe80::/10, site-local fec0::/10, multicast ff00::/8.
            "2000::/3",
            "64:ff9b::/96",
        ),
    )
)
_DENIED_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4 carries any IPv4 address inside
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)

# What a browser would read or decode in an authority is refused rather than read: `%2e`, `@`, `\`.
_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@%\s\\]+))(?::([0-9]{0,5}))?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_NAME: Final = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Tells whether an address is a public host's; IPv4 inside IPv6 is judged as IPv4."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _DENIED_V4)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:  # on a network with IPv6 only, all of IPv4 is seen here
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GIVEN_OUT_V6 and not any(address in network for network in _DENIED_V6)


@dataclass(frozen=True, slots=True)
class Target:
    """Is a URL read strictly: `host` is an ASCII name or a literal address in canonical form."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query, percent-encoded as the caller wrote them."""
    literal: IPv4Address | IPv6Address | None = None

    @property
    def authority(self) -> str:
        """Returns host and port as `host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Returns the URL anew from its parts, so that no other reading of it matters."""
        return f"{self.scheme}://{self.authority}{self.path}"


def target_of(url: str, base: str = "") -> Target | None:
    """Reads a URL, or a redirect's from `base` on; None where it is nothing that may be asked."""
    url = url.strip()
    if len(url) > MAX_URL_LETTERS or _CONTROL.search(url):
        return None
    try:
        parts = urlsplit(urljoin(base, url))
        host = _host(parts.netloc)
        if parts.scheme not in ("http", "https") or host is None:
            return None
        name, port, literal = host
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~?[]|")
    except ValueError:  # brackets, letters of no host name, half a surrogate pair
        return None
    default = 443 if parts.scheme == "https" else 80
    port = default if port is None else port
    return Target(parts.scheme, name, port, f"{path}?{query}" if query else path, literal)


def _host(authority: str) -> tuple[str, int | None, IPv4Address | IPv6Address | None] | None:
    """Reads host, port and literal address; raises ValueError or returns None for any trick."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    port = int(match[3]) if match[3] else None
    if match[1]:
        address = IPv6Address(match[1])
        return str(address), port, address
    # Full-width digits and dots become plain here, so the number test comes after it.
    name = match[2][:256].encode("idna").decode("ascii").lower().removesuffix(".")
    if not _NAME.fullmatch(name) or len(name) > 253:
        return None
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        # Decimal, octal, hex and short forms are refused: only four plain numbers are an address.
        literal = IPv4Address(name)
        return str(literal), port, literal
    return name, port, None


class HostRule:
    """Is the operator's list of hosts, and the rule for all others.

    A listed host may be private, `host:port` also opens that port. With a list, other hosts are
    refused unless it holds `*`; without one, any public host may be asked.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        entries = frozenset(entries)
        self._is_open = not entries or ANY_PUBLIC_HOST in entries
        self._listed = frozenset(map(_listed, entries - {ANY_PUBLIC_HOST}))

    def is_listed(self, target: Target) -> bool:
        """Tells whether the operator vouches for this host at this port."""
        named = (target.host, target.port) in self._listed
        return named or (target.port in WEB_PORTS and (target.host, None) in self._listed)

    def may_ask(self, target: Target) -> bool:
        """Tells whether a target's addresses may be looked up at all."""
        return self.is_listed(target) or (self._is_open and target.port in WEB_PORTS)

    def may_dial(self, target: Target, addresses: Iterable[IPv4Address | IPv6Address]) -> bool:
        """Tells whether a target may be dialled at its addresses, of which all count."""
        return self.is_listed(target) or all(map(is_public, addresses))


def _listed(entry: str) -> tuple[str, int | None]:
    try:
        host = _host(entry.strip())
    except ValueError:
        host = None
    if host is None or host[1] not in (None, *range(1, 65536)):
        raise ValueError(f"{entry!r} is no host, host:port, [IPv6] or [IPv6]:port")
    return host[:2]
