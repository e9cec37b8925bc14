"""Decides whether a link to a kept picture is one that we handed out and that still holds.

Knows neither where pictures are kept nor what the time is.
"""

from __future__ import annotations

import base64
import hmac
import re
from typing import Final

LAST_EXPIRY: Final = 10**12 - 1
"""Unix seconds; the year 33658 will do."""
_NAME: Final = re.compile(r"[0-9a-f]{32}\.(?:png|jpeg|webp)")
_EXPIRY: Final = re.compile(r"[1-9][0-9]{0,11}")
_PURPOSE: Final = b"turnout artifact link 1"
"""Keeps a signature from meaning anything elsewhere, should the key ever serve twice."""


def is_name(name: str) -> bool:
    """Tells whether a name is one that we give: 128 random bits and a format, never a path."""
    return _NAME.fullmatch(name) is not None


def read_expiry(text: str) -> int:
    """Reads an expiry in unix seconds as we write it; anything else is 0, which never holds."""
    return int(text) if _EXPIRY.fullmatch(text) else 0


def sign(key: bytes, name: str, expires: int) -> str:
    """Signs a name together with the unix second at which its link expires."""
    content = b"\n".join((_PURPOSE, name.encode(), b"%d" % expires))
    digest = hmac.digest(key, content, "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def check(key: bytes, name: str, expires: int, signature: str, now: float) -> bool:
    """Tells whether a signature is ours and has not expired; takes anything without an error."""
    if not is_name(name) or not now < expires <= LAST_EXPIRY:
        return False
    # The texts are compared, not the bytes they stand for: base64 spells some bytes in many ways.
    signed = sign(key, name, expires).encode()
    return hmac.compare_digest(signed, signature.encode("utf-8", "replace"))
