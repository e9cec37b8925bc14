"""What is measured of one run: one number per measure."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scheduling.job import Fate, Job

SCALES: Final = (1.5, 2.0, 3.0, 5.0)
MAIN_SCALE: Final = 3.0

UNITS: Final = MappingProxyType(
    {
        **{f"attainment_{scale:g}": "share of requests" for scale in SCALES},
        "goodput": "share of capacity",
        "slowdown_p50": "times the service time",
        "slowdown_p95": "times the service time",
        "slowdown_p99": "times the service time",
        "slowdown_small_p99": "times the service time",
        "jain": "index",
        "attainment_others": "share of requests",
        "wasted": "share of capacity",
        "unserved": "share of requests",
        "late_answers": "requests",
    }
)


def measures(jobs: Sequence[Job], fates: Sequence[Fate], workers: int) -> dict[str, float]:
    """Measures one run; the names and units are those of `UNITS`."""
    pairs = list(zip(jobs, fates, strict=True))
    ends = jobs[-1].arrived
    capacity = workers * ends
    slow = [_slowdown(job, fate) for job, fate in pairs]
    small = [_slowdown(job, fate) for job, fate in pairs if job.is_small]
    return {
        **{
            f"attainment_{scale:g}": sum(_is_on_time(*pair, scale) for pair in pairs) / len(jobs)
            for scale in SCALES
        },
        "goodput": sum(_work(f, ends) for j, f in pairs if _is_on_time(j, f, MAIN_SCALE))
        / capacity,
        "slowdown_p50": percentile(slow, 0.5),
        "slowdown_p95": percentile(slow, 0.95),
        "slowdown_p99": percentile(slow, 0.99),
        "slowdown_small_p99": percentile(small, 0.99),
        "jain": _jain(_by_caller(pairs)),
        "attainment_others": _others(pairs),
        "wasted": sum(_work(f, math.inf) for _, f in pairs if f.ended is None) / capacity,
        "unserved": sum(fate.ended is None for fate in fates) / len(jobs),
        "late_answers": sum(f.ended is not None and f.ended > j.deadline for j, f in pairs),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the smallest value that at least `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _is_on_time(job: Job, fate: Fate, scale: float) -> bool:
    return fate.ended is not None and fate.ended <= job.due(scale)


def _slowdown(job: Job, fate: Fate) -> float:
    """Returns how many times its own seconds a request took; without an answer: its deadline."""
    ended = job.deadline if fate.ended is None else fate.ended
    return (ended - job.arrived) / job.seconds


def _work(fate: Fate, until: float) -> float:
    """Sums the seconds that workers spent on a request up to a time."""
    return sum(max(0.0, min(ended, until) - began) for began, ended in fate.stints)


def _by_caller(pairs: Sequence[tuple[Job, Fate]]) -> list[float]:
    """Lists each caller's share of requests that were on time."""
    marks: dict[str, list[bool]] = {}
    for job, fate in pairs:
        marks.setdefault(job.caller, []).append(_is_on_time(job, fate, MAIN_SCALE))
    return [sum(mark) / len(mark) for mark in marks.values()]


def _jain(shares: Sequence[float]) -> float:
    """Returns Jain's index: 1 where all have the same, 1/n where one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def _others(pairs: Sequence[tuple[Job, Fate]]) -> float:
    """Returns the share on time among the requests of all callers but the first."""
    marks = [_is_on_time(*pair, MAIN_SCALE) for pair in pairs if pair[0].caller != "caller 0"]
    return sum(marks) / len(marks)
