"""Reads the syntax trees of the packages, for the tests that hold the house to its rules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gateway", "workers")


class Import(NamedTuple):
    """Is one import statement: who imports what, and when it runs."""

    module: str
    target: str
    line: int
    at: str
    """`load` while the module loads, `types` for checkers only, `call` inside a function."""


@cache
def modules(*packages: str) -> dict[str, Path]:
    """Lists every module of the packages by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in packages or PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "node_modules" not in path.parts
    }


@cache
def tree(path: Path) -> ast.Module:
    """Parses one file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def place(path: Path, line: int) -> str:
    """Names a line of a file as `gateway/app.py:12`."""
    return f"{path.relative_to(ROOT)}:{line}"


def imports(module: str, path: Path) -> list[Import]:
    """Lists every import of a module, those inside functions too."""
    return list(_imports(module, path.name == "__init__.py", tree(path), "load"))


def _imports(module: str, is_package: bool, node: ast.AST, at: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(module, alias.name, child.lineno, at)
        elif isinstance(child, ast.ImportFrom):
            base = _base(module, is_package, child)
            for alias in child.names:
                yield Import(module, f"{base}.{alias.name}", child.lineno, at)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for part in child.body:
                yield from _imports(module, is_package, ast.Module([part], []), "types")
            for part in child.orelse:
                yield from _imports(module, is_package, ast.Module([part], []), at)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(module, is_package, child, "call")
        else:
            yield from _imports(module, is_package, child, at)


def _base(module: str, is_package: bool, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def words() -> set[str]:
    """Lists every identifier that the packages define or use."""
    found: set[str] = set()
    for path in modules().values():
        for node in ast.walk(tree(path)):
            for attribute in ("id", "attr", "name", "arg", "asname"):
                value = getattr(node, attribute, None)
                if isinstance(value, str):
                    found |= set(value.split("."))
    return found


def texts(package: str, without: tuple[str, ...] = ()) -> set[str]:
    """Lists every string constant of a package."""
    return {
        node.value
        for name, path in modules(package).items()
        if name not in without
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
