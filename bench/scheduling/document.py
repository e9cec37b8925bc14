"""Writes docs/performance.md: `page.md`, with the tables in their places."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.scheduling.report import agreement, attainments, judgement, scales, slowdowns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scheduling.claims import Claim
    from bench.scheduling.experiment import Findings
    from bench.scheduling.validation import Agreement

TEMPLATE: Final = Path(__file__).with_name("page.md")


def document(
    findings: Sequence[Findings], judged: Sequence[Claim], agreements: Sequence[Agreement]
) -> str:
    """Fills the page."""
    groups = {
        name: [each for each in findings if each.scenario.group == name]
        for name in ("loads", "traffic", "mixes", "faults")
    }
    by_name = {each.scenario.name: each for each in findings}
    return TEMPLATE.read_text(encoding="utf-8").format(
        judgement=judgement(judged),
        seeds=len(findings[0].runs),
        loads=attainments(groups["loads"]),
        goodput=attainments(groups["loads"], "goodput"),
        scales=scales(by_name["load 0.9"]),
        slowdowns=slowdowns(by_name["load 0.9"]),
        overload=slowdowns(by_name["load 1.5"]),
        traffic=attainments(groups["traffic"]),
        others=attainments([by_name["a flood"]], "attainment_others"),
        mixes=attainments(groups["mixes"]),
        faults=attainments(groups["faults"]),
        agreement=agreement(agreements),
        second=1000.0 * agreements[0].scale,
        requests=len(agreements[0].real) + agreements[0].unserved[0],
    )
