"""Describes response headers: what each says, and the pattern of its values."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.errors import RETRY_AFTER_SECONDS
from gateway.routing.request import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVED: Final = (
    "x-turnout-task",
    "x-turnout-pool",
    "x-turnout-worker",
    "x-turnout-seed",
    "x-turnout-attempts",
    "x-turnout-queue-seconds",
    "x-turnout-worker-seconds",
)
"""Headers that every answered picture request has; an error has them as far as it went."""

HEADERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        # name: the pattern of its values, and what it says
        "x-request-id": (
            r"^[A-Za-z0-9._-]{1,128}$",
            "The caller's id where it can be one, else one of ours.",
        ),
        "x-turnout-task": (
            rf"^({'|'.join(task.value for task in Task)})$",
            "What was asked for: t2i without input pictures, i2i with them.",
        ),
        "x-turnout-pool": (r"^[a-z][a-z0-9_]*$", "The pool that served."),
        "x-turnout-worker": (
            r"^[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*$",
            "The workers that served, one name per picture.",
        ),
        "x-turnout-seed": (r"^[0-9]{1,10}$", "The seed of the first picture."),
        "x-turnout-attempts": (r"^[0-9]+$", "Attempts on workers, all pictures together."),
        "x-turnout-queue-seconds": (r"^[0-9]+\.[0-9]{3}$", "The longest time in line."),
        "x-turnout-worker-seconds": (r"^[0-9]+\.[0-9]{3}$", "The longest time at workers."),
        "x-turnout-ignored": (r"^[ -~]+$", "Fields that were ignored."),
        "x-turnout-warning": (r"^[ -~]+$", "What was done to an input picture."),
        "retry-after": (r"^[0-9]{1,3}$", f"Seconds to wait, up to {RETRY_AFTER_SECONDS[-1]}."),
        "x-should-retry": (r"^false$", "The work may have run, and a repeat would pay for it."),
        "cache-control": (
            r"^private, max-age=[0-9]+, immutable$",
            "For how long the link still holds, in seconds.",
        ),
        "x-content-type-options": (r"^nosniff$", "The type is what the header says."),
    }
)

DEADLINE: Final = "x-turnout-deadline-seconds"
DEADLINE_PATTERN: Final = r"^[0-9]{0,6}[1-9](\.[0-9]{1,6})?$"
TOKEN: Final = r"^[!-~]{1,128}$"
MAYBE: Final = ("x-turnout-ignored", "x-turnout-warning")


def headers(*required: str, maybe: tuple[str, ...] = ()) -> dict[str, Any]:
    """Describes the headers of a response: the request id, those required, and those possible."""
    sure = {name: _header(name) | {"required": True} for name in ("x-request-id", *required)}
    return sure | {name: {"$ref": f"#/components/headers/{name}"} for name in maybe}


def request_headers() -> list[dict[str, Any]]:
    """Describes the headers that a picture request may bring along."""
    passed = dict.fromkeys(
        ("x-request-id", "traceparent", "tracestate"), "Passed on to the workers."
    )
    limit = {DEADLINE: "Seconds in which the answer is wanted, if fewer than the pool's deadline."}
    return [
        {
            "name": name,
            "in": "header",
            "description": text,
            "schema": {
                "type": "string",
                "pattern": DEADLINE_PATTERN if name == DEADLINE else TOKEN,
            },
        }
        for name, text in (passed | limit).items()
    ]


def possible_headers() -> dict[str, Any]:
    """Describes the headers that a picture request may have, for `headers` to point to."""
    return {name: _header(name) for name in (*SERVED, *MAYBE)}


def _header(name: str) -> dict[str, Any]:
    pattern, text = HEADERS[name]
    return {"description": text, "schema": {"type": "string", "pattern": pattern}}
