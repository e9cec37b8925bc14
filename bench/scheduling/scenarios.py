"""The scenarios: traffic, fleet and faults, each under one name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.scheduling.faults import repeated
from bench.scheduling.fleet import Plan
from bench.scheduling.traffic import Traffic

if TYPE_CHECKING:
    from bench.scheduling.faults import Fault, Kind
    from bench.scheduling.job import Job

ONE_POOL: Final = Plan((("both", ("t2i", "i2i"), 4, False),))
"""Four workers that do everything."""
EVERY_SECONDS: Final = 2400.0
LASTS_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Is one line of the tables."""

    name: str
    group: str
    traffic: Traffic
    plan: Plan = ONE_POOL
    fault: Kind | None = None

    def faults(self, jobs: list[Job]) -> list[Fault]:
        """Lists what goes wrong while the trace lasts."""
        if self.fault is None:
            return []
        machine = None if self.fault == "lose_encoder" else 0
        return repeated(
            self.fault,
            self.plan.groups[0][0],
            machine=machine,
            every=EVERY_SECONDS,
            lasts=LASTS_SECONDS,
            ends=jobs[-1].arrived,
        )


def two_pools(texts: int, edits: int, *, may_spill: bool) -> Plan:
    """Plans a pool for text behind an encoder, and one that sees pictures."""
    spill = ("i2i", "t2i") if may_spill else ("i2i",)
    return Plan((("t2i", ("t2i",), texts, True), ("i2i", spill, edits, False)))


def loads(requests: int, *values: float) -> list[Scenario]:
    """Makes the main scenarios: four workers, mostly small pictures, Poisson."""
    return [
        Scenario(f"load {load:g}", "loads", Traffic(load, requests=requests)) for load in values
    ]


def every() -> list[Scenario]:
    """Lists all scenarios."""
    busy = Traffic(0.9, requests=600)
    eight = replace(busy, workers=8)
    found = loads(1000, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5)
    found += [
        Scenario("bursts", "traffic", replace(busy, load=0.7, cv=4.0)),
        Scenario("even sizes", "traffic", replace(busy, sizes="uniform")),
        Scenario("a flood", "traffic", replace(busy, load=1.2, flood=0.5)),
    ]
    for share, texts in ((0.1, 7), (0.3, 5), (0.5, 4)):
        mix = replace(eight, edits=share)
        name = f"{100 - 100 * share:.0f}/{100 * share:.0f}"
        for may_spill in (False, True):
            plan = two_pools(texts, 8 - texts, may_spill=may_spill)
            title = f"{name}{', text may spill' if may_spill else ''}"
            found.append(Scenario(title, "mixes", mix, plan))
    four = Traffic(0.6, requests=600)
    found += [
        Scenario("killed", "faults", four, fault="kill"),
        Scenario("hanging", "faults", four, fault="hang"),
        Scenario("five times slow", "faults", four, fault="slow"),
        Scenario(
            "encoder down",
            "faults",
            replace(four, edits=0.5),
            two_pools(2, 2, may_spill=True),
            fault="lose_encoder",
        ),
    ]
    return found


def quick() -> list[Scenario]:
    """Lists what a test can wait for."""
    return loads(400, 0.9, 1.5)
