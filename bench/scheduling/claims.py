"""What the product promises of its scheduling, and whether a run bears it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.scheduling.experiment import BOUND, PRODUCT
from bench.scheduling.simulation import POLICIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scheduling.experiment import Findings

SHARE_OF_BOUND: Final = 0.95
GOODPUT: Final = 0.9
SHARE_OF_SLOWDOWN: Final = 0.5
MAIN: Final = "attainment_3"


@dataclass(frozen=True, slots=True)
class Claim:
    """Is one promise with the figures that decide it."""

    text: str
    found: str
    holds: bool


def claims(findings: Sequence[Findings]) -> list[Claim]:
    """Judges what can be judged from these scenarios."""
    by_name = {each.scenario.name: each for each in findings}
    judged = []
    if busy := by_name.get("load 0.9"):
        judged += [_near_the_bound(busy), _above_all(busy), _kind_to_the_small(busy)]
    if flooded := by_name.get("load 1.5"):
        judged.append(_useful(flooded))
    judged.append(_within_deadlines(findings))
    return judged


def _near_the_bound(busy: Findings) -> Claim:
    own, best = busy.of(PRODUCT, MAIN).mean, busy.of(BOUND, MAIN).mean
    return Claim(
        f"at load 0.9 and scale 3, at least {SHARE_OF_BOUND:.0%} of the offline bound",
        f"{own / best:.1%} ({own:.3f} of {best:.3f})",
        own >= SHARE_OF_BOUND * best,
    )


def _above_all(busy: Findings) -> Claim:
    leads = {other: busy.lead(other, MAIN) for other in POLICIES if other != PRODUCT}
    _, closest = min((lead.mean - lead.half, other) for other, lead in leads.items())
    lead = leads[closest]
    return Claim(
        "at load 0.9 and scale 3, above every baseline, the 95 % interval above zero",
        f"closest is `{closest}`, ahead of it by {lead.mean:.3f} ± {lead.half:.3f}",
        all(each.is_above_zero for each in leads.values()),
    )


def _kind_to_the_small(busy: Findings) -> Claim:
    own = busy.of(PRODUCT, "slowdown_small_p99").mean
    other = busy.of("least_request", "slowdown_small_p99").mean
    return Claim(
        "at load 0.9, p99 slowdown of small requests at most half of least request's",
        f"{own:.1f} against {other:.1f}, a share of {own / other:.2f}",
        own <= SHARE_OF_SLOWDOWN * other,
    )


def _useful(flooded: Findings) -> Claim:
    own = flooded.of(PRODUCT, "goodput")
    return Claim(
        f"at load 1.5, at least {GOODPUT:.0%} of the capacity goes into work that is on time",
        f"{own.mean:.1%} ± {own.half:.1%}",
        own.mean >= GOODPUT,
    )


def _within_deadlines(findings: Sequence[Findings]) -> Claim:
    late = sum(sum(each.values(PRODUCT, "late_answers")) for each in findings)
    return Claim(
        "every request that is served is served within its hard deadline",
        f"{late:.0f} answers after it, in all scenarios and seeds",
        late == 0,
    )
