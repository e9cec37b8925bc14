"""The split profiles are wired as they say, and the memory of each role is told the same twice."""

from __future__ import annotations

import re

import pytest

from tests.deploy.support import (
    COMPOSE,
    ROLES,
    ROOT,
    SERVICES,
    SPLIT,
    options,
    service,
    settings,
)

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
WRITTEN = {
    "Encoder": ("encoder-gpu", "deploy/sglang/encoder.sh"),
    "T2I server": ("t2i-gpu", "deploy/sglang/t2i.sh"),
    "Full I2I worker": ("i2i-gpu", "--encoder in-process"),
    "Split I2I worker": ("i2i-split", "--tasks t2i,i2i"),
}
"""The roles as the page calls them, each with its service and a word of its command."""


def rows(first: str) -> dict[str, list[str]]:
    """Reads the page's table whose first heading is given, by the first cell of each row."""
    lines = PAGE.split(f"\n| {first} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return {name: rest for name, *rest in cells}


def most(role: str) -> int:
    """Returns the most memory that the page gives a role, in GB."""
    return int(rows("Role")[role][-1].split(" to ")[1])


@pytest.mark.parametrize("profile", SPLIT)
def test_split_worker_shares_the_encoder(profile: str) -> None:
    """The split worker does both tasks at the T2I server's encoder, which the gateway probes."""
    worker, pools = options(service(profile, "i2i")), settings(profile).pools
    assert worker["tasks"] == "t2i,i2i"
    assert [pools["t2i"].encoder_url] == [pools["i2i"].encoder_url] == worker["encoder"]
    comes_first = service(profile, "i2i")["depends_on"]
    assert {ROLES[profile]["encoder"]: {"condition": "service_healthy"}} == comes_first


@pytest.mark.parametrize("profile", SPLIT)
def test_edits_go_first_in_the_split_pool(profile: str) -> None:
    """The split pool may list edits and lists them first; only spilled text goes there."""
    pools = settings(profile).pools
    assert {"t2i": ("t2i",), "i2i": ("i2i", "t2i")} == {n: p.tasks for n, p in pools.items()}
    assert [False, True] == [pools[name].i2i_via_encoder for name in ("t2i", "i2i")]


@pytest.mark.parametrize(("split", "whole"), [("split-cpu", "cpu"), ("split", "gpu")])
def test_split_differs_in_the_edits_alone(split: str, whole: str) -> None:
    """Encoder, T2I server and the gateway's other settings are those of the profile it splits."""
    assert {"i2i"} == {role for role in ROLES[split] if ROLES[split][role] != ROLES[whole][role]}
    ours, theirs = settings(split), settings(whole)
    assert (ours.server, ours.models) == (theirs.server, theirs.models)
    assert ours.pools["t2i"] == theirs.pools["t2i"]
    kept = ("image", "environment", "volumes", "networks", "healthcheck", "deploy")
    one, other = service(split, "i2i"), service(whole, "i2i")
    assert [] == [key for key in kept if one.get(key) != other.get(key)]


def test_memory_is_the_same_in_compose_and_page() -> None:
    """Each role that runs on a GPU says beside its service what the page's table says."""
    beside = dict(
        re.findall(r"^  ([\w-]+):(?: &[\w-]+)? # (\d+ to \d+) GB$", COMPOSE, re.MULTILINE)
    )
    assert set(beside) == {name for name, each in SERVICES.items() if "deploy" in each}
    assert set(WRITTEN) == set(rows("Role"))
    for role, (name, word) in WRITTEN.items():
        command, weights, needs = rows("Role")[role][-3:]
        assert needs == beside[name]
        assert word in command
        low, high = map(int, needs.split(" to "))
        assert float(weights) < low < high


def test_scripts_that_the_page_names_are_those_that_compose_runs() -> None:
    """SGLang's two roles are started by the scripts that the page's table names."""
    for role in ("Encoder", "T2I server"):
        name, path = WRITTEN[role]
        assert SERVICES[name]["entrypoint"][-1] == f"/opt/turnout/{path.rpartition('/')[2]}"
        assert (ROOT / path).is_file()


def test_variables_name_what_a_worker_takes() -> None:
    """The head of the compose file gives both workers for edits the page's larger figure."""
    (line,) = [line for line in COMPOSE.splitlines() if "TURNOUT_I2I_GPU  " in line]
    figures = [int(figure) for figure in re.findall(r"(\d+) GB", line)]
    assert [most("Full I2I worker"), most("Split I2I worker")] == figures


def test_what_fits_on_a_card_adds_up() -> None:
    """The page's sums are those of the roles' larger figures, and say rightly what fits in 80."""
    table = rows("On one card of 80 GB")
    assert table
    for together, (total, fits, _) in table.items():
        first, *parts = together.lower().replace("workers", "worker").split(" + ")
        factor = 2 if first.startswith("two ") else 1
        parts.append(first.removeprefix("two "))
        names = [role for role in WRITTEN if role.lower() in parts]
        assert len(names) == len(parts), together
        assert int(total) == factor * sum(map(most, names)), together
        assert fits == ("yes" if int(total) <= 80 else "no"), together
