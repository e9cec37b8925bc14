"""The request's scalar fields as a table: how each is read, and which are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gateway.errors import InvalidRequest

Parser = Callable[[str, Any, bool], Any]
"""Reads (name, value, is it form text) into a checked value or raises InvalidRequest."""


def shown(name: str) -> str:
    """Cuts a name that the caller made up to a length that fits a message and a header."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in name[:64])


def _text(code: str = "invalid_value") -> Parser:
    def parse(name: str, value: Any, is_form: bool) -> str:
        if not isinstance(value, str):
            raise InvalidRequest(f"'{name}' has to be a text", code=code, param=name)
        return value

    return parse


def _flag(name: str, value: Any, is_form: bool) -> bool:
    if is_form and isinstance(value, str):
        value = {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
    if not isinstance(value, bool):
        raise InvalidRequest(f"'{name}' has to be true or false", param=name)
    return value


def _number(low: float, high: float, *, whole: bool, code: str = "invalid_value") -> Parser:
    kind = "whole number" if whole else "number"

    def parse(name: str, value: Any, is_form: bool) -> int | float:
        if is_form and isinstance(value, str):
            value = _from_text(value, whole=whole)
        usable = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not usable or not low <= value <= high:
            message = f"'{name}' has to be a {kind} from {low} to {high}"
            raise InvalidRequest(message, code=code, param=name)
        return int(value) if whole else float(value)

    return parse


def _from_text(text: str, *, whole: bool) -> int | float | None:
    text = text.strip()
    if not text.isascii() or len(text) > 32 or "_" in text:
        return None
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return None


def _choice(
    *allowed: str, also: Mapping[str, str] = MappingProxyType({}), refused: tuple[str, ...] = ()
) -> Parser:
    def parse(name: str, value: Any, is_form: bool) -> str:
        chosen = value.strip().lower() if isinstance(value, str) else ""
        chosen = also.get(chosen, chosen)
        if chosen in refused:
            raise InvalidRequest(
                f"'{name}': '{chosen}' is not supported by GLM-Image; leave it out",
                code="unsupported_parameter",
                param=name,
            )
        if chosen not in allowed:
            options = " or ".join(f"'{option}'" for option in allowed)
            raise InvalidRequest(f"'{name}' has to be {options}", param=name)
        return chosen

    return parse


QUALITY_STEPS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "low": 15,
        "medium": 30,
        "standard": 30,
        "high": 50,
        "hd": 50,
        "xhigh": 75,
        "max": 100,
    }
)
"""What OpenAI's words for quality mean in denoising steps; a number of steps counts before them.

SGLang has a `quality` of its own that means something else, so ours never goes to a worker."""

PARSERS: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        "prompt": _text(),
        "negative_prompt": _text(),
        "model": _text(),
        "size": _text("invalid_size"),
        "width": _number(1, 2**31 - 1, whole=True, code="invalid_size"),
        "height": _number(1, 2**31 - 1, whole=True, code="invalid_size"),
        "n": _number(1, 10, whole=True),
        "seed": _number(0, 2**32 - 1, whole=True),
        "num_inference_steps": _number(1, 200, whole=True),
        "guidance_scale": _number(0, 20, whole=False),
        "output_format": _choice("png", "jpeg", "webp", also={"jpg": "jpeg"}),
        "output_compression": _number(0, 100, whole=True),
        "response_format": _choice("b64_json", "url"),
        "quality": _choice("auto", *QUALITY_STEPS),
        "background": _choice("auto", "opaque", refused=("transparent",)),
        "partial_images": _number(0, 3, whole=True),
        "stream": _flag,
    }
)

CHECKED_ONLY: Final = ("background", "partial_images")
"""Fields that are checked and then change nothing."""

ACCEPTED: Final = frozenset(
    {"user", "safety_identifier", "moderation", "style", "input_fidelity", "complexity"}
)
"""Fields of the OpenAI API that change nothing here and are no mistake to send."""

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mask": "GLM-Image cannot paint inside a mask; describe the change in the prompt",
        "markup": "GLM-Image reads no overlay; describe the change in the prompt",
        "frame_count": "GLM-Image makes single pictures; ask for several with 'n'",
        "frame_duration_ms": "GLM-Image makes single pictures; ask for several with 'n'",
        "svg": "GLM-Image paints pixels; ask for png, jpeg or webp",
    }
)
"""Fields that would be wrong to ignore, each with the way out."""
