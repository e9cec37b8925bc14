"""The simulator serves the same traces by every policy, and finds the product ahead."""

from __future__ import annotations

import pytest

from bench.scheduling import scenarios
from bench.scheduling.experiment import experiment
from bench.scheduling.faults import Fault
from bench.scheduling.measures import measures
from bench.scheduling.scenarios import ONE_POOL, two_pools
from bench.scheduling.simulation import ORDERS, POLICIES, simulate
from bench.scheduling.traffic import Traffic
from gateway.routing.request import Task

CALM = Traffic(0.5, requests=60)


@pytest.fixture(scope="module")
def quick():
    """Runs the quick scenarios once."""
    return {each.scenario.name: each for each in experiment(scenarios.quick(), seeds=2)}


def test_the_product_is_ahead_of_every_baseline(quick):
    """At loads 0.9 and 1.5 more requests are on time than under any baseline."""
    for found in quick.values():
        own = found.of("on_time", "attainment_3").mean
        others = [found.of(policy, "attainment_3").mean for policy in POLICIES[:-1]]
        assert own > max(others)


def test_the_orders_stand_as_they_should_under_overload(quick):
    """At load 1.5 shortest first keeps most on time, and first come and earliest due collapse."""
    found = quick["load 1.5"]
    fifo, sjf, edf, on_time = (found.of(order, "attainment_3").mean for order in ORDERS)
    assert max(fifo, edf) < 0.3 < 0.6 < sjf < on_time


def test_one_line_beats_four(quick):
    """At load 0.9 each baseline that binds early is behind first come, first served in one line."""
    found = quick["load 0.9"]
    fifo = found.of("fifo", "attainment_3").mean
    assert all(found.of(peer, "attainment_3").mean < fifo for peer in POLICIES[:4])


def test_overload_is_spent_on_work_that_is_on_time(quick):
    """At load 1.5 nine tenths of the capacity go into work that is on time."""
    assert quick["load 1.5"].of("on_time", "goodput").mean >= 0.9


def test_a_seed_gives_one_trace_and_one_result():
    """The same seed gives the same requests, and the same policy the same answers."""
    jobs = CALM.trace(1)
    assert jobs == CALM.trace(1)
    assert jobs != CALM.trace(2)
    first, second = (simulate(jobs, ONE_POOL, "on_time") for _ in range(2))
    assert first == second


@pytest.mark.parametrize("policy", POLICIES)
def test_every_request_ends_once(policy):
    """Each request has an answer within its deadline or a reason, and never both."""
    jobs = Traffic(1.5, requests=120, cv=4.0).trace(1)
    for job, fate in zip(jobs, simulate(jobs, ONE_POOL, policy), strict=True):
        assert (fate.ended is None) is bool(fate.why)
        assert fate.ended is None or job.arrived + job.seconds <= fate.ended <= job.deadline


@pytest.mark.parametrize("policy", POLICIES)
def test_no_machine_does_two_things_at_once(policy):
    """The workers' busy time is at most what the workers have."""
    jobs = Traffic(1.5, requests=120).trace(2)
    fates = simulate(jobs, ONE_POOL, policy)
    marks = [(t, step) for fate in fates for b, e in fate.stints for t, step in ((b, 1), (e, -1))]
    busy = peak = 0
    for _, step in sorted(marks):
        busy += step
        peak = max(peak, busy)
    assert 4 == peak


def test_a_killed_worker_costs_what_it_had():
    """Who was at a killed worker fails as lost; who comes later is served by the others."""
    jobs = CALM.trace(1)
    for policy in POLICIES:
        fault = Fault("kill", jobs[30].arrived + 1.0, 1e6, "both", machine=None)
        lost = [fate.why for fate in simulate(jobs, ONE_POOL, policy, [fault])]
        assert {"", "lost", "no worker"} >= set(lost)
        assert "lost" in lost
        assert "" not in lost[31:]


def test_a_lost_encoder_sends_text_to_the_other_pool():
    """While the encoder is down text goes to the pool that needs none, and edits go on."""
    jobs = Traffic(0.4, requests=80, edits=0.5).trace(1)
    fault = Fault("lose_encoder", jobs[10].arrived, 1e6, "t2i", machine=None)
    spill, none = (
        simulate(jobs, two_pools(2, 2, may_spill=may_spill), "on_time", [fault])
        for may_spill in (True, False)
    )
    late = [n for n, job in enumerate(jobs) if n > 15 and job.task is Task.T2I]
    assert all(spill[n].ended for n in late)
    assert not any(none[n].ended for n in late)


def test_faults_cost_worker_time():
    """A worker that hangs is waited for: its time counts as wasted."""
    jobs = CALM.trace(1)
    fault = Fault("hang", jobs[20].arrived, 900.0, "both")
    found = measures(jobs, simulate(jobs, ONE_POOL, "on_time", [fault]), 4)
    assert 0.0 < found["wasted"] < 0.2
