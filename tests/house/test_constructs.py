"""What nobody writes in this house: hidden state, hidden ends, hidden faults."""

from __future__ import annotations

import ast
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests.house.trees import modules, place, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVERY_MODULE = tuple(modules().values())

PRINTING = frozenset({"gateway.cli", "gateway.up", "workers.cli"})
"""A command line prints."""

BROAD = MappingProxyType(
    {
        "gateway.transport.prober": 1,  # a fault in one probe must not end the watch
        "gateway.api.middleware": 1,  # the last place where a fault can be answered
        "gateway.server": 1,  # what runs goes on, whatever a new configuration does to us
        "workers.runner": 2,  # one request's failure, and the end of the engine's thread
    }
)

UNCHANGING_CALLS = frozenset(
    {
        "MappingProxyType",
        "frozenset",
        "range",
        "tuple",
        "bytes.maketrans",
        "re.compile",
        "TypeVar",
    }
)

ALLOWED_CALLS = MappingProxyType(
    {
        "APIRouter": "filled by decorators while its module loads, then only read",
        "typer.Typer": "filled by decorators while its module loads, then only read",
        "structlog.get_logger": "a proxy that looks its logger up at each call",
    }
)


def nodes(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[str, Path, ast.AST]]:
    """Walks every node of a kind in the packages."""
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, kind):
                yield name, path, node


def test_there_is_no_global_statement():
    """No function rebinds a module's name."""
    assert [] == [place(path, node.lineno) for _, path, node in nodes(ast.Global)]


def is_unchanging(value: ast.AST | None) -> bool:
    """Tells whether a module-level value cannot be changed once it is made."""
    if isinstance(value, ast.Call):
        called = ast.unparse(value.func)
        return called in UNCHANGING_CALLS or called in ALLOWED_CALLS
    if isinstance(value, ast.Tuple):
        return all(map(is_unchanging, value.elts))
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    return not isinstance(value, (*mutable, ast.GeneratorExp))


def module_values(path: Path) -> Iterator[tuple[int, str, ast.expr | None]]:
    """Lists what a module binds while it loads, under `if` and `try` as well."""
    open_nodes: list[ast.AST] = list(tree(path).body)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Assign):
            yield node.lineno, " ".join(map(ast.unparse, node.targets)), node.value
        elif isinstance(node, ast.AnnAssign):
            yield node.lineno, ast.unparse(node.target), node.value
        elif isinstance(node, ast.AugAssign):
            yield node.lineno, ast.unparse(node.target), ast.List([])
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            open_nodes += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]


def test_no_module_holds_a_value_that_changes():
    """Live state has an owner: no module-level list, dict, set or other object that changes."""
    wrong = [
        f"{place(path, line)} {target}"
        for path in EVERY_MODULE
        for line, target, value in module_values(path)
        if target != "__all__" and not is_unchanging(value)
    ]
    assert [] == wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["BackgroundTask", "BackgroundTasks", "BaseHTTPMiddleware"])
def test_constructs_that_lose_a_disconnect_are_not_used(name):
    """Neither background tasks of a response nor the buffering middleware are used."""
    wrong = [
        place(path, node.lineno)
        for _, path, node in nodes((ast.Name, ast.Attribute, ast.ImportFrom))
        if name in (getattr(node, "id", None), getattr(node, "attr", None))
        or any(alias.name == name for alias in getattr(node, "names", ()))
    ]
    assert [] == wrong, "\n".join(wrong)


def test_only_command_lines_print():
    """Everything but a command line logs events with fields."""
    wrong = [
        place(path, node.lineno)
        for module, path, node in nodes(ast.Call)
        if ast.unparse(node.func) == "print" and module not in PRINTING
    ]
    assert [] == wrong, "\n".join(wrong)


def broad_handlers() -> Iterator[tuple[str, Path, ast.ExceptHandler]]:
    """Lists handlers that stop any exception; one that ends in a bare `raise` stops none."""
    for module, path, node in nodes(ast.ExceptHandler):
        assert isinstance(node, ast.ExceptHandler)
        caught = "BaseException" if node.type is None else ast.unparse(node.type)
        last = node.body[-1]
        raises_again = isinstance(last, ast.Raise) and last.exc is None
        broad = {"Exception", "BaseException"} & set(caught.strip("()").split(", "))
        if broad and not raises_again:
            yield module, path, node


def test_a_broad_except_stands_only_where_the_design_allows_it():
    """Any exception is stopped by the prober, the outermost layer and the engine's thread only."""
    assert Counter(BROAD) == Counter(module for module, _, _ in broad_handlers())


def test_a_broad_except_says_why_in_its_own_line():
    """A broad `except` gives its reason in the same line."""
    silent = []
    for _, path, node in broad_handlers():
        line = path.read_text(encoding="utf-8").splitlines()[node.lineno - 1]
        reason = line.partition("#")[2].replace("noqa: BLE001", "").strip(" -")
        if len(reason.split()) < 4:
            silent.append(place(path, node.lineno))
    assert [] == silent, "\n".join(silent)
