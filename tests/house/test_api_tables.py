"""The tables of docs/api.md are those that the code makes."""

from __future__ import annotations

from scripts.api_tables import PAGE, page


def test_the_tables_of_the_api_page_are_made_from_the_code():
    """The page is what scripts/api_tables.py writes; run it after a change of the tables."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text
    assert 4 == text.count("<!-- made by scripts/api_tables.py: ")
