"""The layers import downwards only: the table of the design, read from the syntax trees."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType

import pytest

from tests.house.trees import ROOT, Import, imports, modules

OWN = ("gateway", "workers")

LAYERS = MappingProxyType(
    {
        # layer: the modules of ours that it may import
        "gateway.errors": (),
        "gateway.config": (),
        "gateway.config_file": ("gateway.config",),
        "gateway.routing": ("gateway.errors", "gateway.config"),
        "gateway.record": (),
        "gateway.metrics": ("gateway.routing",),
        "gateway.telemetry": (
            "gateway.config",
            "gateway.errors",
            "gateway.metrics",
            "gateway.record",
            "gateway.routing",
        ),
        "gateway.transport": (
            "gateway.routing",
            "gateway.errors",
            "gateway.config",
            "gateway.telemetry",
            "gateway.record",
        ),
        "gateway.runtime": (
            "gateway.transport",
            "gateway.routing",
            "gateway.telemetry",
            "gateway.config",
            "gateway.errors",
        ),
        "gateway.api": (
            "gateway.runtime",
            "gateway.transport",
            "gateway.routing",
            "gateway.errors",
            "gateway.record",
        ),
        "gateway": ("gateway",),
        "workers": ("workers",),
    }
)

FORBIDDEN = MappingProxyType(
    {
        "gateway.routing": ("asyncio", "logging", "time"),
        "gateway.transport": ("fastapi", "starlette"),
        "gateway.runtime": ("fastapi", "starlette"),
        "gateway": ("torch", "transformers", "diffusers"),
    }
)

STANDARD_LIBRARY_ONLY = ("gateway.errors", "gateway.routing")

TORCH = frozenset({"torch", "transformers", "diffusers", "accelerate"})
TORCH_MODULES = frozenset(
    # `device`, `layout`, `sampling` and `vision` are parts of `glm_image`, `encoder`, `decode`.
    f"workers.{name}"
    for name in ("glm_image", "encoder", "decode", "tiny", "device", "layout", "sampling", "vision")
)

EVERY_IMPORT = [each for name, path in modules().items() for each in imports(name, path)]


def is_in(name: str, package: str) -> bool:
    """Tells whether a dotted name is a package or stands inside it."""
    return name == package or name.startswith(package + ".")


def layer_of(module: str) -> str:
    """Names the innermost layer that holds a module."""
    return max((layer for layer in LAYERS if is_in(module, layer)), key=len)


def faults(wrong: list[Import]) -> list[str]:
    """Renders imports so that a failing test says what to move."""
    return [f"{each.module}:{each.line} imports {each.target} ({each.at})" for each in wrong]


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_imports_only_what_stands_below_it(layer):
    """A layer imports of ours only what the design's table allows, for types as well."""
    allowed = (layer, *LAYERS[layer])
    wrong = [
        each
        for each in EVERY_IMPORT
        if layer_of(each.module) == layer
        and any(is_in(each.target, own) for own in OWN)
        and not any(is_in(each.target, package) for package in allowed)
    ]
    assert [] == faults(wrong)


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_no_layer_imports_what_it_must_not_know(layer):
    """Deciding code knows no clock, loop or log, and carrying code no web framework."""
    wrong = [
        each
        for each in EVERY_IMPORT
        if is_in(each.module, layer) and any(is_in(each.target, bad) for bad in FORBIDDEN[layer])
    ]
    assert [] == faults(wrong)


def test_errors_and_routing_need_the_standard_library_only():
    """The error tree and the deciding layer import no package from outside."""
    wrong = [
        each
        for each in EVERY_IMPORT
        if any(is_in(each.module, layer) for layer in STANDARD_LIBRARY_ONLY)
        and each.target.split(".")[0] not in (*sys.stdlib_module_names, "gateway")
    ]
    assert [] == faults(wrong)


def test_the_configuration_needs_pydantic_only():
    """The configuration imports the standard library and pydantic."""
    wrong = [
        each
        for each in EVERY_IMPORT
        if each.module in ("gateway.config", "gateway.config_file")
        and not is_in(each.target, "gateway.config")
        and each.target.split(".")[0] not in (*sys.stdlib_module_names, "pydantic")
    ]
    assert [] == faults(wrong)


def test_endpoints_are_given_the_runtime_and_do_not_import_it():
    """Only `api.depends` imports the runtime when it loads; the others know its type only."""
    wrong = [
        each
        for each in EVERY_IMPORT
        if is_in(each.module, "gateway.api")
        and each.module != "gateway.api.depends"
        and is_in(each.target, "gateway.runtime")
        and each.at != "types"
    ]
    assert [] == faults(wrong)


def test_gateway_and_workers_share_no_code():
    """Gateway and workers import nothing of each other; they meet on the wire."""
    wrong = [
        each
        for each in EVERY_IMPORT
        for mine, theirs in (OWN, OWN[::-1])
        if is_in(each.module, mine) and is_in(each.target, theirs)
    ]
    assert [] == faults(wrong)


def test_torch_stays_in_the_modules_that_compute():
    """Outside the modules that compute, torch is imported inside functions or not at all."""
    wrong = [
        each
        for each in EVERY_IMPORT
        if each.target.split(".")[0] in TORCH
        and each.at == "load"
        and each.module not in TORCH_MODULES
    ]
    assert [] == faults(wrong)


BLOCKING = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
import {package}
"""


@pytest.mark.parametrize("package", OWN)
def test_importing_a_package_needs_no_torch(package):
    """`import gateway` and `import workers` work on a machine without the torch stack."""
    script = BLOCKING.format(blocked=tuple(sorted(TORCH)), package=package)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
