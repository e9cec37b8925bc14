"""A few questions decide whether a worker gets work: is it up, rested, able, free, warm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import WorkerConfig
from gateway.routing.health import Sign
from gateway.routing.request import Task
from gateway.routing.worker import Worker
from tests.routing.builders import pool, ticket, worker

T2I, I2I = Task.T2I, Task.I2I


def hold(worker, count):
    """Lets a worker hold so many leases."""
    owner = pool(worker)
    for _ in range(count):
        owner.take(ticket(), worker, 0.0)


def test_a_new_worker_gets_nothing():
    """A worker that was never probed is not fit for any task."""
    new = Worker("t2i-0", "http://t2i-0.test")
    assert not any(new.is_fit(task) or new.is_available(task, 0.0) for task in Task)


@pytest.mark.parametrize(
    ("reported", "able"),
    [
        (None, {T2I, I2I}),
        (frozenset({T2I, I2I}), {T2I, I2I}),
        (frozenset({T2I}), {T2I}),
        (frozenset({I2I}), {I2I}),
        (frozenset(), set()),
    ],
)
def test_a_worker_is_fit_for_what_it_reports(reported, able):
    """A worker that reports its tasks gets no other; one that says nothing is believed."""
    asked = worker()
    asked.capability.report(reported)
    assert able == {task for task in Task if asked.is_fit(task)}


@pytest.mark.parametrize(
    ("capacity", "in_flight", "is_full"), [(1, 0, False), (1, 1, True), (4, 3, False), (4, 4, True)]
)
def test_a_worker_is_available_while_a_slot_is_free(capacity, in_flight, is_full):
    """A worker is available up to its capacity, and stays fit when it is full."""
    asked = worker(capacity=capacity)
    hold(asked, in_flight)
    assert (in_flight, is_full, not is_full, True) == (
        asked.in_flight,
        asked.is_full(0.0),
        asked.is_available(I2I, 0.0),
        asked.is_fit(I2I),
    )


def test_a_silent_worker_keeps_its_place_and_gets_nothing_new():
    """A worker that is too busy for a probe counts as fit, and is not available."""
    silent = worker(capacity=2)
    hold(silent, 1)
    assert not silent.see(Sign.SILENT_AT_WORK, 1.0)
    assert (True, False, "silent") == (
        silent.is_fit(T2I),
        silent.is_available(T2I, 1.0),
        silent.state,
    )
    silent.see(Sign.ANSWERED, 2.0)
    assert silent.is_available(T2I, 2.0)


def test_a_worker_that_was_away_is_believed_again():
    """A worker that was down and came back may be another one."""
    blind = worker()
    blind.capability.is_blind = True
    assert blind.see(Sign.LOST_ATTEMPT, 1.0)
    assert not blind.is_fit(T2I)
    assert blind.see(Sign.GOOD_PROBE, 2.0)
    assert blind.is_fit(I2I)


def test_a_worker_that_was_never_away_is_not_forgotten():
    """What a worker showed stays while it is up."""
    blind = worker()
    blind.capability.is_blind = True
    assert not blind.see(Sign.BAD_PROBE, 1.0)
    assert not blind.see(Sign.GOOD_PROBE, 1.0)
    assert not blind.is_fit(I2I)


@pytest.mark.parametrize(
    ("away", "slots"),
    [(0.0, 1), (7.5, 1), (7.6, 2), (15.0, 2), (15.1, 3), (29.9, 4), (30.0, 4), (999.0, 4)],
)
def test_a_worker_that_returns_starts_slowly(away, slots):
    """After a return a worker's slots grow over half a minute from one to all."""
    back = worker(capacity=4)
    assert 4 == back.slots(0.0)
    back.see(Sign.LOST_ATTEMPT, 50.0)
    back.see(Sign.GOOD_PROBE, 100.0)
    assert slots == back.slots(100.0 + away)


def test_a_worker_that_appears_for_the_first_time_starts_at_once():
    """A worker that was never up before has nothing to recover from."""
    new = Worker("i2i-0", "http://i2i-0.test", capacity=4)
    new.see(Sign.GOOD_PROBE, 100.0)
    assert (4, 1.0) == (new.slots(100.0), new.warmth(100.0))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 16), st.floats(0, 60), st.floats(0, 60))
def test_a_slow_start_only_ever_grows(capacity, early, late):
    """A later time never has fewer slots, none has less than one or more than the capacity."""
    back = worker(capacity=capacity)
    back.returned = 100.0
    early, late = sorted((early, late))
    assert 1 <= back.slots(100.0 + early) <= back.slots(100.0 + late) <= capacity


def test_a_worker_on_trial_has_one_slot():
    """A worker that was rested is tried with one request at a time."""
    tried = worker(capacity=4)
    tried.breaker.trip(0.0, "slow")
    assert (False, "resting") == (tried.is_in_service, tried.state)
    tried.breaker.look(5.0)
    assert (True, 1, "on_trial") == (tried.is_in_service, tried.slots(5.0), tried.state)
    pool(tried).take(ticket(), tried, 5.0)
    assert tried.is_full(5.0)


def test_what_is_left_from_before_a_trial_does_not_stand_in_its_way():
    """An old request on a worker of several slots leaves one for the trial; of one slot, none."""
    for capacity, is_full in ((2, False), (1, True)):
        tried = worker(capacity=capacity)
        hold(tried, 1)
        tried.breaker.trip(0.0, "slow")
        tried.breaker.look(5.0)
        assert is_full is tried.is_full(5.0)


def test_a_drained_worker_gets_nothing():
    """An operator takes a worker out of service without a word about its health."""
    drained = worker()
    drained.is_drained = True
    assert (True, False, "drained") == (
        drained.health.is_up,
        drained.is_fit(T2I),
        drained.state,
    )


def test_a_worker_shows_its_state():
    """The `repr` of a worker tells name, health and load, and its address loses a last slash."""
    shown = Worker("i2i-0", "http://i2i-0.test/", capacity=2)
    hold(shown, 1)
    assert "<Worker i2i-0 [down | 1/2]>" == repr(shown)
    assert "http://i2i-0.test" == shown.url
    shown.see(Sign.GOOD_PROBE, 0.0)
    assert "<Worker i2i-0 [up | 1/2]>" == repr(shown)


@pytest.mark.parametrize(
    ("written", "said", "stops"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"stops_on_disconnect": False}, True, False),
        ({"stops_on_disconnect": True}, False, True),
    ],
)
def test_whether_it_stops_is_the_configurations_word_before_its_own(written, said, stops):
    """Where the configuration is silent, a worker's own word on stopping counts."""
    asked = worker()
    asked.said_to_stop = said
    asked.configure("new", WorkerConfig(url="http://i2i-0.test", capacity=3, **written))
    assert (stops, "new", 3) == (asked.stops_on_disconnect, asked.name, asked.capacity)


@pytest.mark.parametrize(
    ("tasks", "able"),
    [(None, {T2I}), (("t2i", "i2i"), {T2I, I2I}), (("i2i",), {I2I}), ((), set())],
)
def test_what_it_can_do_is_the_configurations_word_before_its_own(tasks, able):
    """Configured tasks win over what a worker reports."""
    asked = worker()
    asked.capability.report(frozenset({T2I}))
    asked.configure("i2i-0", WorkerConfig(url="http://i2i-0.test", tasks=tasks))
    assert able == {task for task in Task if asked.is_fit(task)}


def test_a_worker_learns_its_pace():
    """A pace moves to what a worker shows, and a single odd request moves it little."""
    slow = worker()
    slow.took(50.0, 10.0)
    assert 1.5 < slow.pace < 2.0
    for _ in range(20):
        slow.took(50.0, 10.0)
    assert pytest.approx(5.0, rel=0.05) == slow.pace


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(1e-3, 1e6)), max_size=50))
def test_a_pace_stays_in_bounds(seen):
    """Whatever is measured, a pace is between a tenth and ten."""
    odd = worker()
    for seconds, predicted in seen:
        odd.took(seconds, predicted)
    assert 0.1 * (1 - 1e-9) <= odd.pace <= 10.0 * (1 + 1e-9)
