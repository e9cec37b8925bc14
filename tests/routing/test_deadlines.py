"""Who can no longer be answered in time is told at once, and nobody is told so wrongly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.caller import Caller
from gateway.routing.health import Sign
from tests.routing.builders import cost, join, line, take, ticket, train, worker
from tests.routing.driver import play


def trained(*capacities, **options):
    """Makes a line whose model has seen nothing below nine tenths of what it predicts."""
    workers = [worker(f"w-{at}", capacity) for at, capacity in enumerate(capacities)]
    waits = line(*workers, **options)
    train(waits.pool)
    return waits


@pytest.mark.parametrize(
    ("deadline", "hope"), [(9.1, True), (9.0, True), (8.9, False), (0.0, False), (-1.0, False)]
)
def test_one_that_is_next_needs_the_least_that_was_seen(deadline, hope):
    """A deadline closer than the shortest time ever seen cannot be met, even on a free slot."""
    waits = trained(1)
    (only,) = join(waits, ticket(seconds=10.0, deadline=deadline + 1e-6))
    assert hope is waits.can_be_met(only, 0.0)


def test_before_enough_was_seen_only_the_past_is_impossible():
    """A model that has seen too little refuses nothing that has any time left."""
    waits = line(worker())
    take(waits.pool, ticket(seconds=1000.0))
    one, other = join(waits, ticket(seconds=100.0, deadline=1.0), ticket(deadline=-0.1))
    assert (True, False) == (waits.can_be_met(one, 0.0), waits.can_be_met(other, 0.0))


def test_running_work_has_to_end_first():
    """Who waits for the only slot waits at least for the least of what runs there."""
    waits = trained(1)
    take(waits.pool, ticket(seconds=20.0))
    tight, loose = join(
        waits, ticket(seconds=10.0, deadline=26.9), ticket(seconds=10.0, deadline=27.1)
    )
    waits.leave(loose)
    assert not waits.can_be_met(tight, 0.0)
    waits.leave(tight)
    join(waits, loose)
    assert waits.can_be_met(loose, 0.0)
    assert waits.can_be_met(loose, 18.0)
    assert not waits.can_be_met(loose, 18.2)


def test_what_runs_for_longer_than_ever_may_end_now():
    """A request that is overdue is hoped to end at any moment."""
    waits = trained(1)
    take(waits.pool, ticket(seconds=20.0))
    (tight,) = join(waits, ticket(seconds=10.0, deadline=59.1))
    assert waits.can_be_met(tight, 50.0)


def test_workers_that_are_away_may_come_back():
    """A worker that is down, or rested, is hoped to be well again in time."""
    waits = trained(1, 1)
    join(waits, *(ticket(seconds=10.0, deadline=100.0) for _ in range(1)))
    (tight,) = join(waits, ticket(seconds=10.0, deadline=10.0, arrived=0.1))
    waits.pool.workers[0].see(Sign.LOST_ATTEMPT, 0.0)
    waits.pool.workers[1].breaker.trip(0.0, "slow")
    assert waits.can_be_met(tight, 0.0)


def test_a_pool_without_workers_refuses_only_what_is_too_late():
    """Where nobody works nothing is known but the time itself."""
    waits = line()
    (one,) = join(waits, ticket(deadline=5.0))
    assert (True, False) == (waits.can_be_met(one, 0.0), waits.can_be_met(one, 5.1))


def test_the_least_is_that_of_its_own_size():
    """A small picture is not held to what a large one took."""
    waits = trained(1)
    assert pytest.approx(9.0) == waits.pool.least(ticket(seconds=10.0))
    assert pytest.approx(18.0) == waits.pool.least(ticket(seconds=20.0))
    waits.pool.costs[ticket().task].learn(cost(20.0), 10.0)
    assert waits.pool.least(ticket(seconds=10.0)) <= 5.0


def test_of_equal_hopes_the_line_takes_what_it_can_serve():
    """Behind a row of one caller's equal pictures nobody is refused whom the row lets by."""
    waits = trained(1, order="fifo")
    take(waits.pool, ticket(seconds=10.0))
    tickets = join(waits, *(ticket(seconds=10.0, deadline=30.0, arrived=n * 0.1) for n in range(5)))
    hopes = [waits.can_be_met(each, 0.0) for each in tickets]
    assert [True, True] == hopes[:2]


JOBS = st.lists(
    st.tuples(
        st.floats(0, 20),  # arrival
        st.floats(2, 30),  # predicted seconds
        st.floats(0.9, 2.5),  # actual seconds, as a multiple of the predicted
        st.floats(2, 60),  # patience
        st.integers(0, 2),  # caller
    ),
    min_size=1,
    max_size=12,
)
ORDER = st.sampled_from(["fifo", "sjf", "edf", "on_time"])


def lived(waits, jobs):
    """Lets jobs live in a line."""
    seconds = {}
    for arrival, predicted, factor, patience, caller in jobs:
        made = ticket(
            seconds=predicted,
            arrived=arrival,
            deadline=arrival + patience,
            caller=Caller(str(caller)),
        )
        seconds[made] = max(predicted * factor, waits.pool.least(made))
    return seconds, play(waits, seconds)


def refused_wrongly(jobs, order, capacities):
    """Lists those who were told that there is no hope, and would have been answered in time."""
    waits = trained(*capacities, order=order)
    seconds, played = lived(waits, jobs)
    return [each for each in seconds if not played.hopes[each] and played.is_answered(each)]


WAITING = {
    # why the last of these is answered: order, [(arrival, predicted, factor, patience, caller), …]
    "the one before gives up": (
        "fifo",
        [(0, 2, 2.5, 99, 0), (1, 20, 1, 21, 0), (2, 2, 0.9, 19, 0)],
    ),
    "the one before is late": (
        "on_time",
        [(0, 10, 1.4, 99, 0), (1, 6, 1, 99, 0), (2, 9, 0.9, 20.3, 0)],
    ),
    "the others are ahead": (
        "fifo",
        [(0, 10, 0.9, 999, 0), *[(1, 10, 0.9, 999, 0)] * 5, (2, 10, 0.9, 45, 1)],
    ),
}


@pytest.mark.parametrize("why", WAITING)
def test_who_stands_before_may_still_step_aside(why):
    """Who is before another now is no reason to refuse, if he may let him pass in time."""
    order, jobs = WAITING[why]
    assert [] == refused_wrongly(jobs, order, [1])


def test_a_batch_may_take_one_from_the_end_of_the_line():
    """One of a size that fills a batch may go before others, so its hope is not their wait."""
    waits = trained(2, order="fifo")
    for end in (10.0, 10.0):
        take(waits.pool, ticket(seconds=end))
    options = {"seconds": 10.0, "deadline": 999.0}
    join(waits, *(ticket(shape=shape, **options) for shape in "abcdef"))
    (mate,) = join(waits, ticket(shape="a", seconds=10.0, deadline=20.0))
    assert waits.can_be_met(mate, 0.0)


@settings(deadline=None, max_examples=80)
@given(jobs=JOBS, order=ORDER, capacities=st.lists(st.integers(1, 2), min_size=1, max_size=2))
def test_nothing_is_refused_that_would_still_be_answered(jobs, order, capacities):
    """Whoever is told that there is no hope is not answered in time, however things go."""
    assert [] == refused_wrongly(jobs, order, capacities)
