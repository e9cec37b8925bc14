"""No caller starves another: not by a flood, not by small jobs, not while a third one waits."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.caller import Caller
from gateway.routing.line import SLACK_ROUNDS
from gateway.routing.order import ORDERS
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import join, line, ticket, worker

A, B, C, D = (Caller(name) for name in "abcd")


class Shop:
    """Is a line in which some callers always have work waiting; counts what each is given."""

    def __init__(self, slots, order, sizes, batch=1):
        workers = (worker(f"w-{n}", batch) for n in range(slots))
        self.line = line(*workers, order=order)
        self.slots = slots * batch
        self.sizes = sizes
        self.given = dict.fromkeys(sizes, 0.0)
        self.slack = 0.0
        self.now = 0.0
        self._running = []
        for caller in sizes:
            self.come(caller, self.slots + 2)

    def come(self, caller, tickets=1, **options):
        """Lets a caller join."""
        options = {"seconds": self.sizes.get(caller, 10.0), "caller": caller} | options
        made = [ticket(arrived=self.now, **options) for _ in range(tickets)]
        return join(self.line, *made)

    def step(self):
        """Serves until all slots are taken, refills the line, then lets the oldest end."""
        waiting = [each.predicted for each in self.line.tickets]
        self.slack = max(self.slack, SLACK_ROUNDS * self.slots * sum(waiting) / len(waiting))
        leases = self.line.assign(self.now)
        for lease in leases:
            caller = lease.ticket.caller
            if caller in self.sizes:
                self.given[caller] += lease.ticket.predicted
                self.come(caller)
        self._running += leases
        if self._running:
            oldest = self._running.pop(0)
            self.now += oldest.ticket.predicted / self.slots
            oldest.end(Cause.CLIENT_LEFT, self.now)
        return [lease.ticket for lease in leases]


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_a_flood_delays_another_by_no_more_than_the_slack(order, slots):
    """Before another caller's large job, a flood of small ones gets the slack and one job."""
    shop = Shop(slots, order, {A: 4.0})
    shop.come(A, 200)
    for _ in range(50):
        shop.step()
    (job,) = shop.come(B, seconds=30.0)
    before, shop.slack = shop.given[A], 0.0
    while job not in shop.step():
        assert shop.given[A] - before <= shop.slack + 4.0 * (1 + 1e-6)


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.floats(2, 40), min_size=2, max_size=4),
    slots=st.integers(1, 3),
    batch=st.integers(1, 3),
    order=st.sampled_from(sorted(ORDERS)),
)
def test_backlogged_callers_are_given_the_same(sizes, slots, batch, order):
    """While all have work waiting, nobody is ahead by more than the slack and a batch."""
    shop = Shop(slots, order, {Caller(str(n)): size for n, size in enumerate(sizes)}, batch)
    for _ in range(60):
        shop.step()
        spread = max(shop.given.values()) - min(shop.given.values())
        assert spread <= shop.slack + batch * max(sizes) * (1 + 1e-6)


@settings(deadline=None, max_examples=20)
@given(order=st.sampled_from(sorted(ORDERS)), size=st.floats(2, 40), waits=st.integers(0, 40))
def test_nobody_waits_for_ever(order, size, waits):
    """Whatever is waiting and however large it is, it is served after a bounded number of jobs."""
    shop = Shop(2, order, {A: 4.0, B: 9.0})
    for _ in range(waits):
        shop.step()
    (job,) = shop.come(C, seconds=size)
    assert any(job in shop.step() for _ in range(100))


@pytest.mark.parametrize("order", ORDERS)
def test_a_caller_of_a_lower_class_does_not_end_fairness_in_a_higher_one(order):
    """Two callers of one class share alike while one of a lower class has to wait for both."""
    high, other = Caller("high", 1), Caller("other", 1)
    shop = Shop(1, order, {high: 4.0, other: 12.0})
    shop.come(Caller("low", 0), seconds=2.0)
    for _ in range(100):
        shop.step()
    assert abs(shop.given[high] - shop.given[other]) <= shop.slack + 12.0


@pytest.mark.parametrize("order", ORDERS)
def test_what_was_refused_was_not_given(order):
    """A caller whose requests are refused by a worker, and sent again, is not charged twice."""
    waits = line(worker("w-0"), worker("w-1"), order=order)
    given = {A: 0, B: 0}
    for _ in range(60):
        for caller in (A, B):
            if not any(each.caller == caller for each in waits.tickets):
                join(waits, *(ticket(caller=caller) for _ in range(3)))
        for lease in waits.assign(0.0):
            is_refused = lease.ticket.caller == A and lease.ticket.number == 1
            lease.end(Cause.BUSY if is_refused else Cause.CLIENT_LEFT, 0.0)
            if is_refused:
                join(waits, ticket(caller=A, number=2, without=(lease.worker,)))
            else:
                given[lease.ticket.caller] += 1
    assert abs(given[A] - given[B]) <= 2 * SLACK_ROUNDS + 1


def blocked_shop(order):
    """Opens a shop in which C's pictures wait for a worker that is at work for long."""
    shop = Shop(2, order, {A: 4.0, B: 12.0})
    text, seeing = shop.line.pool.workers
    text.capability.report(frozenset({Task.T2I}))
    shop.line.pool.take(ticket(Task.I2I), seeing, 0.0)
    shop.come(C, task=Task.I2I)
    return shop


@pytest.mark.parametrize("order", ORDERS)
def test_a_caller_who_cannot_be_served_yet_does_not_end_fairness(order):
    """Two callers share a worker alike while a third waits for another worker."""
    shop = blocked_shop(order)
    for _ in range(100):
        shop.step()
    assert abs(shop.given[A] - shop.given[B]) <= shop.slack + 12.0


@pytest.mark.parametrize("order", ORDERS)
def test_a_new_caller_is_level_with_those_who_are_served(order):
    """A newcomer has no claim on the past, though somebody waits who was never served."""
    shop = blocked_shop(order)
    for _ in range(100):
        shop.step()
    before = shop.given[A] + shop.given[B]
    shop.sizes[D] = 4.0
    shop.given[D] = 0.0
    shop.come(D, 3)
    for _ in range(100):
        shop.step()
    others = (shop.given[A] + shop.given[B] - before) / 2
    assert abs(shop.given[D] - others) <= 2 * (shop.slack + 12.0)


def test_what_a_lone_caller_took_is_not_held_against_it():
    """Who was served while nobody waited owes nothing when others come."""
    waits = line(worker(), order="fifo")
    for now in count(0.0, 10.0):
        join(waits, ticket(caller=A, arrived=now))
        (lease,) = waits.assign(now)
        lease.end(Cause.CLIENT_LEFT, now + 10.0)
        if now > 500.0:
            break
    first, second = join(waits, ticket(caller=A, arrived=600.0), ticket(caller=B, arrived=601.0))
    assert [first, second] == waits.ranked(601.0)
