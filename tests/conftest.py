"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

from tests.support.house import House


@pytest.fixture
def anyio_backend():
    """Runs asynchronous tests on asyncio, as the gateway does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    """Keeps the machine's own settings out of the tests."""
    for name in ("TURNOUT_CONFIG", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def house():
    """Offers a gateway over scripted workers, both on real sockets."""
    async with House() as opened:
        yield opened
