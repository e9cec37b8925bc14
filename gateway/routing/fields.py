"""The request's scalar fields as a table: how each is read, and which are refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


def shown(name: str) -> str:
    """Cuts a name that the caller made up to a length that fits a message and a header."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in name[:64])


@dataclass(frozen=True, slots=True)
class Text:
    """Reads a text."""

    code: str = "invalid_value"

    def read(self, name: str, value: Any, *, is_form: bool) -> str:
        """Returns the text. Raises InvalidRequest."""
        if not isinstance(value, str):
            raise InvalidRequest(f"'{name}' has to be a text", code=self.code, param=name)
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """Reads true or false; forms write them as words."""

    def read(self, name: str, value: Any, *, is_form: bool) -> bool:
        """Returns the flag. Raises InvalidRequest."""
        if is_form and isinstance(value, str):
            value = {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
        if not isinstance(value, bool):
            raise InvalidRequest(f"'{name}' has to be true or false", param=name)
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """Reads a number within its limits, whole or not; `2.0` is whole too."""

    low: int
    high: int
    whole: bool = True
    code: str = "invalid_value"

    def read(self, name: str, value: Any, *, is_form: bool) -> int | float:
        """Returns the number. Raises InvalidRequest."""
        if is_form and isinstance(value, str):
            value = _from_text(value, whole=self.whole)
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        usable = usable and self.low <= value <= self.high
        if not usable or (self.whole and value != int(value)):
            kind = "whole number" if self.whole else "number"
            message = f"'{name}' has to be a {kind} from {self.low} to {self.high}"
            raise InvalidRequest(message, code=self.code, param=name)
        return int(value) if self.whole else float(value)


def _from_text(text: str, *, whole: bool) -> int | float | None:
    text = text.strip()
    if not text.isascii() or len(text) > 32 or "_" in text:
        return None
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Choice:
    """Reads one of a few words; `also` are other spellings, `refused` words that we know."""

    allowed: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()

    def read(self, name: str, value: Any, *, is_form: bool) -> str:
        """Returns the word. Raises InvalidRequest."""
        chosen = value.strip().lower() if isinstance(value, str) else ""
        chosen = dict(self.also).get(chosen, chosen)
        if chosen in self.refused:
            raise InvalidRequest(
                f"'{name}': '{chosen}' is not supported by GLM-Image; leave it out",
                code="unsupported_parameter",
                param=name,
            )
        if chosen not in self.allowed:
            options = " or ".join(f"'{option}'" for option in self.allowed)
            raise InvalidRequest(f"'{name}' has to be {options}", param=name)
        return chosen


Parser = Text | Flag | Number | Choice

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
        "prompt": Text(),
        "negative_prompt": Text(),
        "model": Text(),
        "size": Text("invalid_size"),
        "width": Number(1, 2**31 - 1, code="invalid_size"),
        "height": Number(1, 2**31 - 1, code="invalid_size"),
        "n": Number(1, 10),
        "seed": Number(0, 2**32 - 1),
        "num_inference_steps": Number(1, 200),
        "guidance_scale": Number(0, 20, whole=False),
        "output_format": Choice(("png", "jpeg", "webp"), also=(("jpg", "jpeg"),)),
        "output_compression": Number(0, 100),
        "response_format": Choice(("b64_json", "url")),
        "quality": Choice(("auto", *QUALITY_STEPS)),
        "background": Choice(("auto", "opaque"), refused=("transparent",)),
        "partial_images": Number(0, 3),
        "stream": Flag(),
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
