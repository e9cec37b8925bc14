"""The breaker: its table pair by pair, and its rests."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.breaker import MOVES, REST_SECONDS, Breaker, Circuit, Event

C, O, H = Circuit.CLOSED, Circuit.OPEN, Circuit.HALF_OPEN  # noqa: E741 - the table is narrow
EXPECTED = [
    # state, tripped, rested, passed, failed
    (C, O, C, C, C),
    (O, O, H, O, O),
    (H, O, H, C, O),
]
EVENTS = (Event.TRIPPED, Event.RESTED, Event.PASSED, Event.FAILED)


def test_the_table_of_the_breaker_is_complete():
    """Every state knows what to do with every event, and the test knows them all."""
    expected = {
        (state, event): after
        for state, *afters in EXPECTED
        for event, after in zip(EVENTS, afters, strict=True)
    }
    assert {(state, event) for state in Circuit for event in Event} == set(expected)
    assert expected == dict(MOVES)


def test_a_breaker_begins_closed():
    """Everything passes until something fails."""
    breaker = Breaker(3)
    breaker.look(1e9)
    assert (C, False, False) == (breaker.state, breaker.is_open, breaker.is_on_trial)


def test_a_row_of_failures_opens_it():
    """So many failures in a row open it, and only the last of them says so."""
    breaker = Breaker(3)
    assert [False, False, True] == [breaker.failed(1.0, "bad_status") for _ in range(3)]
    assert (O, 6.0, "bad_status") == (breaker.state, breaker.until, breaker.reason)


def test_a_success_ends_the_row():
    """Failures that are not in a row are chance."""
    breaker = Breaker(3)
    for _ in range(10):
        breaker.failed(0.0, "bad_status")
        breaker.failed(0.0, "bad_status")
        breaker.passed(0.0)
    assert (C, 0) == (breaker.state, breaker.row)


def test_one_that_may_not_open_opens_when_it_may():
    """A row goes on counting while it may not open the breaker, and is not forgotten."""
    breaker = Breaker(2)
    assert not any(breaker.failed(0.0, "lost", may_trip=False) for _ in range(9))
    assert (C, 9) == (breaker.state, breaker.row)
    assert breaker.failed(0.0, "lost")


@pytest.mark.parametrize(("now", "state"), [(0.0, O), (4.9, O), (5.0, H), (99.0, H)])
def test_a_rest_ends_with_a_trial(now, state):
    """After its rest a breaker lets one request through."""
    breaker = Breaker(1)
    breaker.failed(0.0, "lost")
    breaker.look(now)
    assert state is breaker.state


def test_what_was_begun_before_moves_no_rest():
    """While it rests neither a success nor a failure changes anything, or the rest."""
    breaker = Breaker(1)
    breaker.failed(0.0, "lost")
    breaker.passed(1.0)
    assert not breaker.failed(2.0, "bad_status")
    assert not breaker.trip(3.0, "slow")
    assert (O, 5.0, "lost") == (breaker.state, breaker.until, breaker.reason)


def test_each_trial_that_fails_doubles_the_rest_up_to_a_minute():
    """A rest is 5 s, then twice as long after each failed trial, at most 60 s."""
    breaker, now, rests = Breaker(1), 0.0, []
    breaker.trip(now, "slow")
    for _ in range(6):
        rests.append(breaker.until - now)
        now = breaker.until
        breaker.look(now)
        assert breaker.failed(now, "bad_status", may_trip=False)
    assert [5.0, 10.0, 20.0, 40.0, 60.0, 60.0] == rests


def test_a_trial_that_ends_well_closes_it_and_makes_the_next_rest_short():
    """After a good trial everything is as at the beginning."""
    breaker = Breaker(3)
    for now in (0.0, 5.0):
        breaker.look(now)
        breaker.trip(now, "slow")
    breaker.look(15.0)
    breaker.passed(15.0)
    assert (C, 0) == (breaker.state, breaker.row)
    assert breaker.trip(20.0, "slow")
    assert 25.0 == breaker.until


ACTS = st.sampled_from(["look", "passed", "failed", "may not", "trip"])


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.lists(st.tuples(st.floats(0, 30), ACTS), max_size=40))
def test_a_breaker_never_rests_longer_than_a_minute_nor_gets_stuck(threshold, acts):
    """Whatever happens, it opens only when told so, and a minute later it is tried again."""
    breaker, now = Breaker(threshold), 0.0
    for wait, act in acts:
        now += wait
        was_open = breaker.is_open
        if act == "look":
            breaker.look(now)
        elif act == "passed":
            breaker.passed(now)
        elif act == "trip":
            assert breaker.trip(now, "r") is not was_open
        else:
            has_opened = breaker.failed(now, "r", may_trip=act == "failed")
            assert has_opened is (breaker.is_open and not was_open)
        assert breaker.state is not O or breaker.until - now <= REST_SECONDS[1] + 1e-9
    breaker.look(now + REST_SECONDS[1])
    assert not breaker.is_open
