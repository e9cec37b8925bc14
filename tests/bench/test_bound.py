"""The offline bound is what it says: exact for one fast machine, and never below a policy."""

from __future__ import annotations

import random

import pytest

from bench.scheduling import bound
from bench.scheduling.job import Job
from bench.scheduling.measures import measures
from bench.scheduling.scenarios import ONE_POOL
from bench.scheduling.simulation import POLICIES, simulate
from bench.scheduling.traffic import Traffic
from gateway.routing.cost import Cost
from gateway.routing.request import Task


def job(arrived, seconds, deadline=1e9):
    """Makes a request; with scale 1 it is due when it would be done at once."""
    return Job(0, Task.T2I, 512, Cost(1, 1), seconds, arrived, deadline, "caller")


def test_what_fits_counts_whole():
    """Requests that can all be on time are all on time."""
    jobs = [job(0, 10), job(10, 10), job(20, 5)]
    assert [1.0, 1.0, 1.0] == bound.shares(jobs, 1, 1.0)


def test_the_shortest_go_first_and_the_rest_in_part():
    """Where two do not fit, the shorter is whole, and the longer gets the time that is left."""
    jobs = [job(0, 10), job(2, 4)]
    assert pytest.approx([1.0, 0.6]) == bound.shares(jobs, 1, 1.0)


def test_a_gap_is_not_filled_with_what_comes_later():
    """Time before a request arrives is of no use to it."""
    jobs = [job(0, 4), job(4, 5), job(4, 6)]
    assert pytest.approx([1.0, 1.0, 1 / 6]) == bound.shares(jobs, 1, 1.0)


def test_the_bound_is_the_best_of_all_subsets_when_shares_are_whole():
    """On small random traces the bound is at least the best subset that one machine can serve."""
    chance = random.Random(5)
    for _ in range(100):
        jobs = [job(chance.randrange(8), chance.randrange(1, 6)) for _ in range(6)]
        best = 0
        for mask in range(2**6):
            chosen = [each for n, each in enumerate(jobs) if mask >> n & 1]
            if all(share == 1.0 for share in bound.shares(chosen, 1, 1.5)):
                best = max(best, len(chosen))
        assert best <= sum(bound.shares(jobs, 1, 1.5)) + 1e-9


def demand_is_met(jobs, scale):
    """Tells whether one machine can serve all: no interval holds more work than time."""
    begins, ends = {j.arrived for j in jobs}, {j.due(scale) for j in jobs}
    return all(
        sum(j.seconds for j in jobs if b <= j.arrived and j.due(scale) <= e) <= e - b + 1e-9
        for b in begins
        for e in ends
        if b < e
    )


def test_all_are_on_time_exactly_when_no_interval_is_overfull():
    """The bound says 1 for a trace when, and only when, every interval has room for its work."""
    chance = random.Random(6)
    seen = set()
    for _ in range(300):
        jobs = [job(chance.randrange(20), chance.randrange(1, 6)) for _ in range(5)]
        fits = demand_is_met(jobs, 2.0)
        seen.add(fits)
        assert fits is (bound.attainment(jobs, 1, 2.0) > 1.0 - 1e-9)
    assert {True, False} == seen


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_is_above_the_bound(policy):
    """Whoever serves the trace, no more requests are on time than the bound allows."""
    jobs = Traffic(1.3, requests=150).trace(3)
    found = measures(jobs, simulate(jobs, ONE_POOL, policy), 4)
    for scale in (1.5, 3.0):
        assert found[f"attainment_{scale:g}"] <= bound.attainment(jobs, 4, scale) + 1e-9
