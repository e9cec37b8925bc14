"""Knows who asks: whoever shares a credential, or an address, is one caller."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

CREDENTIALS: Final = ("authorization", "api-key", "x-api-key")
"""Headers that may carry a credential, in the order in which they are looked at."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Is one of those who share the workers; a higher priority class goes first."""

    name: str = "nobody"
    priority: int = 0


def identify(credential: str | None, address: str) -> Caller:
    """Returns the caller of a credential, known by its hash alone; without one, of an address."""
    if credential is None:
        return Caller(f"address {address}")
    return Caller(f"key {hashlib.sha256(credential.encode()).hexdigest()[:16]}")
