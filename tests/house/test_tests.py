"""Tests say in one sentence which rule they prove."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.house.trees import modules, place, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def every_test() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Lists every test function and method."""
    for path in modules("tests").values():
        if path.name.startswith("test_"):
            for node in ast.walk(tree(path)):
                if isinstance(
                    node, ast.FunctionDef | ast.AsyncFunctionDef
                ) and node.name.startswith("test_"):
                    yield path, node


def test_every_test_states_its_rule():
    """Every test has a docstring, and it is a sentence."""
    wrong = [
        f"{place(path, node.lineno)} {node.name}"
        for path, node in every_test()
        if not (ast.get_docstring(node) or "").strip().endswith(".")
    ]
    assert [] == wrong, "\n".join(wrong)


def test_no_test_stands_twice_in_a_file():
    """A test's name is used once per scope, so that none hides another."""
    wrong = []
    for path in modules("tests").values():
        for scope in ast.walk(tree(path)):
            if isinstance(scope, ast.Module | ast.ClassDef):
                names = [n.name for n in scope.body if isinstance(n, ast.FunctionDef)]
                wrong += [
                    f"{place(path, 1)} {name}" for name in set(names) if names.count(name) > 1
                ]
    assert [] == wrong, "\n".join(wrong)
