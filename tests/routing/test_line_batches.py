"""Pictures of the same size go together where that fills a worker's batch."""

from __future__ import annotations

import pytest

from gateway.routing.caller import Caller
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import join, line, take, ticket, worker


def sizes(*shapes, **options):
    """Makes a ticket for each shape, in the order of their arrival."""
    return [ticket(shape=s, arrived=float(at), **options) for at, s in enumerate(shapes)]


@pytest.mark.parametrize(
    ("shapes", "together"),
    [
        ("aaaa", [0, 1, 2, 3]),
        ("abababa", [0, 2, 4, 6]),
        ("aaaaaa", [0, 1, 2, 3]),
        ("bbaaaa", [0, 1, 2, 3]),
        ("aaab", [0, 1, 2, 3]),
    ],
)
def test_a_batch_is_filled_with_one_size(shapes, together):
    """An idle worker gets a whole batch of one size, else whoever is next, slot by slot."""
    waits = line(worker(capacity=4), order="fifo")
    tickets = join(waits, *sizes(*shapes))
    assert together == sorted(tickets.index(lease.ticket) for lease in waits.assign(10.0))


def test_two_sizes_go_to_two_workers():
    """Each of two workers gets a batch of its own size, in whatever order they came."""
    waits = line(worker("w-0", capacity=2), worker("w-1", capacity=2), order="fifo")
    join(waits, *sizes(*"abab"))
    leases = waits.assign(10.0)
    batches = {
        each: {lease.ticket.shape for lease in leases if lease.worker is each}
        for each in waits.pool.workers
    }
    assert [1, 1] == [len(shapes) for shapes in batches.values()]


def test_the_pictures_of_one_request_go_together():
    """What has the same content has the same size, and fills a batch like anything else."""
    waits = line(worker("w-0", capacity=2), worker("w-1", capacity=2), order="fifo")
    join(waits, *(ticket(shape=each, digest=each) for each in "aabb"))
    leases = waits.assign(10.0)
    assert 4 == len(leases)
    for each in waits.pool.workers:
        assert 1 == len({lease.ticket.shape for lease in leases if lease.worker is each})


def test_a_worker_at_work_is_not_waited_for():
    """A worker that has work already gets whoever is next; its batch has begun."""
    waits = line(worker(capacity=3), order="fifo")
    take(waits.pool, ticket())
    first, second, *_ = join(waits, *sizes(*"abaa"))
    assert [first, second] == [lease.ticket for lease in waits.assign(10.0)]


def test_the_rest_of_a_batch_has_to_be_able():
    """A batch holds nobody who may not go to its worker."""
    text, other = worker("w-0", capacity=2), worker("w-1", capacity=2)
    text.capability.report(frozenset({Task.T2I}))
    waits = line(text, other, order="fifo")
    other.is_drained = True
    words, *_ = join(waits, *sizes("a"), *sizes("a", task=Task.I2I))
    assert [words] == [lease.ticket for lease in waits.assign(10.0)]


def test_a_batch_goes_by_the_order():
    """Of more than fit, those that are next fill the batch."""
    waits = line(worker(capacity=2), order="sjf")
    seconds = (20.0, 5.0, 10.0)
    tickets = join(waits, *(ticket(seconds=each, shape="a") for each in seconds))
    assert [tickets[1], tickets[2]] == [lease.ticket for lease in waits.assign(0.0)]


def test_a_batch_takes_no_place_from_a_higher_class():
    """Nobody of a lower class fills a batch while one of a higher class could be served."""
    high, low = Caller("high", 1), Caller("low", 0)
    waits = line(worker(capacity=2), order="fifo")
    tickets = join(waits, *sizes("a", "b", caller=high), *sizes("a", caller=low))
    assert list(tickets[:2]) == [lease.ticket for lease in waits.assign(10.0)]


def test_a_slow_start_counts_its_slots():
    """A batch is no larger than what a worker that has returned may have."""
    waits = line(worker(capacity=4), order="fifo")
    waits.pool.workers[0].returned = 0.0
    join(waits, *sizes(*"aaaa"))
    assert 2 == len(waits.assign(15.0))
    waits.pool.workers[0].leases[0].end(Cause.CLIENT_LEFT, 15.0)
    assert 1 == len(waits.assign(15.0))
