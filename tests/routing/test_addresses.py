"""The deny table and the strict reading of URLs, against the corpus of 33 addresses (B43)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.addresses import HostRule, Target, is_public, target_of

CORPUS_TEXT = """
    0.0.0.0 127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1
    100.100.100.200 192.0.0.1 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
    240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1
    64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fec0::1
    ff02::1
"""
CORPUS = tuple(CORPUS_TEXT.split())
MORE_TEXT = """
    0.255.255.255 10.255.255.255 172.31.255.255 192.168.255.255 100.127.255.255 168.63.129.16
    192.0.0.192 198.19.255.255 239.255.255.255 ::127.0.0.1 ::ffff:10.0.0.5 ::ffff:0:127.0.0.1
    64:ff9b::a9fe:a9fe 2001:0:7f00:1::1 2001:1ff::1 2002:a9fe:a9fe:: 3fff::1 5f00::1 4000::1
    fe80::1%eth0 febf::1 fdff::1
"""
PUBLIC_TEXT = """
    8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0
    192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111
    2001:4860:4860::8888 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::808:808
"""


def test_the_corpus_is_whole():
    """The corpus holds 33 addresses, each once (B43)."""
    assert 33 == len(set(CORPUS)) == len(CORPUS)


@pytest.mark.parametrize("address", [*CORPUS, *MORE_TEXT.split()])
def test_no_address_of_the_corpus_is_public(address):
    """Private, shared, special and relayed addresses are denied, whatever Python says (B43)."""
    assert is_public(ip_address(address)) is False


@pytest.mark.parametrize("address", PUBLIC_TEXT.split())
def test_a_public_address_is_public(address):
    """Neighbours of denied networks, and public IPv4 inside IPv6, are let through."""
    assert is_public(ip_address(address)) is True


@given(st.integers(0, 2**32 - 1))
def test_ipv4_inside_ipv6_is_judged_as_itself(number):
    """A mapped or NAT64 address is exactly as public as the IPv4 address in it (B43)."""
    plain = is_public(IPv4Address(number))
    assert plain == is_public(IPv6Address(0xFFFF << 32 | number))
    assert plain == is_public(IPv6Address((0x64FF9B << 96) | number))


@given(st.integers(0, 2**32 - 1))
def test_what_the_library_knows_to_be_private_is_denied(number):
    """Our table denies at least what the standard library calls private (B43)."""
    address = IPv4Address(number)
    assert not (is_public(address) and not address.is_global)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://Example.COM", Target("http", "example.com", 80, "/")),
        ("HTTPS://example.com./a", Target("https", "example.com", 443, "/a")),
        (" http://example.com:/a#part ", Target("http", "example.com", 80, "/a")),
        ("http://example.com?q=1", Target("http", "example.com", 80, "/?q=1")),
        ("https://a.b:8443/%2F+x%zz", Target("https", "a.b", 8443, "/%2F+x%zz")),
        ("http://a.b/ö d?s=%2B/+&ü=|", Target("http", "a.b", 80, "/%C3%B6%20d?s=%2B/+&%C3%BC=|")),
        ("http://bücher.example/", Target("http", "xn--bcher-kva.example", 80, "/")),
        ("http://8.8.8.8/", Target("http", "8.8.8.8", 80, "/", IPv4Address("8.8.8.8"))),
        ("http://[2A00::0:1]/", Target("http", "2a00::1", 80, "/", IPv6Address("2a00::1"))),
    ],
)
def test_a_url_is_read_into_its_parts(url, expected):
    """Host and scheme become canonical, path and query stay as the caller wrote them."""
    assert expected == target_of(url)


def test_a_target_is_written_anew():
    """The URL that is asked is built from the judged parts, with port and brackets."""
    target = target_of("http://[2a00::1]/a?b")
    assert target is not None
    assert "http://[2a00::1]:80/a?b" == target.url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x.png",
        "/x.png",
        "//example.com/x.png",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:image/png;base64,AAAA",
        "http:///x",
        "http://.",
        "http://a..b/",
        "http://user@example.com/",
        "http://user:word@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1\\@example.com/",
        "http://example.com\\.evil/",
        "http://exa mple.com/",
        "http://exam\tple.com/",
        "http://example.com/\r\nHost: x",
        "http://127%2e0.0.1/",
        "http://[127.0.0.1]/",
        "http://[::1%25lo]/",
        "http://[::1]x/",
        "http://[v1.x]/",
        "http://[::1/",
        "http://example.com:80:80/",
        "http://example.com:8o/",
        "http://example.com:-1/",
        "http://example.com:٨٠/",
        "http://\ud800.com/",
        "http://example.com/\ud800",
        f"http://{'a' * 64}.com/",
        f"http://{'a.' * 127}com/",
        f"http://example.com/{'a' * 8192}",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://127.0.0.0x1/",
        "http://8.8.8.08/",
        "http://256.1.1.1/",
        "http://1.2.3.4.5/",
        "http://name.0x/",
        "http://１２７.1/",
    ],
)
def test_a_trick_is_no_target(url):
    """Other schemes, user names, odd numbers, escapes and control letters are refused (B43)."""
    assert target_of(url) is None


@pytest.mark.parametrize(
    "url", ["http://１２７.0.0.1/", "http://127。0。0。1/", "http://127.0.0.1./"]
)
def test_a_disguised_literal_is_judged_as_an_address(url):
    """Full-width digits, ideographic dots and a last dot do not hide an address (B43)."""
    target = target_of(url)
    assert target is not None
    assert IPv4Address("127.0.0.1") == target.literal


@given(st.text(max_size=60), st.sampled_from(["", "http://", "http://a", "https://[", "//"]))
def test_no_text_breaks_the_reading(text, start):
    """Any text is a target with a clean host, or none; nothing is raised."""
    target = target_of(start + text, "http://a.b/c")
    if target is not None:
        assert target == target_of(target.url)
        assert target.url.isascii()
        assert not set(" @\\\r\n") & set(target.authority)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("../y", "http://a.b:80/y"),
        ("?q", "http://a.b:80/x/z?q"),
        ("//c.d/y", "http://c.d:80/y"),
        ("https://c.d", "https://c.d:443/"),
    ],
)
def test_a_redirect_is_read_from_its_base(place, expected):
    """A relative place is joined to the URL that named it."""
    target = target_of(place, "http://a.b:80/x/z")
    assert target is not None
    assert expected == target.url


PRIVATE = (ip_address("10.0.0.1"),)
WORLD = (ip_address("8.8.8.8"),)


@pytest.mark.parametrize(
    ("entries", "url", "may_ask", "may_dial_private"),
    [
        ((), "http://a.b/", True, False),
        ((), "https://a.b:80/", True, False),
        ((), "http://a.b:8080/", False, False),
        ((), "http://a.b:0/", False, False),
        (("A.B.",), "http://a.b/", True, True),
        (("a.b",), "http://a.b:8080/", False, False),
        (("a.b",), "http://x.a.b/", False, False),
        (("a.b:8080",), "http://a.b:8080/", True, True),
        (("a.b:8080",), "http://a.b/", False, False),
        (("a.b:8080", "*"), "http://a.b/", True, False),
        (("a.b:8080", "*"), "http://c.d/", True, False),
        (("a.b:8080",), "http://c.d/", False, False),
        (("10.0.0.1",), "http://10.0.0.1/", True, True),
        (("[::1]:9",), "http://[0::1]:9/", True, True),
        (("[::1]",), "http://[::1]/", True, True),
    ],
)
def test_the_operator_s_list_opens_hosts_and_closes_the_rest(
    entries, url, may_ask, may_dial_private
):
    """A listed host may be private and use its port; with a list, others need `*` (B43)."""
    rule, target = HostRule(entries), target_of(url)
    assert target is not None
    assert may_ask is rule.may_ask(target)
    assert may_dial_private is rule.may_dial(target, PRIVATE)


def test_every_address_of_a_name_counts():
    """One private address among public ones is enough to refuse a name (B43)."""
    target = target_of("http://a.b/")
    assert target is not None
    assert HostRule().may_dial(target, WORLD)
    assert not HostRule().may_dial(target, WORLD + PRIVATE)


@pytest.mark.parametrize("entry", ["", "http://a.b", "a.b/x", "a.b:0", "a.b:65536", "::1", "1.2"])
def test_an_entry_that_is_no_host_is_refused(entry):
    """A list that cannot mean what it says stops the start, not a request."""
    with pytest.raises(ValueError, match="is no host"):
        HostRule([entry])
