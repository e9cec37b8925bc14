"""TLS to an image URL's host: the judged address is dialled, the name in the URL is checked."""

from __future__ import annotations

import ssl
import subprocess

import pytest

from gateway.transport.fetch import Fetcher
from tests.transport.test_fetch import OK, PICTURE, Names, refusal, site

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Makes a certificate for `img.test` and its key, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=img.test"
    extra = ["-addext", "subjectAltName=DNS:img.test", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command.split(), *extra], cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


async def test_tls_is_checked_for_the_name_though_an_address_is_dialled(certificate):
    """SNI, certificate check and Host use the URL's name; a wrong name or issuer fails (B43)."""
    names = Names(img_test=[["127.0.0.1"]] * 2, other_test=[["127.0.0.1"]])
    asked = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)
    server.sni_callback = lambda _, name, __: asked.append(name)
    trusting = ssl.create_default_context(cafile=certificate[0])
    async with site(OK, tls=server) as (port, heads):
        hosts = [f"img.test:{port}", f"other.test:{port}"]
        fetcher = Fetcher(hosts, resolve=names, tls=trusting)
        assert PICTURE == await fetcher.get(f"https://IMG.test.:{port}/x.png", "image_url")
        error = await refusal(fetcher, f"https://other.test:{port}/x.png")
        assert "image_url_fetch_failed" == error.code
        strict = await refusal(Fetcher(hosts, resolve=names), f"https://img.test:{port}/x.png")
        assert "image_url_fetch_failed" == strict.code
    assert ["img.test", "other.test", "img.test"] == asked
    assert 1 == len(heads)
    assert f"Host: img.test:{port}\r\n" in heads[0]
