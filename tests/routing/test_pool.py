"""A pool gives slots away and takes them back; it says why when it cannot."""

from __future__ import annotations

import pytest

from gateway.routing.health import Health, Sign
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.request import Task
from gateway.routing.worker import Worker
from tests.routing.builders import pool, worker

T2I, I2I = Task.T2I, Task.I2I


def test_the_least_loaded_worker_is_taken():
    """A slot is taken on the worker with the smallest share of its capacity in use."""
    small, large = worker("i2i-0", capacity=1), worker("i2i-1", capacity=4)
    chosen = pool(small, large)
    names = [chosen.take(I2I, 1, 0.0).worker.name for _ in range(5)]
    assert ["i2i-0", "i2i-1", "i2i-1", "i2i-1", "i2i-1"] == names
    assert None is chosen.take(I2I, 1, 0.0)


def test_a_worker_left_out_is_not_taken():
    """A worker that refused the request is left out of the next attempt."""
    first, second = worker("i2i-0"), worker("i2i-1")
    lease = pool(first, second).take(I2I, 2, 7.0, without=[first])
    assert (second, 2, 7.0) == (lease.worker, lease.attempt.number, lease.attempt.started)


def test_a_lease_ends_once():
    """A second end of a lease changes neither counter nor cause, and tells no hook."""
    only = worker()
    chosen = pool(only)
    told = []
    chosen.on_end.append(told.append)
    lease = chosen.take(I2I, 1, 10.0)
    assert (False, 1) == (lease.is_ended, only.in_flight)
    lease.end(Cause.ANSWER, 12.0)
    lease.end(Cause.LOST, 99.0)
    assert (True, 0, Cause.ANSWER, 2.0) == (
        lease.is_ended,
        only.in_flight,
        lease.attempt.cause,
        lease.attempt.seconds,
    )
    assert [lease.attempt] == told
    assert Health.UP is only.health.state


@pytest.mark.parametrize("cause", list(Cause))
def test_an_end_tells_of_the_workers_health(cause):
    """A worker is taken out exactly when its attempt's end says that it is ill."""
    only = worker()
    pool(only).take(T2I, 1, 0.0).end(cause, 1.0)
    assert MEANINGS[cause].is_ill is not only.health.is_up


def test_a_text_only_refusal_takes_the_worker_from_the_pictures():
    """A worker that answered as text-only keeps its text requests and gets no picture."""
    only = worker()
    chosen = pool(only)
    chosen.take(I2I, 1, 0.0).end(Cause.TEXT_ONLY, 1.0)
    assert None is chosen.missing(T2I)
    assert "no worker of pool 'both' that is up can do i2i" == chosen.missing(I2I)


@pytest.mark.parametrize("task", list(Task))
def test_a_pool_without_workers_says_so(task):
    """A pool without workers can serve nothing."""
    assert "pool 'both' has no workers" == pool().missing(task)


def test_a_pool_does_only_what_it_lists():
    """A pool that does not list a task never serves it, however able its workers (R4)."""
    text = pool(worker(), tasks=("t2i",))
    assert ("pool 'both' does not serve i2i", None) == (text.missing(I2I), text.take(I2I, 1, 0.0))


def test_a_pool_waits_for_its_encoder():
    """A pool whose encoder does not answer can serve nothing until it does."""
    text = pool(worker(), tasks=("t2i",), encoder_url="http://encoder.test")
    assert "the encoder of pool 'both' does not answer" == text.missing(T2I)
    assert None is text.take(T2I, 1, 0.0)
    text.encoder.see(Sign.GOOD_PROBE)
    assert None is text.missing(T2I)
    assert None is not text.take(T2I, 1, 0.0)


def test_a_pool_whose_workers_are_down_says_so():
    """A pool has nobody when no worker is up, and nobody else when the others are not."""
    down, good = Worker("i2i-0", "http://i2i-0.test"), worker("i2i-1")
    assert "no worker of pool 'both' is up" == pool(down).missing(I2I)
    assert "no other worker of pool 'both' is up" == pool(down, good).missing(I2I, [good])


def test_a_full_pool_misses_nothing():
    """A pool whose slots are all taken can serve after a wait."""
    chosen = pool(worker())
    chosen.take(I2I, 1, 0.0)
    assert (None, None) == (chosen.missing(I2I), chosen.take(I2I, 1, 0.0))


def test_a_removed_worker_leaves_with_its_last_lease():
    """A removed worker gets nothing new, and is forgotten when its last lease ends."""
    going = worker(capacity=2)
    chosen = pool(going)
    leases = [chosen.take(I2I, 1, 0.0), chosen.take(I2I, 1, 0.0)]
    chosen.remove(going)
    assert ([], [going], None) == (chosen.workers, chosen.leaving, chosen.take(I2I, 1, 0.0))
    leases[0].end(Cause.ANSWER, 1.0)
    assert [going] == chosen.leaving
    leases[1].end(Cause.ANSWER, 1.0)
    assert ([], 0) == (chosen.leaving, going.in_flight)


def test_an_idle_worker_leaves_at_once():
    """A removed worker without a lease is forgotten at once."""
    idle = worker()
    chosen = pool(idle)
    chosen.remove(idle)
    assert ([], []) == (chosen.workers, chosen.leaving)


def test_a_worker_that_comes_back_is_not_leaving():
    """A worker that is taken in again while it holds a lease stands in one list, once."""
    back = worker(capacity=2)
    chosen = pool(back)
    lease = chosen.take(I2I, 1, 0.0)
    chosen.remove(back)
    chosen.add(back)
    assert ([back], []) == (chosen.workers, chosen.leaving)
    chosen.remove(back)
    lease.end(Cause.ANSWER, 1.0)
    assert ([], []) == (chosen.workers, chosen.leaving)


def test_pool_and_lease_show_their_state():
    """The `repr` of a pool tells load and health, and that of a lease whether it is held."""
    going = worker("i2i-0")
    chosen = pool(going, worker("i2i-1", capacity=3), Worker("i2i-2", "http://i2i-2.test"))
    lease = chosen.take(I2I, 1, 0.0)
    assert "<Pool both [in flight 1/5 | workers 2 up]>" == repr(chosen)
    assert "<Lease i2i-0 #1 held>" == repr(lease)
    chosen.remove(going)
    assert "<Pool both [in flight 0/4 | workers 1 up | leaving 1]>" == repr(chosen)
    lease.end(Cause.BUSY, 1.0)
    assert "<Lease i2i-0 #1 busy>" == repr(lease)
