"""Who can no longer be on time steps aside, but not for those whom he would not harm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.line import SPARE
from gateway.routing.order import is_late
from tests.routing.builders import join, line, take, ticket, worker


@pytest.mark.parametrize(
    ("now", "first"),
    [
        (7.0, "small"),  # on time, and due first
        (9.0, "small"),  # late, but the other has time for it, and to spare
        (10.1, "other"),  # late, and too little would be left
        (21.0, "small"),  # both are late: the shorter goes
    ],
)
def test_a_late_one_goes_first_where_the_others_stay_on_time(now, first):
    """A late one of 4 s goes before one of 10 s that is due at 30, while that leaves it 6 s."""
    waits = line(worker())
    small, other = join(waits, ticket(seconds=4.0), ticket(seconds=10.0))
    names = {small: "small", other: "other"}
    assert first == names[waits.ranked(now)[0]]


def test_all_slots_count():
    """With a second slot free there is room for both."""
    waits = line(worker("w-0"), worker("w-1"))
    small, _ = join(waits, ticket(seconds=4.0), ticket(seconds=10.0))
    assert small is waits.ranked(14.0)[0]
    take(waits.pool, ticket(seconds=30.0))
    assert small is not waits.ranked(14.0)[0]


def test_without_a_slot_nobody_is_favoured():
    """Where no worker is in service the late stand behind the others."""
    waits = line()
    small, other = join(waits, ticket(seconds=4.0), ticket(seconds=10.0))
    assert [other, small] == waits.ranked(9.0)


@pytest.mark.parametrize("order", ["fifo", "sjf", "edf"])
def test_other_orders_favour_nobody(order):
    """Only `on_time` knows late ones."""
    waits = line(worker(), order=order)
    first, _ = join(waits, ticket(seconds=5.0), ticket(seconds=10.0, arrived=0.1))
    assert first is waits.ranked(25.0)[0]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(2, 40), min_size=2, max_size=8), st.floats(0, 60))
def test_nobody_is_made_late_by_one_who_is(sizes, now):
    """If a late one goes first, all who are on time would still be, as far as is known."""
    waits = line(worker())
    join(waits, *(ticket(seconds=size) for size in sizes))
    first = waits.ranked(now)[0]
    others = sorted(
        (each for each in waits.tickets if not is_late(each, now)), key=lambda each: each.due
    )
    if is_late(first, now):
        at = now + first.predicted
        for other in others:
            at += other.predicted
            assert at + SPARE * first.predicted <= other.due * (1 + 1e-9)
