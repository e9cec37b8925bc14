"""Whether the external encoder answers, asked at most once a second."""

import time

import httpx

ASK_SECONDS = 2.0
FRESH_SECONDS = 1.0


class EncoderHealth:
    """Asks `/health` of one encoder and remembers the answer for a moment."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/health"
        self._asked_at = float("-inf")
        self._is_ok = False

    async def is_ok(self) -> bool:
        """True if the encoder answered 200 within the last second, asking it if need be."""
        if time.monotonic() - self._asked_at > FRESH_SECONDS:
            try:
                async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
                    self._is_ok = (await client.get(self._url)).status_code == 200
            except httpx.TransportError:
                self._is_ok = False
            self._asked_at = time.monotonic()
        return self._is_ok
