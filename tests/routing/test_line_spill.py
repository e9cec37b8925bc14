"""Texts that come from another pool leave room for the pictures of this one."""

from __future__ import annotations

import pytest

from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import join, line, ticket, worker

T2I, I2I = Task.T2I, Task.I2I
OWN = ("i2i", "t2i")


def spill(**options):
    """Makes a text that its own pool could not serve."""
    return ticket(T2I, is_spill=True, **options)


def pictures(*capacities, **options):
    """Makes the line of a pool whose own work is pictures."""
    workers = (worker(f"w-{at}", capacity) for at, capacity in enumerate(capacities))
    return line(*workers, tasks=OWN, **options)


@pytest.mark.parametrize(
    ("capacities", "spilled"), [((1,), 1), ((2,), 1), ((1, 1), 1), ((4,), 3), ((2, 2, 1), 4)]
)
def test_a_spill_leaves_one_slot(capacities, spilled):
    """However many texts spill, one slot stays for pictures; a lone slot is shared."""
    waits = pictures(*capacities)
    join(waits, *(spill() for _ in range(9)))
    assert spilled == len(waits.assign(0.0))
    (own,) = join(waits, ticket(I2I))
    served = [lease.ticket for lease in waits.assign(0.0)]
    assert ([] if capacities == (1,) else [own]) == served


@pytest.mark.parametrize("capacities", [(1,), (2,), (1, 1)])
def test_own_work_needs_no_reserve(capacities):
    """A pool's own work takes every slot, its own texts included."""
    waits = pictures(*capacities)
    join(waits, *(ticket(task) for task in (T2I, I2I, T2I)))
    assert sum(capacities) == len(waits.assign(0.0))


@pytest.mark.parametrize("order", ["on_time", "fifo", "sjf", "edf"])
def test_of_a_lone_slot_own_work_is_first(order):
    """In a pool of one slot a picture goes before every text that spilled, whenever it came."""
    waits = pictures(1, order=order)
    other, own = join(waits, spill(seconds=2.0), ticket(I2I, seconds=30.0, arrived=5.0))
    (lease,) = waits.assign(5.0)
    assert own is lease.ticket
    lease.end(Cause.ANSWER, 35.0)
    assert [other] == [lease.ticket for lease in waits.assign(35.0)]


def test_the_reserve_is_a_slot_that_can_do_pictures():
    """A worker that sees no pictures takes spilled texts, and is not counted as a reserve."""
    waits = pictures(1, 1, 1)
    blind, *seeing = waits.pool.workers
    blind.capability.is_blind = True
    join(waits, *(spill() for _ in range(9)))
    assert 2 == len(waits.assign(0.0))
    assert [1, 1] == [blind.in_flight, sum(each.in_flight for each in seeing)]


def test_a_blind_worker_takes_a_spill_though_the_reserve_is_all_that_is_left():
    """Where only the kept slot and a worker without eyes are free, the latter takes the text."""
    waits = pictures(2, 1)
    seeing, blind = waits.pool.workers
    blind.capability.is_blind = True
    waits.pool.take(spill(), seeing, 0.0)
    join(waits, spill())
    assert [blind] == [lease.worker for lease in waits.assign(0.0)]


def test_of_a_lone_slot_for_pictures_own_work_is_first():
    """One slot that can do pictures is a lone slot, whatever else can do texts."""
    waits = pictures(1, 1)
    seeing, blind = waits.pool.workers
    blind.capability.is_blind = True
    waits.pool.take(ticket(T2I), blind, 0.0)
    _, own = join(waits, spill(), ticket(I2I, arrived=5.0))
    assert [(own, seeing)] == [(lease.ticket, lease.worker) for lease in waits.assign(5.0)]


def test_a_spill_runs_while_own_work_cannot():
    """Own work that no free worker may take keeps no text out of a pool of several slots."""
    waits = pictures(1, 1, 1)
    for each in waits.pool.workers[1:]:
        each.capability.is_blind = True
    waits.pool.take(ticket(I2I), waits.pool.workers[0], 0.0)
    join(waits, ticket(I2I), spill(arrived=1.0))
    assert [True] == [lease.ticket.is_spill for lease in waits.assign(1.0)]


def test_no_spill_fills_a_batch():
    """A batch of own work is not filled with texts that take the reserve."""
    waits = pictures(2, order="fifo")
    join(waits, ticket(T2I, shape="a"), spill(shape="a"), spill(shape="a"))
    served = waits.assign(0.0)
    assert 1 == sum(lease.ticket.is_spill for lease in served)
