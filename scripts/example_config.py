"""Writes deploy/turnout.example.toml from gateway/config.py, so that the two cannot differ.

.venv/bin/python scripts/example_config.py > deploy/turnout.example.toml
"""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any, get_args

from gateway.config import Config, Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

WIDTH = 98
HEAD = """\
# Every option of Turnout with its default; an option shown as a comment has none.
# Any of them can also come from the environment, as TURNOUT__POOLS__T2I__QUEUE_LIMIT=50.
# Made by scripts/example_config.py from gateway/config.py: change it there.
"""
NAMES = {"models": "glm-image", "pools": "t2i"}  # for the sections that the reader names
# What to show where there is no default, or where the default says too little.
EXAMPLES: dict[str, Any] = {
    "models.aliases": ["zai-org/GLM-Image"],
    "pools.tasks": ["t2i"],
    "pools.encoder_url": "http://127.0.0.1:30001",
    "pools.workers.url": "http://127.0.0.1:30010",
}


def example() -> str:
    """Renders the whole file."""
    return HEAD + "".join(f"{line}\n" for line in _options(Config, "", ""))


def _options(section: type[Section], path: str, place: str) -> Iterator[str]:
    """Renders a section's own options, then the sections inside it.

    The path is the one in EXAMPLES, the place the one in the file: it has the reader's names.
    """
    fields = section.model_fields.items()
    for name, field in fields:
        if _section_in(field.annotation) is None:
            yield from _comment(field)
            value = EXAMPLES.get(path + name, "" if field.default is None else field.default)
            has_none = field.default is None and not field.is_required()
            yield f"{'# ' if has_none else ''}{name} = {json.dumps(value, ensure_ascii=False)}"
    for name, field in fields:
        inner = _section_in(field.annotation)
        if inner is not None:
            here = place + name + (f".{NAMES[name]}" if name in NAMES else "")
            yield ""
            yield from _comment(field)
            yield f"[[{here}]]" if isinstance(field.default, tuple) else f"[{here}]"
            yield from _options(inner, f"{path}{name}.", f"{here}.")


def _comment(field: FieldInfo) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(field.description or "", WIDTH)]


def _section_in(kind: Any) -> type[Section] | None:
    """Finds the section in an annotation, be it alone or in a dict or a tuple."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, Section):
            return each
    return None


if __name__ == "__main__":
    sys.stdout.write(example())
