"""What a picture request is between its steps: understood, then served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.routing.request import ImageRequest
    from gateway.transport.errand import Errand
    from gateway.transport.upstream import Answer


@dataclass(frozen=True, slots=True)
class Prepared:
    """Is a request that was understood: what is asked for, and an errand per picture."""

    request: ImageRequest
    errands: tuple[Errand, ...]
    as_picture: bool


@dataclass(frozen=True, slots=True)
class Produced:
    """Is a served request: what was asked for in canonical form, and an answer per picture."""

    request: ImageRequest
    answers: tuple[Answer, ...]
    as_picture: bool
    """Whether the caller accepts the picture itself rather than JSON."""
