"""Which of the free workers gets a picture: by expected work, by load, or in turn."""

from __future__ import annotations

import pytest

from gateway.routing.balance import BALANCES, expected_work
from gateway.routing.outcome import Cause
from tests.routing.builders import pool, take, ticket, worker


def names(chosen, count, **options):
    """Takes so many slots and names the workers."""
    return [take(chosen, ticket(**options)).worker.name for _ in range(count)]


def test_the_least_loaded_worker_is_taken():
    """By load, a slot is taken on the worker with the smallest share of its capacity in use."""
    small, large = worker("w-0", capacity=1), worker("w-1", capacity=4)
    chosen = pool(small, large, balance="least_in_flight")
    assert ["w-0", "w-1", "w-1", "w-1", "w-1"] == names(chosen, 5)
    assert None is take(chosen, ticket())


def test_workers_take_turns():
    """In turn, each free worker is next after the last, and those that are full are passed by."""
    chosen = pool(*(worker(f"w-{at}", capacity=2) for at in range(3)), balance="round_robin")
    assert ["w-0", "w-1", "w-2", "w-0"] == names(chosen, 4)
    assert ["w-2"] == names(chosen, 1, without=(chosen.workers[1],))
    assert ["w-1"] == names(chosen, 1)
    assert [] == chosen.free(ticket(), 0.0)
    chosen.workers[2].leases[0].end(Cause.CLIENT_LEFT, 0.0)
    assert ["w-2"] == names(chosen, 1)


def test_turns_begin_anew_with_other_workers():
    """When workers come or go, the first of them is next."""
    chosen = pool(*(worker(f"w-{at}", capacity=9) for at in range(3)), balance="round_robin")
    names(chosen, 2)
    chosen.replace(chosen.workers[:1])
    assert ["w-0", "w-0"] == names(chosen, 2)


def test_a_usual_worker_is_preferred_to_a_slow_one():
    """By expected work, an idle worker at half the pace waits until the other has as much to do."""
    slow, usual = worker("w-0", capacity=4), worker("w-1", capacity=4)
    slow.pace = 2.0
    chosen = pool(slow, usual)
    assert ["w-1", "w-0", "w-1"] == names(chosen, 3, seconds=10.0)


def test_work_in_hand_counts_by_what_is_left_of_it():
    """A worker whose work is nearly done goes before one that has just begun."""
    chosen = pool(worker("w-0", capacity=2), worker("w-1", capacity=2))
    first, second = chosen.workers
    for each, began in ((first, 9.0), (second, 0.0)):
        held = ticket(seconds=10.0)
        held.predicted = 10.0
        chosen.take(held, each, began)
    assert second is chosen.choose(ticket(), chosen.free(ticket(), 9.5), 9.5)


@pytest.mark.parametrize(("now", "work"), [(0.0, 20.0), (15.0, 15.0), (30.0, 10.0), (99.0, 10.0)])
def test_a_worker_that_returns_counts_as_slower(now, work):
    """At its return a worker counts as twice as slow, and as usual when it is warm."""
    back = worker()
    back.returned = 0.0
    asked = ticket(seconds=10.0)
    asked.predicted = 10.0
    assert pytest.approx(work) == expected_work(back, asked, now)


@pytest.mark.parametrize("balance", BALANCES)
def test_only_a_free_worker_is_chosen(balance):
    """Whatever the balance, the choice is among the free."""
    chosen = pool(*(worker(f"w-{at}", capacity=at + 1) for at in range(4)), balance=balance)
    for left in range(10, 0, -1):
        free = chosen.free(ticket(), 0.0)
        assert left == sum(each.capacity - each.in_flight for each in free)
        assert chosen.choose(ticket(), free, 0.0) in free
        assert take(chosen, ticket()) is not None
