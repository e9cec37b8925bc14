"""Runs every policy through every scenario on the same traces, seed by seed."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.scheduling import bound
from bench.scheduling.interval import Interval
from bench.scheduling.measures import SCALES, measures
from bench.scheduling.simulation import POLICIES, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.scheduling.scenarios import Scenario

BOUND: Final = "bound"
PRODUCT: Final = "on_time"

Numbers = dict[str, dict[str, float]]  # policy → measure → value


@dataclass(frozen=True, slots=True)
class Findings:
    """Is what one scenario gave: for each seed, each policy's measures."""

    scenario: Scenario
    runs: tuple[Numbers, ...]

    def values(self, policy: str, measure: str) -> list[float]:
        """Lists one measure of one policy, by seed."""
        return [run[policy][measure] for run in self.runs]

    def of(self, policy: str, measure: str) -> Interval:
        """Returns one measure of one policy."""
        return Interval.of(self.values(policy, measure))

    def lead(self, other: str, measure: str) -> Interval:
        """Returns by how much the product's measure is above another's, seed by seed."""
        pairs = zip(self.values(PRODUCT, measure), self.values(other, measure), strict=True)
        return Interval.of([own - others for own, others in pairs])

    def knows(self, policy: str, measure: str) -> bool:
        """Tells whether a measure exists for a policy."""
        return measure in self.runs[0].get(policy, ())


def run(scenario: Scenario, seed: int) -> Numbers:
    """Runs all policies on one trace, and the bound."""
    jobs = scenario.traffic.trace(seed)
    faults, workers = scenario.faults(jobs), scenario.plan.workers
    found = {
        policy: measures(jobs, simulate(jobs, scenario.plan, policy, faults), workers)
        for policy in POLICIES
    }
    found[BOUND] = {
        f"attainment_{scale:g}": bound.attainment(jobs, workers, scale) for scale in SCALES
    }
    return found


def experiment(scenarios: Iterable[Scenario], seeds: int, processes: int = 1) -> list[Findings]:
    """Runs the scenarios; more processes only make it faster."""
    scenarios = list(scenarios)
    tasks = [(scenario, seed) for scenario in scenarios for seed in range(seeds)]
    if processes > 1:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            done: Sequence[Numbers] = pool.starmap(run, tasks, chunksize=1)
    else:
        done = [run(*task) for task in tasks]
    return [
        Findings(scenario, tuple(done[n * seeds : (n + 1) * seeds]))
        for n, scenario in enumerate(scenarios)
    ]
