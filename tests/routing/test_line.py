"""Who stands where in the line, who is given what, and who has no hope."""

from __future__ import annotations

import pytest

from gateway.routing.caller import Caller
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import join, line, take, ticket, trip, worker

T2I, I2I = Task.T2I, Task.I2I


def served(waits, now=0.0):
    """Serves a line of one slot to its end, and lists its tickets in order."""
    order = []
    while leases := waits.assign(now):
        order += [lease.ticket for lease in leases]
        for lease in leases:
            lease.end(Cause.CLIENT_LEFT, now)
    return order


def test_who_joins_is_predicted_and_due():
    """A ticket is due when three times its predicted seconds have passed since it arrived."""
    waits = line(worker())
    (joined,) = join(waits, ticket(seconds=10.0, arrived=100.0))
    assert pytest.approx((10.0, 130.0)) == (joined.predicted, joined.due)
    assert "<Ticket t2i 10.0s due 130.0>" == repr(joined)
    (loose,) = join(line(worker(), slo_factor=5), ticket(seconds=10.0, arrived=100.0))
    assert pytest.approx(150.0) == loose.due


def test_a_ticket_meets_a_worker_when_that_has_a_free_slot():
    """Every free slot is given away, and no ticket has a worker while it waits."""
    waits = line(worker("w-0"), worker("w-1"))
    first, second, third = join(waits, *(ticket(seconds=5.0 + n) for n in range(3)))
    leases = waits.assign(0.0)
    assert {first, second} == {lease.ticket for lease in leases}
    assert ([third], []) == (waits.tickets, waits.assign(0.0))
    leases[1].end(Cause.ANSWER, 5.0)
    (last,) = waits.assign(5.0)
    assert (third, leases[1].worker, []) == (last.ticket, last.worker, waits.tickets)


def test_an_empty_line_gives_nothing():
    """A line without tickets, or before a pool without workers, gives nothing away."""
    assert [] == line(worker()).assign(0.0)
    nobody = line()
    join(nobody, ticket())
    assert [] == nobody.assign(0.0)
    assert ({}, 0.0) == (nobody.waits(0.0), nobody.drain_seconds(0.0))


def test_one_that_leaves_is_given_nothing():
    """Who has left the line is not served, and may leave again without harm."""
    waits = line(worker())
    gone, stays = join(waits, ticket(), ticket())
    waits.leave(gone)
    waits.leave(gone)
    assert [stays] == served(waits)


SIZES = {"large": 20.0, "small": 4.0, "middle": 10.0}


@pytest.mark.parametrize(
    ("order", "now", "expected"),
    [
        ("fifo", 9.0, ["large", "small", "middle"]),
        ("sjf", 9.0, ["small", "middle", "large"]),
        ("edf", 9.0, ["small", "middle", "large"]),
        ("on_time", 6.0, ["small", "middle", "large"]),
        ("on_time", 9.0, ["small", "middle", "large"]),
        ("on_time", 21.0, ["small", "large", "middle"]),
    ],
)
def test_the_order_is_the_configurations(order, now, expected):
    """A line is served in the order that its pool is configured for, also after a change."""
    waits = line(worker())
    waits.pool.configure(line(worker(), order=order).pool.config)
    names = {}
    for name, seconds in SIZES.items():
        names[join(waits, ticket(seconds=seconds))[0]] = name
    assert expected == [names[each] for each in waits.ranked(now)]
    assert expected == [names[each] for each in served(waits, now)]


@pytest.mark.parametrize("order", ["on_time", "fifo", "sjf", "edf"])
def test_among_equals_who_joined_first_is_first(order):
    """Tickets that an order cannot tell apart are served as they came."""
    waits = line(worker(), order=order)
    tickets = join(waits, *(ticket() for _ in range(5)))
    assert list(tickets) == served(waits)


@pytest.mark.parametrize("order", ["on_time", "fifo", "sjf", "edf"])
def test_a_higher_class_is_first_and_a_repeat_before_all(order):
    """A repeated attempt is next, then the higher priority class, whatever the order says."""
    waits = line(worker(), order=order)
    low, high = Caller("low", 0), Caller("high", 1)
    small, large, again = join(
        waits,
        ticket(seconds=2.0, caller=low),
        ticket(seconds=30.0, caller=high, arrived=5.0),
        ticket(seconds=30.0, caller=low, number=2, arrived=5.0),
    )
    assert [again, large, small] == served(waits, 5.0)


def test_a_late_one_is_served_when_there_is_room():
    """One that cannot be on time stands behind all that can, and is served when they are gone."""
    waits = line(worker())
    late, *fresh = join(waits, ticket(), *(ticket(arrived=40.0) for _ in range(3)))
    assert [*fresh, late] == served(waits, 40.0)


def test_a_ticket_passes_by_those_that_no_free_worker_can_serve():
    """A free slot is not kept for one that its worker cannot serve."""
    text, seeing = worker("w-0"), worker("w-1")
    text.capability.report(frozenset({T2I}))
    waits = line(text, seeing)
    picture, another, words = join(waits, ticket(I2I), ticket(I2I), ticket(T2I))
    assert {(picture, seeing), (words, text)} == {
        (lease.ticket, lease.worker) for lease in waits.assign(0.0)
    }
    assert [another] == waits.tickets


def test_a_repeat_waits_for_a_worker_that_did_not_refuse_it():
    """Who was refused by a worker is not given to it again, though it is free."""
    refused, busy = worker("w-0"), worker("w-1")
    waits = line(refused, busy)
    held = waits.pool.take(ticket(), busy, 0.0)
    (again,) = join(waits, ticket(number=2, without=(refused,)))
    assert ([], []) == (waits.assign(0.0), waits.unserved())
    held.end(Cause.ANSWER, 1.0)
    assert [(again, busy)] == [(lease.ticket, lease.worker) for lease in waits.assign(1.0)]


def test_a_silent_worker_is_waited_for_and_given_nothing():
    """Who waits for a busy server stays in the line until it speaks."""
    waits = line(worker())
    waits.pool.workers[0].see(Sign.SILENT_AT_WORK, 0.0)
    join(waits, ticket())
    assert ([], []) == (waits.assign(0.0), waits.unserved())
    waits.pool.workers[0].see(Sign.GOOD_PROBE, 1.0)
    assert 1 == len(waits.assign(1.0))


def test_those_whom_nobody_can_serve_are_told_why():
    """Only tickets that no wait can help are listed as unserved, each with its reason."""
    waits = line(worker("w-0"), worker("w-1"))
    for each in waits.pool.workers:
        each.capability.report(frozenset({T2I}))
        take(waits.pool, ticket())
    picture, words = join(waits, ticket(I2I), ticket(T2I))
    assert [(picture, "no worker of pool 'both' that is up can do i2i")] == waits.unserved()
    for each in waits.pool.workers:
        each.see(Sign.LOST_ATTEMPT, 0.0)
    assert [words] == [each for each, reason in waits.unserved() if "is up" in reason][1:]


def test_a_rest_that_is_over_is_seen_when_slots_are_given():
    """Time passes for breakers when the line gives away slots; a trial is one request."""
    waits = line(worker("w-0", capacity=2))
    trip(waits.pool, waits.pool.workers[0], 0.0)
    join(waits, ticket(), ticket())
    assert ([], 2) == (waits.assign(4.9), len(waits.unserved()))
    assert 1 == len(waits.assign(5.0))
    assert ([], []) == (waits.assign(5.0), waits.unserved())


def test_a_pool_that_was_rested_is_tried_with_one_request():
    """Of a whole pool, too, one request is the trial, however many slots are free."""
    waits = line(*(worker(f"w-{number}", capacity=2) for number in range(3)))
    waits.pool.circuit.trip(0.0, "lost")
    join(waits, *(ticket(shape="s") for _ in range(6)))
    assert 6 == len(waits.unserved())
    (trial,) = waits.assign(5.0)
    assert [] == waits.assign(5.0)
    trial.end(Cause.ANSWER, 15.0)
    assert 5 == len(waits.assign(15.0))
