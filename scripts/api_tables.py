"""Writes the tables of docs/api.md from the code, so that the page cannot drift from it.

.venv/bin/python scripts/api_tables.py
"""

from __future__ import annotations

import re
from pathlib import Path

from gateway.errors import LEAVES
from gateway.routing.fields import ACCEPTED, QUALITY_STEPS, REFUSED
from gateway.routing.places import EMPTY_VALUES, IMAGE_FIELDS, LABELS, MAX_NESTING, NESTED_KEYS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"


def code(words: object) -> str:
    """Renders words as code, comma-joined."""
    return ", ".join(f"`{word}`" for word in words)  # type: ignore[attr-defined]


def places() -> str:
    """Renders where an input image may stand, and what is none."""
    rows = [
        ("top-level fields, JSON and forms", code(IMAGE_FIELDS)),
        ("the same with brackets", "`image[]`, `image[0]`, `image[1]`, …"),
        ("chat messages", "the parts of every message's `content`"),
        ("Hugging Face's body", "`inputs`, where the parameters have a `prompt`"),
        ("inside an object, in this order", f"{code(NESTED_KEYS)}; {code(LABELS)} only describe"),
        ("inside lists and objects", f"at most {MAX_NESTING} deep, in order of appearance"),
        ("means no image", "; ".join(f"`{v}`" if v[0] in 'n"[{' else v for v in EMPTY_VALUES)),
    ]
    return table(("Place", "What"), rows)


def errors() -> str:
    """Renders every error code with its status and type."""
    rows = [
        (str(leaf.status), f"`{leaf.type}`", code(leaf.codes))
        for leaf in sorted(LEAVES, key=lambda leaf: leaf.status)
    ]
    return table(("Status", "`type`", "Codes"), rows)


def quality() -> str:
    """Renders what the words for quality mean."""
    return table(("`quality`", "Steps"), [(f"`{w}`", str(n)) for w, n in QUALITY_STEPS.items()])


def refused() -> str:
    """Renders the fields that are refused by name, and those that change nothing."""
    rows = [(f"`{name}`", f"refused: {reason}") for name, reason in REFUSED.items()]
    return table(("Field", "Why"), [*rows, (code(sorted(ACCEPTED)), "accepted; change nothing")])


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Renders a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page(text: str) -> str:
    """Returns the page with every table between its marks made anew."""
    made = {each.__name__: each for each in (places, errors, quality, refused)}
    return re.sub(
        r"(<!-- made by scripts/api_tables.py: (\w+) -->\n).*?(\n<!-- end -->)",
        lambda found: found[1] + made[found[2]]() + found[3],
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
