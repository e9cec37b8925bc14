"""Workers that answer probes and fail their work are rested, never more than half of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.breaker import Circuit
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.pool import FAILURES_IN_A_ROW
from tests.routing.builders import fail, pool, take, ticket, trip, worker


def several(count, **options):
    """Makes a pool of so many workers, and the list that its trips are told to."""
    chosen = pool(*(worker(f"w-{at}", **options) for at in range(count)))
    told = []
    chosen.on_trip.append(lambda *facts: told.append(facts))
    return chosen, told


@pytest.mark.parametrize("cause", [c for c in Cause if MEANINGS[c].is_failure])
def test_three_failures_in_a_row_rest_a_worker(cause):
    """The third failed answer in a row, out of memory among them, rests the worker."""
    chosen, told = several(2)
    first = chosen.workers[0]
    for _ in range(2):
        fail(chosen, first, cause)
        assert Circuit.CLOSED is first.breaker.state
    fail(chosen, first, cause)
    assert Circuit.OPEN is first.breaker.state
    assert [("both", "w-0", cause.value)] == told


@pytest.mark.parametrize("cause", [c for c in Cause if not MEANINGS[c].is_failure])
def test_what_is_no_failure_rests_nobody(cause):
    """Refusals, deadlines and callers that leave say nothing against a worker's work."""
    chosen, told = several(2)
    for _ in range(9):
        fail(chosen, chosen.workers[0], cause)
    assert (Circuit.CLOSED, []) == (chosen.workers[0].breaker.state, told)


def test_an_answer_ends_the_row_of_a_worker_and_of_the_pool():
    """A good answer begins both counts anew."""
    chosen, told = several(2)
    for _ in range(5):
        for each in chosen.workers:
            fail(chosen, each)
            fail(chosen, each)
            fail(chosen, each, Cause.ANSWER)
    assert (0, []) == (chosen.circuit.row, told)


@pytest.mark.parametrize(("count", "resting"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (8, 4)])
def test_at_most_half_of_several_rest(count, resting):
    """Where all fail, a lone worker rests, and of several no more than half."""
    chosen, _ = several(count)
    for each in chosen.workers:
        trip(chosen, each)
    assert resting == sum(each.breaker.is_open for each in chosen.workers)


def test_one_on_trial_still_counts_as_resting():
    """A worker whose trial has not ended takes the place of another that might rest."""
    chosen, _ = several(3)
    first, second, _ = chosen.workers
    first.breaker.trip(0.0, "slow")
    chosen.look(5.0)
    assert first.breaker.is_on_trial
    trip(chosen, second, now=5.0)
    assert Circuit.CLOSED is second.breaker.state
    chosen.take(ticket(), first, 5.0).end(Cause.ANSWER, 9.0)
    fail(chosen, second, now=10.0)
    assert Circuit.OPEN is second.breaker.state


ACTS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(Cause), st.floats(0, 20)), max_size=80)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 5), ACTS)
def test_never_more_than_half_rest(count, acts):
    """Whatever fails and whenever, at most half of the workers are rested or on trial."""
    chosen, _ = several(count)
    now = 0.0
    for at, cause, wait in acts:
        now += wait
        chosen.look(now)
        fail(chosen, chosen.workers[at % count], cause, now)
        away = sum(each.breaker.state is not Circuit.CLOSED for each in chosen.workers)
        assert away <= count // 2


def test_a_pool_whose_workers_all_fail_is_rested():
    """Five failures in a row over several workers are not the workers' fault."""
    chosen, told = several(4)
    for at in range(FAILURES_IN_A_ROW):
        assert None is chosen.missing(ticket().task)
        fail(chosen, chosen.workers[at % 4], now=2.0)
    assert "the last requests to pool 'both' all failed, and it is rested" == chosen.missing(
        ticket().task
    )
    assert [("both", "", "bad_status")] == told
    assert not any(each.breaker.is_open for each in chosen.workers)


def test_a_pool_of_one_has_no_circuit():
    """Where there is one worker, its own breaker says all."""
    chosen, told = several(1)
    for _ in range(9):
        fail(chosen, chosen.workers[0])
    assert (0, [("both", "w-0", "bad_status")]) == (chosen.circuit.row, told)


@pytest.mark.parametrize(("cause", "is_open"), [(Cause.ANSWER, False), (Cause.LOST, True)])
def test_a_rested_pool_is_tried_with_one_request(cause, is_open):
    """After its rest a pool gets one request; its end opens the pool, or rests it for longer."""
    chosen, _ = several(3, capacity=2)
    chosen.circuit.trip(0.0, "lost")
    assert [] == chosen.free(ticket(), 4.9)
    chosen.look(5.0)
    trial = take(chosen, ticket(), 5.0)
    assert [] == chosen.free(ticket(), 5.0)
    trial.end(cause, 6.0)
    assert is_open is chosen.circuit.is_open
    assert 16.0 == chosen.circuit.until or not is_open


def test_a_worker_that_passed_its_trial_starts_slowly_and_unburdened():
    """After a good trial a worker is back at its usual pace, with few slots at first."""
    chosen, _ = several(2, capacity=4)
    first, second = chosen.workers
    first.pace = 4.0
    first.breaker.trip(0.0, "slow")
    chosen.look(5.0)
    take(chosen, ticket(without=(second,)), 5.0).end(Cause.ANSWER, 15.0)
    assert (Circuit.CLOSED, 1.0, 15.0) == (first.breaker.state, first.pace, first.returned)
    assert (1, 4) == (first.slots(16.0), first.slots(45.0))


@pytest.mark.parametrize("cause", [Cause.ANSWER, Cause.BAD_STATUS])
def test_what_was_begun_before_a_rest_is_no_trial(cause):
    """Only a request that was let through after the rest decides how the trial ends."""
    chosen, _ = several(2, capacity=5)
    first = chosen.workers[0]
    before = chosen.take(ticket(), first, 0.0)
    trip(chosen, first, now=1.0)
    chosen.look(6.0)
    assert first.breaker.is_on_trial
    before.end(cause, 7.0)
    assert first.breaker.is_on_trial


@pytest.mark.parametrize("cause", [Cause.ANSWER, Cause.BAD_STATUS])
def test_what_was_begun_before_a_pool_rested_is_no_trial(cause):
    """The trial of a whole pool, too, is a request that was let through after its rest."""
    chosen, told = several(2, capacity=2)
    before = take(chosen, ticket(), 0.0)
    chosen.circuit.trip(1.0, "lost")
    chosen.look(6.0)
    trial = take(chosen, ticket(), 6.0)
    assert [] == chosen.free(ticket(), 6.0), "one trial, though what is older still runs"
    before.end(cause, 7.0)
    assert (True, []) == (chosen.circuit.is_on_trial, told)
    trial.end(Cause.ANSWER, 17.0)
    assert Circuit.CLOSED is chosen.circuit.state
