"""The simulator measures the product's own policy, so it holds none itself."""

from __future__ import annotations

import ast

import pytest

from gateway.routing.order import ORDERS
from tests.house.trees import imports, modules, place, tree

SIMULATOR = "bench.scheduling"
POLICIES = (f"{SIMULATOR}.baselines", f"{SIMULATOR}.bound")
"""The peers and the offline bound, which are no part of the product, choose as they must."""
DECIDING = ("gateway.routing.order", "gateway.routing.balance", "gateway.routing.forecast")
"""What the simulator reaches through the line and the pool only."""
REST = {name: path for name, path in modules("bench").items() if name not in POLICIES}


def test_the_simulator_drives_the_products_own_line_and_pools():
    """The driver imports the line and the rule that builds pools, when it loads."""
    name = f"{SIMULATOR}.product"
    found = {each.target for each in imports(name, REST[name]) if each.at == "load"}
    assert {"gateway.routing.line.Line", "gateway.routing.routes.RouteTable"} <= found


def test_only_the_peers_and_the_bound_order_or_choose():
    """Nothing else in the bench sorts or picks by a key."""
    wrong = [
        place(path, node.lineno)
        for path in REST.values()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] in ("sorted", "min", "max", "sort", "nsmallest")
        and any(keyword.arg == "key" for keyword in node.keywords)
    ]
    assert [] == wrong, "\n".join(wrong)


def test_nothing_reaches_past_the_line():
    """Orders, balances and forecasts are reached through the line and the pool alone."""
    wrong = [
        f"{each.module}:{each.line} imports {each.target}"
        for name, path in modules("bench").items()
        for each in imports(name, path)
        if any(each.target.startswith(deciding) for deciding in DECIDING)
    ]
    assert [] == wrong, "\n".join(wrong)


@pytest.mark.parametrize("word", ["order", "balance", "key", "rank", "priority", "choose"])
def test_nothing_else_defines_a_policy(word):
    """No function of the bench outside the peers and the bound is named as a policy would be."""
    wrong = [
        place(path, node.lineno)
        for path in REST.values()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and word in node.name.lower().split("_")
    ]
    assert [] == wrong, "\n".join(wrong)


def test_every_order_of_the_product_is_measured():
    """An order that the product offers is one that the simulator runs."""
    [found] = [
        ast.literal_eval(node.value)
        for node in tree(REST[f"{SIMULATOR}.simulation"]).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Tuple)
        and ast.unparse(node.target) == "ORDERS"
    ]
    assert set(ORDERS) == set(found)


def test_no_module_of_the_bench_is_longer_than_250_lines():
    """A module of the bench is read without scrolling for long, like all others."""
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines())
        for name, path in modules("bench").items()
    }
    assert {} == {name: length for name, length in lengths.items() if length > 250}
