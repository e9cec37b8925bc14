"""Modules stay small, and a package's face says what it offers."""

from __future__ import annotations

import ast
import importlib

import pytest

from tests.house.trees import PACKAGES, ROOT, modules, tree

MAX_LINES = 250


def test_no_module_is_longer_than_250_lines():
    """Every module of gateway, workers and tests is read without scrolling for long."""
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules("gateway", "workers", "tests").values()
    }
    assert {} == {name: lines for name, lines in sizes.items() if lines > MAX_LINES}


def bound_names(package: str) -> set[str]:
    """Lists the names that a package's `__init__` binds for others."""
    names: set[str] = set()
    for node in tree(ROOT / package / "__init__.py").body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")} | (names & {"__version__"})


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_are_the_names_that_exist(package):
    """`__all__` lists exactly the names that the package's `__init__` binds."""
    listed = importlib.import_module(package).__all__
    assert bound_names(package) == set(listed)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package):
    """Every name in `__all__` is there when asked for."""
    module = importlib.import_module(package)
    assert [] == [name for name in module.__all__ if not hasattr(module, name)]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_are_sorted(package):
    """`__all__` lists classes, then the rest, each in order, as the linter sorts it."""
    listed = importlib.import_module(package).__all__
    assert sorted(listed, key=lambda name: (not name[0].isupper(), name)) == list(listed)
