"""The tables, for the terminal and for docs/performance.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.scheduling.experiment import BOUND, PRODUCT
from bench.scheduling.simulation import ORDERS, PEERS, POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.scheduling.claims import Claim
    from bench.scheduling.experiment import Findings
    from bench.scheduling.validation import Agreement

NAMES: Final = tuple((policy, policy.replace("_", " ")) for policy in PEERS) + tuple(
    (order, f"`{order}`") for order in ORDERS
)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Writes a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def attainments(findings: Sequence[Findings], measure: str = "attainment_3") -> str:
    """Compares all policies over scenarios: one line per policy."""
    lines = [
        [name, *(_number(each, policy, measure) for each in findings)]
        for policy, name in (*NAMES, (BOUND, "offline bound"))
        if findings[0].knows(policy, measure)
    ]
    return table(["", *(each.scenario.name for each in findings)], lines)


def scales(each: Findings) -> str:
    """Shows one scenario at all scales of the objective, and the lead of the product."""
    measures = [f"attainment_{scale}" for scale in ("1.5", "2", "3", "5")]
    lines = []
    for policy, name in (*NAMES, (BOUND, "offline bound")):
        lead = each.lead(policy, "attainment_3")
        ahead = "" if policy == PRODUCT else f"{lead.mean:+.3f} ± {lead.half:.3f}"
        lines.append([name, *(_number(each, policy, measure) for measure in measures), ahead])
    return table(["", "scale 1.5", "2", "3", "5", "lead of `on_time` at 3"], lines)


def slowdowns(each: Findings) -> str:
    """Shows one scenario's slowdowns, fairness, waste, and who got nothing."""
    measures = (
        ("slowdown_p50", "p50"),
        ("slowdown_p95", "p95"),
        ("slowdown_p99", "p99"),
        ("slowdown_small_p99", "p99 of small"),
        ("goodput", "goodput"),
        ("jain", "Jain"),
        ("wasted", "wasted"),
        ("unserved", "unserved"),
    )
    lines = [
        [name, *(_number(each, policy, measure) for measure, _ in measures)]
        for policy, name in NAMES
    ]
    return table(["", *(title for _, title in measures)], lines)


def judgement(judged: Sequence[Claim]) -> str:
    """Lists the promises, with what was found."""
    lines = [[each.text, each.found, "yes" if each.holds else "**no**"] for each in judged]
    return table(["Promise", "Found", "Holds"], lines)


def agreement(agreements: Sequence[Agreement]) -> str:
    """Sets the simulator beside the real gateway."""
    lines = []
    for each in agreements:
        for metric, real, simulated in each.pairs():
            lines.append(
                [
                    f"load {each.load:g}, {metric.rpartition('_')[2]}",
                    f"{real:.1f} s",
                    f"{simulated:.1f} s",
                    f"{simulated / real - 1.0:+.1%}",
                ]
            )
    return table(["Response time", "real gateway", "simulator", "difference"], lines)


def summary(findings: Sequence[Findings], judged: Sequence[Claim]) -> str:
    """Writes what a terminal shows: attainment at scale 3, goodput, and the promises."""
    assert PRODUCT in POLICIES
    parts = ["SLO attainment at scale 3", attainments(findings)]
    parts += ["Goodput, share of capacity", attainments(findings, "goodput")]
    parts += ["p99 slowdown of small requests", attainments(findings, "slowdown_small_p99")]
    return "\n".join([*parts, judgement(judged)])


def _number(each: Findings, policy: str, measure: str) -> str:
    if not each.knows(policy, measure):
        return ""
    found = each.of(policy, measure)
    digits = 1 if measure.startswith("slowdown") else 3
    return f"{found.mean:.{digits}f} ± {found.half:.{digits}f}"
