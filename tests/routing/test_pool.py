"""A pool gives slots away and takes them back; it says why when it cannot."""

from __future__ import annotations

import pytest

from gateway.config import PoolConfig
from gateway.routing.health import Health, Sign
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.request import Task
from gateway.routing.worker import Worker
from tests.routing.builders import fail, pool, take, ticket, trip, worker

T2I, I2I = Task.T2I, Task.I2I


def test_a_worker_left_out_is_not_free():
    """A worker that refused the request is left out of the next attempt."""
    first, second = worker("i2i-0"), worker("i2i-1")
    lease = take(pool(first, second), ticket(I2I, number=2, without=[first]), 7.0)
    assert (second, 2, 7.0) == (lease.worker, lease.attempt.number, lease.attempt.started)


def test_a_lease_ends_once():
    """A second end of a lease changes neither slots nor cause, and tells no hook."""
    only = worker()
    chosen = pool(only)
    told = []
    chosen.on_end.append(told.append)
    lease = take(chosen, ticket(I2I), 10.0)
    assert (False, [lease]) == (lease.is_ended, only.leases)
    lease.end(Cause.ANSWER, 12.0)
    lease.end(Cause.LOST, 99.0)
    assert (True, [], Cause.ANSWER, 2.0) == (
        lease.is_ended,
        only.leases,
        lease.attempt.cause,
        lease.attempt.seconds,
    )
    assert [lease.attempt] == told
    assert Health.UP is only.health.state


def test_the_slot_is_free_when_the_hooks_are_told():
    """Whoever is told that a lease has ended may take its slot at once."""
    chosen = pool(worker())
    seen = []
    chosen.on_end.append(lambda attempt: seen.append(chosen.free(ticket(), 1.0)))
    take(chosen, ticket()).end(Cause.ANSWER, 1.0)
    assert [chosen.workers] == seen


@pytest.mark.parametrize("cause", list(Cause))
def test_an_end_tells_of_the_workers_health(cause):
    """A worker is taken out exactly when its attempt's end says that it is ill."""
    only = worker()
    take(pool(only), ticket(T2I)).end(cause, 1.0)
    assert MEANINGS[cause].is_ill is not only.health.is_up


def test_a_text_only_refusal_takes_the_worker_from_the_pictures():
    """A worker that answered as text-only keeps its text requests and gets no picture."""
    only = worker()
    chosen = pool(only)
    take(chosen, ticket(I2I)).end(Cause.TEXT_ONLY, 1.0)
    assert None is chosen.missing(T2I)
    assert "no worker of pool 'both' that is up can do i2i" == chosen.missing(I2I)


@pytest.mark.parametrize("task", list(Task))
def test_a_pool_without_workers_says_so(task):
    """A pool without workers can serve nothing."""
    assert "pool 'both' has no workers" == pool().missing(task)


def test_a_pool_does_only_what_it_lists():
    """A pool that does not list a task never serves it, however able its workers (R4)."""
    text = pool(worker(), tasks=("t2i",))
    assert ("pool 'both' does not serve i2i", None) == (text.missing(I2I), take(text, ticket(I2I)))


def test_a_pool_waits_for_its_encoder():
    """A pool whose encoder does not answer can serve nothing until it does."""
    text = pool(worker(), tasks=("t2i",), encoder_url="http://encoder.test")
    assert "the encoder of pool 'both' does not answer" == text.missing(T2I)
    assert None is take(text, ticket())
    text.encoder.see(Sign.GOOD_PROBE)
    assert None is text.missing(T2I)
    assert None is not take(text, ticket())


def test_a_pool_whose_workers_are_down_says_so():
    """A pool has nobody when no worker is up, and nobody else when the others are not."""
    down, good = Worker("i2i-0", "http://i2i-0.test"), worker("i2i-1")
    assert "no worker of pool 'both' is up" == pool(down).missing(I2I)
    assert "no other worker of pool 'both' is up" == pool(down, good).missing(I2I, [good])
    assert "every worker of pool 'both' was asked and refused" == pool(good).missing(I2I, [good])


def test_a_pool_whose_workers_are_drained_or_rest_says_so():
    """Workers that are up and get no work are told from workers that are down."""
    drained, rested = worker("i2i-0"), worker("i2i-1")
    chosen = pool(drained, rested)
    drained.is_drained = True
    assert None is chosen.missing(I2I)
    trip(chosen, rested)
    assert "no worker of pool 'both' is in service" == chosen.missing(I2I)
    assert "no other worker of pool 'both' is in service" == chosen.missing(I2I, [rested])


def test_a_full_pool_misses_nothing():
    """A pool whose slots are all taken can serve after a wait."""
    chosen = pool(worker())
    take(chosen, ticket(I2I))
    assert (None, None) == (chosen.missing(I2I), take(chosen, ticket(I2I)))


def test_a_pool_that_rests_tells_when_it_is_back():
    """Retry-After is the rest of the pool, whatever else rests longer in it."""
    chosen = pool(worker("i2i-0"), worker("i2i-1"))
    assert 5.0 == chosen.retry_after(0.0)
    for each in (*chosen.workers, *chosen.workers, chosen.workers[0]):
        fail(chosen, each, now=1.0)
    assert chosen.circuit.is_open
    assert 3.0 == chosen.retry_after(3.0)
    chosen.workers[0].breaker.trip(2.5, "slow")
    assert 3.0 == chosen.retry_after(3.0)


def test_the_first_worker_that_is_back_ends_the_wait():
    """Where workers rest, Retry-After is the time until the first of them is tried again."""
    chosen = pool(*(worker(f"i2i-{number}") for number in range(4)))
    for at, each in zip((0.0, 4.0), chosen.workers, strict=False):
        each.breaker.trip(at, "slow")
    for each in chosen.workers[2:]:
        each.see(Sign.LOST_ATTEMPT, 4.0)
    assert "no worker of pool 'both' is in service" == chosen.missing(T2I)
    assert 1.0 == chosen.retry_after(4.0)


def test_a_removed_worker_leaves_with_its_last_lease():
    """A removed worker gets nothing new, and is forgotten when its last lease ends."""
    going = worker(capacity=2)
    chosen = pool(going)
    leases = [take(chosen, ticket(I2I)), take(chosen, ticket(I2I))]
    chosen.replace([])
    assert ([], [going], None) == (chosen.workers, chosen.leaving, take(chosen, ticket(I2I)))
    leases[0].end(Cause.ANSWER, 1.0)
    assert [going] == chosen.leaving
    leases[1].end(Cause.ANSWER, 1.0)
    assert ([], 0) == (chosen.leaving, going.in_flight)


def test_an_idle_worker_leaves_at_once():
    """A removed worker without a lease is forgotten at once."""
    chosen = pool(worker())
    chosen.replace([])
    assert ([], []) == (chosen.workers, chosen.leaving)


def test_a_worker_that_comes_back_is_not_leaving():
    """A worker that is taken in again while it holds a lease stands in one list, once."""
    back = worker(capacity=2)
    chosen = pool(back)
    lease = take(chosen, ticket(I2I))
    chosen.replace([])
    chosen.replace([back])
    assert ([back], []) == (chosen.workers, chosen.leaving)
    chosen.replace([])
    lease.end(Cause.ANSWER, 1.0)
    assert ([], []) == (chosen.workers, chosen.leaving)


def test_a_worker_that_moves_leaves_with_its_last_lease_of_the_pool():
    """What a worker does for its new pool does not keep it in its old one."""
    moving = worker(capacity=2)
    old, new = pool(moving), pool()
    before = take(old, ticket())
    old.replace([])
    new.replace([moving])
    after = take(new, ticket())
    before.end(Cause.ANSWER, 1.0)
    assert ([], []) == (old.leaving, new.leaving)
    new.replace([])
    assert [moving] == new.leaving
    after.end(Cause.ANSWER, 1.0)
    assert [] == new.leaving


def test_an_encoder_at_the_same_address_keeps_its_health():
    """A new configuration asks a new encoder afresh, and believes the one that it knows."""
    sections = {url: PoolConfig(tasks=("t2i",), encoder_url=url) for url in ("http://a.test", None)}
    chosen = pool(worker(), tasks=("t2i",), encoder_url="http://a.test")
    chosen.encoder.see(Sign.GOOD_PROBE)
    chosen.configure(sections["http://a.test"])
    assert chosen.encoder.is_up
    chosen.configure(sections[None])
    assert (None, None) == (chosen.encoder, chosen.missing(T2I))
    chosen.configure(sections["http://a.test"])
    assert not chosen.encoder.is_up


def test_pool_and_lease_show_their_state():
    """The `repr` of a pool tells load and health, and that of a lease whether it is held."""
    going, other = worker("i2i-0"), worker("i2i-1", capacity=3)
    rest = [other, Worker("i2i-2", "http://i2i-2.test")]
    chosen = pool(going, *rest)
    lease = chosen.take(ticket(I2I), going, 0.0)
    assert "<Pool both [in flight 1/5 | workers 2 up]>" == repr(chosen)
    assert "<Lease i2i-0 #1 held>" == repr(lease)
    chosen.replace(rest)
    assert "<Pool both [in flight 0/4 | workers 1 up | leaving 1]>" == repr(chosen)
    lease.end(Cause.BUSY, 1.0)
    assert "<Lease i2i-0 #1 busy>" == repr(lease)


def test_what_remains_of_a_lease_is_never_nothing():
    """A lease takes what was predicted at its worker's pace; an overdue one as much again."""
    chosen = pool(worker())
    lease = take(chosen, ticket(seconds=10.0), 100.0)
    lease.worker.pace = 2.0
    expected = [20.0, 10.0, 2.0, 2.0, 20.0]
    assert pytest.approx(expected) == [lease.remaining(now) for now in (100, 110, 119, 120, 140)]
