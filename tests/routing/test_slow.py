"""A worker that is far slower than the others is noticed, rested, and tried again."""

from __future__ import annotations

import pytest

from gateway.routing.breaker import Circuit
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from tests.routing.builders import join, line, pool, take, ticket, train, worker


def several(count=3):
    """Makes a pool of so many workers whose models know what is usual."""
    return train(pool(*(worker(f"w-{at}") for at in range(count))))


def run(chosen, which, seconds, now=0.0, predicted=10.0):
    """Lets a worker take so long for a picture."""
    chosen.take(ticket(seconds=predicted), which, now).end(Cause.ANSWER, now + seconds)


@pytest.mark.parametrize(("seconds", "is_rested"), [(10, False), (29, False), (31, True)])
def test_one_answer_three_times_as_slow_rests_a_worker(seconds, is_rested):
    """A picture that took more than three times the usual rests its worker as slow."""
    chosen = several()
    slow = chosen.workers[0]
    told = []
    chosen.on_trip.append(lambda *facts: told.append(facts))
    run(chosen, slow, seconds)
    assert is_rested is slow.breaker.is_open
    assert ([("both", "w-0", "slow")] if is_rested else []) == told


@pytest.mark.parametrize(("elapsed", "is_rested"), [(29.0, False), (31.0, True)])
def test_a_slow_worker_is_noticed_while_its_request_still_runs(elapsed, is_rested):
    """Nobody has to wait for the end of a slow request to see that it is slow."""
    chosen = several()
    slow = take(chosen, ticket(seconds=10.0), 0.0).worker
    chosen.look(elapsed)
    assert is_rested is slow.breaker.is_open
    assert (slow not in chosen.free(ticket(), elapsed)) is True


def test_a_slow_worker_is_drained_of_new_work_and_comes_back_by_a_trial():
    """One that is five times as slow gets nothing new, then one request, then all."""
    waits = line(*(worker(f"w-{at}") for at in range(3)))
    train(waits.pool)
    slow = waits.pool.workers[0]
    run(waits.pool, slow, 50.0)
    join(waits, *(ticket(seconds=10.0) for _ in range(9)))
    assert slow not in [lease.worker for lease in waits.assign(54.0)]
    (trial,) = waits.assign(55.0)
    assert (slow, True) == (trial.worker, slow.breaker.is_on_trial)
    trial.end(Cause.ANSWER, 105.0)
    assert (Circuit.OPEN, 115.0) == (slow.breaker.state, slow.breaker.until)
    assert slow in [lease.worker for lease in waits.assign(115.0)]
    slow.leases[0].end(Cause.ANSWER, 125.0)
    assert (Circuit.CLOSED, 1.0) == (slow.breaker.state, slow.pace)


@pytest.mark.parametrize("cause", [Cause.ANSWER, Cause.DEADLINE])
def test_one_slow_request_rests_its_worker_once(cause):
    """While the same slow request runs, its worker is rested once, and its rest grows no longer."""
    chosen = several()
    told = []
    chosen.on_trip.append(lambda *facts: told.append(facts))
    lease = take(chosen, ticket(seconds=10.0), 0.0)
    for now in range(200):
        chosen.look(float(now))
    lease.end(cause, 200.0)
    assert 1 == len(told)
    assert lease.worker.breaker.is_on_trial


def test_a_slow_trial_is_noticed_while_it_runs():
    """A trial that is slow again ends before its answer comes."""
    chosen = several()
    slow = chosen.workers[0]
    run(chosen, slow, 50.0)
    chosen.look(55.0)
    chosen.take(ticket(seconds=10.0), slow, 55.0)
    chosen.look(84.0)
    assert slow.breaker.is_on_trial
    chosen.look(86.0)
    assert slow.breaker.is_open


def test_a_lone_worker_is_never_slow():
    """With nobody to compare it to, no time is slow."""
    chosen = several(1)
    run(chosen, chosen.workers[0], 500.0)
    assert Circuit.CLOSED is chosen.workers[0].breaker.state


def test_nobody_is_slow_beside_workers_that_are_away():
    """Workers out of service are no measure."""
    chosen = several(2)
    chosen.workers[1].see(Sign.LOST_ATTEMPT, 0.0)
    run(chosen, chosen.workers[0], 500.0)
    assert Circuit.CLOSED is chosen.workers[0].breaker.state


def test_nobody_is_slow_before_it_is_known_what_is_usual():
    """Without enough samples no time is slow."""
    chosen = pool(worker("w-0"), worker("w-1"))
    run(chosen, chosen.workers[0], 500.0)
    assert Circuit.CLOSED is chosen.workers[0].breaker.state


def test_where_all_are_slow_nobody_is():
    """What slows all workers alike rests none of them, and is learned instead."""
    chosen = several(4)
    for _ in range(30):
        for each in chosen.workers:
            run(chosen, each, 25.0)
    assert not any(each.breaker.is_open for each in chosen.workers)
    assert pytest.approx(25.0, rel=0.15) == chosen.predict(ticket(seconds=10.0))


def test_no_more_than_half_are_slow():
    """Slow workers beyond half of the pool go on working, and are learned to be slow."""
    chosen = several(4)
    for at in range(3):
        run(chosen, chosen.workers[at], 100.0)
    assert [True, True, False, False] == [each.breaker.is_open for each in chosen.workers]
    assert chosen.workers[2].pace > 1.5


def test_a_large_picture_is_not_slow():
    """What is slow is measured by what the picture is."""
    chosen = several()
    run(chosen, chosen.workers[0], 60.0, predicted=30.0)
    assert Circuit.CLOSED is chosen.workers[0].breaker.state


def test_one_that_rests_already_is_not_rested_again():
    """A slow answer of a worker that rests for its failures tells nobody, and adds no time."""
    chosen = several()
    slow = chosen.workers[0]
    told = []
    lease = chosen.take(ticket(seconds=10.0), slow, 0.0)
    slow.breaker.trip(28.0, "bad_status")
    chosen.on_trip.append(lambda *facts: told.append(facts))
    lease.end(Cause.ANSWER, 31.0)
    assert ([], 33.0, "bad_status") == (told, slow.breaker.until, slow.breaker.reason)
    assert slow.pace > 1.0
