"""The documents keep step with the code: options, error codes, metrics, the walk, the example."""

from __future__ import annotations

import ast
import re
import tomllib
from types import MappingProxyType

import pytest
from pydantic_core import PydanticUndefined

from gateway import load_config
from gateway.config import (
    ArtifactsConfig,
    Config,
    FetchConfig,
    LimitsConfig,
    ModelConfig,
    PoolConfig,
    ServerConfig,
    WorkerConfig,
)
from gateway.errors import LEAVES
from tests.house.trees import ROOT, modules, texts, tree, words

EXAMPLE = ROOT / "deploy" / "turnout.example.toml"

SECTIONS = MappingProxyType(
    {
        "server": ServerConfig,
        "limits": LimitsConfig,
        "fetch": FetchConfig,
        "artifacts": ArtifactsConfig,
        'models."NAME"': ModelConfig,
        "pools.NAME": PoolConfig,
        "pools.NAME.workers[]": WorkerConfig,
    }
)


def document(name: str) -> str:
    """Reads a document; a missing one is the test's failure."""
    path = ROOT / "docs" / name
    if not path.is_file():
        pytest.fail(f"docs/{name} is missing")
    return path.read_text(encoding="utf-8")


def test_every_section_of_the_configuration_is_looked_at():
    """The sections that the tests below compare are all the sections that exist."""
    assert {"server", "limits", "fetch", "artifacts", "models", "pools"} == set(Config.model_fields)


def test_every_option_is_documented():
    """docs/configuration.md names every option as section and key, as `server.port`."""
    text = document("configuration.md")
    missing = [
        f"{section}.{key}"
        for section, model in SECTIONS.items()
        for key in model.model_fields
        if f"`{section}.{key}`" not in text
    ]
    assert [] == missing, "\n".join(missing)


def test_every_error_code_is_documented():
    """docs/api.md names every error code, each in the line of its status."""
    lines = document("api.md").splitlines()
    missing = [
        f"{leaf.status} {code}"
        for leaf in LEAVES
        for code in leaf.codes
        if not any(f"`{code}`" in line and str(leaf.status) in line for line in lines)
    ]
    assert [] == missing, "\n".join(missing)


def test_every_error_code_is_raised_somewhere():
    """No code stands in the table that nobody raises."""
    named = texts("gateway", without=("gateway.errors",))
    called = {
        ast.unparse(node.func)
        for name, path in modules("gateway").items()
        for node in ast.walk(tree(path))
        if name != "gateway.errors" and isinstance(node, ast.Call)
    }
    unused = [
        f"{leaf.__name__}: {code}"
        for leaf in LEAVES
        for code in leaf.codes
        if code not in named and not (code == leaf.codes[0] and leaf.__name__ in called)
    ]
    assert [] == unused, "\n".join(unused)


def metric_names(*packages: str) -> set[str]:
    """Lists the metrics that the packages make, by the names that a scrape shows."""
    found = set()
    for path in modules(*packages).values():
        for node in ast.walk(tree(path)):
            kind = ast.unparse(node.func).lower() if isinstance(node, ast.Call) else ""
            name = node.args[0] if kind in ("counter", "gauge", "histogram") and node.args else None
            if isinstance(name, ast.Constant):
                found.add(f"{name.value}_total" if kind == "counter" else name.value)
    return found


@pytest.mark.parametrize(
    ("package", "names"),
    [("gateway", ("operations.md",)), ("workers", ("operations.md", "worker-protocol.md"))],
)
def test_every_metric_is_documented(package, names):
    """docs/operations.md names every metric as a scrape shows it, or the workers' own page."""
    text = "".join(map(document, names))
    missing = sorted(name for name in metric_names(package) if f"`{name}" not in text)
    assert [] == missing, "\n".join(missing)


def test_every_documented_metric_exists():
    """docs/operations.md names no metric of the gateway that is not made."""
    named = set(re.findall(r"^\| `(turnout_\w+)", document("operations.md"), flags=re.MULTILINE))
    missing = sorted(named - metric_names())
    assert [] == missing, "\n".join(missing)


def test_every_documented_error_code_exists():
    """docs/api.md lists no error code that is not in the tree."""
    known = {code for leaf in LEAVES for code in leaf.codes}
    lines = [line for line in document("api.md").splitlines() if re.match(r"\| [45]\d\d ", line)]
    assert lines
    named = {code for line in lines for code in re.findall(r"`([a-z]+_[a-z_]+)`", line)}
    types = {leaf.type for leaf in LEAVES}
    missing = sorted(named - known - types)
    assert [] == missing, "\n".join(missing)


def test_every_metric_begins_with_our_name():
    """All metrics start with turnout_."""
    names = metric_names()
    assert names
    assert set() == {name for name in names if not name.startswith("turnout_")}


def quoted(text: str) -> list[str]:
    """Lists what a document sets in code style, outside blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_every_file_of_the_walk_exists():
    """Every file that docs/walk.md names is there, from the root or from `gateway`."""
    files = [each for each in quoted(document("walk.md")) if re.fullmatch(r"[\w/.]+\.\w+", each)]
    files = [each for each in files if each.endswith((".py", ".md", ".toml"))]
    assert files
    missing = [
        name for name in files if not any((ROOT / up / name).is_file() for up in ("", "gateway"))
    ]
    assert [] == missing, "\n".join(missing)


def test_every_name_of_the_walk_exists():
    """Every class, function and attribute that docs/walk.md names is in the code."""
    known = words() | texts("gateway") | texts("workers") | set(modules())
    known |= {part for module in modules() for part in module.split(".")}
    names = [
        match[1]
        for each in quoted(document("walk.md"))
        if not each.endswith((".py", ".md", ".toml"))
        and (match := re.fullmatch(r"([A-Za-z_][\w.]*)(\(.*\))?", each))
    ]
    assert names
    assert [] == [name for name in names if not set(name.split(".")) <= known]


@pytest.fixture
def example():
    """Reads the example file; a missing one is the test's failure."""
    if not EXAMPLE.is_file():
        pytest.fail("deploy/turnout.example.toml is missing")
    return EXAMPLE.read_text(encoding="utf-8")


def test_the_example_loads(example):
    """The example file is a valid configuration as it stands."""
    config = load_config(EXAMPLE, {})
    assert config.pools


def example_sections(data: dict) -> list[tuple[str, type, dict]]:
    """Lists every section of the example with the model that describes it."""
    pools = list(data.get("pools", {}).values())
    return [
        ("server", ServerConfig, data.get("server", {})),
        ("limits", LimitsConfig, data.get("limits", {})),
        ("fetch", FetchConfig, data.get("fetch", {})),
        ("artifacts", ArtifactsConfig, data.get("artifacts", {})),
        *(("models", ModelConfig, model) for model in data.get("models", {}).values()),
        *(("pools", PoolConfig, pool) for pool in pools),
        *(
            ("workers", WorkerConfig, worker)
            for pool in pools
            for worker in pool.get("workers", ())
        ),
    ]


@pytest.mark.parametrize(
    "section", ["server", "limits", "fetch", "artifacts", "models", "pools", "workers"]
)
def test_the_example_shows_every_option(example, section):
    """The example file shows every option; one without a value is shown as a comment."""
    shown = [(m, d) for name, m, d in example_sections(tomllib.loads(example)) if name == section]
    assert shown, f"the example has no section {section}"
    keys = {key for _, data in shown for key in data}
    keys |= set(re.findall(r"^#\s*(?:[{\[,]\s*)?(\w+) =", example, flags=re.MULTILINE))
    assert [] == [key for key in shown[0][0].model_fields if key not in keys]


def test_the_example_shows_every_option_at_its_default(example):
    """An option that has a default stands in the example with that default."""
    needed = {"workers", "encoder_url", "aliases", "tasks", "url"}
    wrong = [
        f"{name}.{key} is {data[key]!r}, its default is {field.default!r}"
        for name, model, data in example_sections(tomllib.loads(example))
        for key, field in model.model_fields.items()
        if key in data and key not in needed and field.default is not PydanticUndefined
        if data[key] != (list(field.default) if field.default == () else field.default)
    ]
    assert [] == wrong, "\n".join(wrong)
