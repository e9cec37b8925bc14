"""Three questions decide whether a worker gets work: is it up, is it able, is it free."""

from __future__ import annotations

import pytest

from gateway.routing.health import Sign
from gateway.routing.request import Task
from gateway.routing.worker import Worker
from tests.routing.builders import worker

T2I, I2I = Task.T2I, Task.I2I


def test_a_new_worker_gets_nothing():
    """A worker that was never probed is not fit for any task."""
    new = Worker("t2i-0", "http://t2i-0.test")
    assert not any(new.is_fit(task) or new.is_available(task) for task in Task)


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
    asked.reported_tasks = reported
    assert able == {task for task in Task if asked.is_fit(task)}


@pytest.mark.parametrize(
    ("capacity", "in_flight", "is_full"), [(1, 0, False), (1, 1, True), (4, 3, False), (4, 4, True)]
)
def test_a_worker_is_available_while_a_slot_is_free(capacity, in_flight, is_full):
    """A worker is available up to its capacity, and stays fit when it is full."""
    asked = worker(capacity=capacity)
    asked.in_flight = in_flight
    assert (is_full, not is_full, True) == (
        asked.is_full,
        asked.is_available(I2I),
        asked.is_fit(I2I),
    )


@pytest.mark.parametrize(
    ("reported", "left"),
    [(None, {T2I}), (frozenset({T2I, I2I}), {T2I}), (frozenset({I2I}), set())],
)
def test_a_worker_that_refused_a_picture_gets_no_other(reported, left):
    """A worker that showed itself text-only is fit for text alone, whatever it goes on saying."""
    blind = worker()
    blind.report(reported)
    blind.is_blind = True
    blind.report(reported)
    blind.see(Sign.GOOD_PROBE)
    assert left == {task for task in Task if blind.is_fit(task)}


def test_a_worker_that_reports_something_else_is_believed():
    """A change in what a worker reports clears what it showed before."""
    blind = worker()
    blind.report(frozenset({T2I}))
    blind.is_blind = True
    blind.report(frozenset(Task))
    assert blind.is_fit(I2I)


def test_a_worker_that_was_away_is_believed_again():
    """A worker that was down and came back may be another one."""
    blind = worker()
    blind.is_blind = True
    assert blind.see(Sign.LOST_ATTEMPT)
    assert blind.see(Sign.GOOD_PROBE)
    assert blind.is_fit(I2I)


def test_a_worker_shows_its_state():
    """The `repr` of a worker tells name, health and load, and its address loses a last slash."""
    shown = Worker("i2i-0", "http://i2i-0.test/", capacity=2, stops_on_disconnect=True)
    shown.in_flight = 1
    assert "<Worker i2i-0 [down | 1/2]>" == repr(shown)
    assert ("http://i2i-0.test", True) == (shown.url, shown.stops_on_disconnect)
