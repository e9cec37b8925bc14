"""Each order as a table of who goes before whom, and the shares of the callers by themselves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.caller import Caller
from gateway.routing.order import ORDERS, Shares, is_late
from tests.routing.builders import ticket

A, B, C = (Caller(name) for name in "abc")
HIGH = Caller("high", 1)


def waiting(arrived, predicted, due):
    """Makes a ticket that stands in a line."""
    made = ticket(arrived=arrived)
    made.predicted, made.due = predicted, due
    return made


OLD_LARGE = (0.0, 30.0, 90.0)
SMALL = (10.0, 2.0, 16.0)
MIDDLE = (20.0, 10.0, 50.0)
ALL = {"old_large": OLD_LARGE, "small": SMALL, "middle": MIDDLE}


@pytest.mark.parametrize(
    ("order", "now", "expected"),
    [
        ("fifo", 20.0, ["old_large", "small", "middle"]),
        ("fifo", 999.0, ["old_large", "small", "middle"]),
        ("sjf", 20.0, ["small", "middle", "old_large"]),
        ("edf", 20.0, ["small", "middle", "old_large"]),
        ("edf", 999.0, ["small", "middle", "old_large"]),
        # On time: all three can be; then the small one is late, then the middle, then the large.
        ("on_time", 13.0, ["small", "middle", "old_large"]),
        ("on_time", 20.0, ["middle", "old_large", "small"]),
        ("on_time", 41.0, ["old_large", "small", "middle"]),
        # All late: by how long each has waited for its size.
        ("on_time", 61.0, ["small", "middle", "old_large"]),
    ],
)
def test_each_order_puts_first_what_its_name_says(order, now, expected):
    """First come, shortest, earliest due; and on time, where the late step aside."""
    tickets = {name: waiting(*facts) for name, facts in ALL.items()}
    assert expected == sorted(tickets, key=lambda name: ORDERS[order](tickets[name], now))


@pytest.mark.parametrize(("now", "late"), [(0.0, False), (10.0, False), (10.1, True), (99, True)])
def test_a_ticket_is_late_when_it_could_not_end_by_its_due_time(now, late):
    """Late is who would miss the due time even if he began now."""
    assert late is is_late(waiting(0.0, 20.0, 30.0), now)


TICKETS = st.builds(
    waiting, st.floats(0, 100), st.floats(0.1, 100), st.floats(0, 1000, exclude_min=True)
)


@settings(deadline=None, max_examples=60)
@given(TICKETS, TICKETS, st.floats(100, 1100))
def test_nobody_who_is_late_goes_before_one_who_can_be_on_time(one, other, now):
    """On time, the late stand behind all others, whatever their size and due time."""
    first = min((one, other), key=lambda each: ORDERS["on_time"](each, now))
    assert not is_late(first, now) or (is_late(one, now) and is_late(other, now))


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None, max_examples=20)
@given(ticket=TICKETS, now=st.floats(0, 2000))
def test_an_order_depends_on_nothing_but_ticket_and_time(order, ticket, now):
    """An order is a pure function: the same ticket at the same time has the same key."""
    assert ORDERS[order](ticket, now) == ORDERS[order](ticket, now)


def shares(**given):
    """Makes shares of callers that have been given so many seconds without a rival."""
    made = Shares()
    for caller in (A, B, C, HIGH):
        made.join(caller)
        made.charge(caller, given.get(caller.name, 0.0), ())
    return made


def test_a_caller_far_ahead_of_a_rival_steps_behind():
    """Who was given more than the slack above the least served of his rivals is ahead."""
    held = shares(a=10.0, b=4.0)
    assert frozenset() == held.ahead([], 1.0)
    assert frozenset() == held.ahead([A], 0.0)
    assert frozenset({A}) == held.ahead([A, B], 5.9)
    assert frozenset() == held.ahead([A, B], 6.0)
    assert frozenset({A, B}) == held.ahead([A, B, C], 3.0)


def test_callers_compete_within_their_class():
    """What one of another class was given says nothing about who is ahead."""
    held = shares(a=10.0, b=4.0, high=20.0)
    assert frozenset({A}) == held.ahead([A, B, HIGH], 5.0)
    assert frozenset() == held.ahead([A, HIGH], 0.0)


def test_nobody_saves_up_claims_while_he_is_away():
    """Who joins is level with the least served of the last round, and has no older claim."""
    held = shares(a=100.0, b=50.0)
    held.charge(A, 10.0, [B])
    held.join(C)
    held.charge(C, 10.0, [A, B])
    assert frozenset({A}) == held.ahead([A, C], 49.0)
    assert frozenset({C}) == held.ahead([B, C], 9.0)


def test_a_level_never_falls():
    """A round in which somebody catches up gives no newcomer a claim."""
    held = shares(a=100.0)
    held.charge(A, 1.0, [])
    held.charge(B, 1.0, [A, C])
    held.join(C)
    assert frozenset() == held.ahead([A, C], 1.0)


def test_nobody_loses_a_debt_by_coming_back():
    """Who has been given more than the others has it still when he joins again."""
    held = shares(a=100.0)
    held.join(A)
    assert frozenset({A}) == held.ahead([A, B], 99.0)


def test_what_was_free_is_forgotten():
    """What was given while nobody had to wait is at nobody's cost."""
    held = shares(a=100.0)
    held.charge(A, 1.0, [])
    held.forget()
    for caller in (A, B):
        held.join(caller)
    assert frozenset() == held.ahead([A, B], 0.0)
