"""Expected waits are those of a plain schedule: each in order to the slot that is free first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.health import Sign
from tests.routing.builders import join, line, take, ticket, worker
from tests.routing.driver import play


def plain_schedule(free_at, seconds):
    """Begins each job on the slot that is free first; returns when each began, and the rest."""
    free_at, begins = list(free_at), []
    for each in seconds:
        at = free_at.index(min(free_at))
        begins.append(free_at[at])
        free_at[at] += each
    return begins, min(free_at)


@pytest.mark.parametrize(
    ("capacities", "seconds", "waits", "drain"),
    [
        ((1,), [10, 20, 5], [0, 10, 30], 35),
        ((2,), [10, 20, 5], [0, 0, 10], 15),
        ((1, 1), [10, 20, 5, 5], [0, 0, 10, 15], 20),
        ((3,), [], [], 0),
        ((3,), [10], [0], 0),
    ],
)
def test_each_wait_is_that_of_those_before_it(capacities, seconds, waits, drain):
    """Who waits begins when a slot is free for him, and the line is drained when one stays free."""
    workers = [worker(f"w-{at}", capacity) for at, capacity in enumerate(capacities)]
    waiting = line(*workers, order="fifo")
    join(waiting, *(ticket(seconds=each, arrived=float(at)) for at, each in enumerate(seconds)))
    assert pytest.approx(waits) == list(waiting.waits(99.0).values())
    assert pytest.approx(drain) == waiting.drain_seconds(99.0)


def test_running_work_is_waited_for():
    """What a worker has in hand counts by what is left of it, at that worker's pace."""
    waiting = line(worker("w-0"), worker("w-1"), order="fifo")
    first, second = waiting.pool.workers
    second.pace = 2.0
    waiting.pool.workers[0].leases.clear()
    for each in (first, second):
        held = ticket(seconds=20.0)
        held.predicted = 20.0
        waiting.pool.take(held, each, 0.0)
    join(waiting, ticket(seconds=10.0), ticket(seconds=10.0), ticket(seconds=10.0))
    assert pytest.approx([15.0, 25.0, 35.0]) == list(waiting.waits(5.0).values())
    assert pytest.approx(35.0) == waiting.drain_seconds(5.0)


def test_workers_out_of_service_have_no_slots():
    """Who is down, drained or rested is not counted on; with nobody there, nothing is foreseen."""
    waiting = line(*(worker(f"w-{at}") for at in range(4)))
    (only,) = join(waiting, ticket())
    down, drained, rested, well = waiting.pool.workers
    take(waiting.pool, ticket(seconds=7.0, without=(down, drained, rested)))
    down.see(Sign.LOST_ATTEMPT, 0.0)
    drained.is_drained = True
    rested.breaker.trip(0.0, "slow")
    assert pytest.approx([7.0]) == list(waiting.waits(0.0).values())
    well.is_drained = True
    assert ({}, 0.0) == (waiting.waits(0.0), waiting.drain_seconds(0.0))
    assert [only] == waiting.ranked(0.0)


def test_few_slots_after_a_return():
    """A slow start has the slots that it has now."""
    waiting = line(worker(capacity=4))
    waiting.pool.workers[0].returned = 0.0
    join(waiting, *(ticket(seconds=10.0) for _ in range(3)))
    assert pytest.approx([0.0, 10.0, 20.0]) == list(waiting.waits(0.0).values())


SECONDS = st.lists(st.floats(2, 60), max_size=12)


@settings(deadline=None, max_examples=60)
@given(
    capacities=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    held=SECONDS,
    seconds=SECONDS,
    elapsed=st.floats(0, 5),
    order=st.sampled_from(["fifo", "sjf", "edf", "on_time"]),
)
def test_waits_are_those_of_a_plain_schedule(capacities, held, seconds, elapsed, order):
    """Whatever runs and waits, the forecast equals a schedule that is written down by hand."""
    workers = [worker(f"w-{at}", capacity) for at, capacity in enumerate(capacities)]
    waiting = line(*workers, order=order)
    leases = [take(waiting.pool, ticket(seconds=each)) for each in held]
    free_at = [lease.remaining(elapsed) for lease in leases if lease]
    free_at += [0.0] * (sum(capacities) - len(free_at))
    join(waiting, *(ticket(seconds=each) for each in seconds))
    ranked = waiting.ranked(elapsed)
    begins, _ = plain_schedule(free_at, [each.predicted for each in ranked])
    assert pytest.approx(begins) == list(waiting.waits(elapsed).values())
    as_they_came = [each.predicted for each in waiting.tickets]
    drained = plain_schedule(free_at, as_they_came)[1]
    assert pytest.approx(drained) == waiting.drain_seconds(elapsed)


@settings(deadline=None, max_examples=40)
@given(
    seconds=st.lists(st.floats(2, 60), min_size=1, max_size=10),
    workers=st.integers(1, 3),
    order=st.sampled_from(["fifo", "sjf"]),
)
def test_a_forecast_comes_true_where_predictions_do(seconds, workers, order):
    """Where all take what was predicted and nobody else comes, each begins when it was said."""
    tickets = [ticket(seconds=each) for each in seconds]
    said = line(*(worker(f"w-{at}") for at in range(workers)), order=order)
    expected = {}
    join(said, *tickets)
    expected = said.waits(0.0)
    lived = line(*(worker(f"w-{at}") for at in range(workers)), order=order)
    for each in said.ranked(0.0):
        each.arrived = 0.0
    played = play(lived, {each: each.predicted for each in said.ranked(0.0)})
    assert pytest.approx(sorted(expected.values())) == sorted(played.began.values())
