"""Whether external encoders answer, and how busy they are."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import httpx

ASK_SECONDS = 2.0
FRESH_SECONDS = 1.0
LOAD_SECONDS = 1.0


async def is_healthy(client: httpx.AsyncClient, url: str, seconds: float) -> bool:
    """True if the server answers `/health` with 200 in time."""
    try:
        async with asyncio.timeout(seconds):
            return (await client.get(f"{url}/health", timeout=seconds)).status_code == 200
    except (httpx.TransportError, TimeoutError):
        return False


async def load_of(client: httpx.AsyncClient, url: str) -> float:
    """Requests that run and wait there by SGLang's `/v1/loads`: 0 if it tells nothing usable,
    infinity if it does not answer."""
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            answer = await client.get(f"{url}/v1/loads", timeout=LOAD_SECONDS)
        return float(sum(_requests(load) for load in answer.json()["loads"]))
    except (httpx.TransportError, TimeoutError):
        return float("inf")
    except (ValueError, KeyError, TypeError):
        return 0.0


def _requests(load: Any) -> int:
    return int(load["num_running_reqs"]) + int(load["num_waiting_reqs"])


class EncoderHealth:
    """Asks `/health` of every encoder, at most once a second; one that answers is enough."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._asked_at = float("-inf")
        self._is_ok = False

    async def is_ok(self) -> bool:
        """True if an encoder answered within the last second, asking if need be."""
        if time.monotonic() - self._asked_at > FRESH_SECONDS:
            async with httpx.AsyncClient(trust_env=False) as client:
                asked = (is_healthy(client, url, ASK_SECONDS) for url in self._urls)
                self._is_ok = any(await asyncio.gather(*asked))
            self._asked_at = time.monotonic()
        return self._is_ok
