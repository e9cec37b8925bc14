"""Requests that broke a worker are remembered, run alone, and held against nobody."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.health import Health
from gateway.routing.outcome import Cause
from gateway.routing.poison import MEMORY_SECONDS, Poison
from tests.routing.builders import join, line, pool, take, ticket, worker


@pytest.mark.parametrize(
    ("now", "knows"), [(100.0, True), (100.0 + MEMORY_SECONDS - 1, True), (700.0, False)]
)
def test_a_request_that_broke_a_worker_is_known_for_ten_minutes(now, knows):
    """The memory of a digest ends ten minutes after it was added."""
    poison = Poison()
    poison.add("d", 100.0)
    assert (knows, False) == (poison.knows("d", now), poison.knows("other", now))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["began", "ended", "add"]), max_size=30), st.booleans())
def test_one_waits_while_another_of_its_content_runs(acts, is_late):
    """It has to wait exactly while one of its content runs and its content is known."""
    poison, running, is_known = Poison(), 0, False
    for act in acts:
        if act == "began":
            poison.began("d")
            running += 1
        elif act == "ended" and running:
            poison.ended("d")
            running -= 1
        elif act == "add":
            poison.add("d", 0.0)
            is_known = True
        now = MEMORY_SECONDS if is_late else 1.0
        assert (running > 0 and is_known and not is_late) is poison.has_to_wait("d", now)
        assert not poison.has_to_wait("other", now)


@pytest.mark.parametrize("cause", list(Cause))
def test_only_what_may_have_broken_a_worker_is_remembered(cause):
    """A lost connection and a hang make a request suspect; no other end does."""
    chosen = pool(worker("w-0"), worker("w-1"))
    take(chosen, ticket(digest="d")).end(cause, 1.0)
    assert (cause in (Cause.LOST, Cause.HUNG)) is chosen.poison.knows("d", 1.0)


@pytest.mark.parametrize("cause", [Cause.LOST, Cause.HUNG])
def test_what_it_breaks_again_is_held_against_no_worker(cause):
    """The first worker it breaks is out, as if it were ill; the next one keeps its place."""
    first, second = worker("w-0"), worker("w-1")
    chosen = pool(first, second)
    chosen.take(ticket(digest="d"), first, 0.0).end(cause, 1.0)
    chosen.take(ticket(digest="d"), second, 2.0).end(cause, 3.0)
    assert (Health.DOWN, 1) == (first.health.state, first.breaker.row)
    assert (Health.UP, 0, 1) == (second.health.state, second.breaker.row, chosen.circuit.row)


def test_it_is_held_against_a_worker_again_after_ten_minutes():
    """What is long ago says nothing about the request."""
    first, second = worker("w-0"), worker("w-1")
    chosen = pool(first, second)
    chosen.take(ticket(digest="d"), first, 0.0).end(Cause.LOST, 0.0)
    chosen.take(ticket(digest="d"), second, 600.0).end(Cause.LOST, 601.0)
    assert not second.health.is_up


def test_what_does_not_break_still_counts():
    """A suspect that fails in another way is a failure of its worker like any other."""
    first, second = worker("w-0"), worker("w-1")
    chosen = pool(first, second)
    chosen.take(ticket(digest="d"), first, 0.0).end(Cause.LOST, 1.0)
    chosen.take(ticket(digest="d"), second, 2.0).end(Cause.OUT_OF_MEMORY, 3.0)
    assert 1 == second.breaker.row


def test_requests_without_a_digest_are_never_suspects():
    """Whose content nobody knows is neither remembered nor excused."""
    workers = [worker(f"w-{number}") for number in range(3)]
    chosen = pool(*workers)
    for each in workers:
        chosen.take(ticket(), each, 0.0).end(Cause.LOST, 1.0)
    assert not any(each.health.is_up for each in workers)
    assert not chosen.poison.knows("", 1.0)


def test_a_suspect_has_one_attempt_at_a_time():
    """Of several requests with a suspect's content one runs, and the others let others by."""
    waits = line(*(worker(f"w-{number}") for number in range(4)))
    waits.pool.poison.add("d", 0.0)
    *suspects, other = join(
        waits, *(ticket(digest="d") for _ in range(3)), ticket(digest="another")
    )
    served = waits.assign(1.0)
    assert [suspects[0], other] == [lease.ticket for lease in served]
    assert [] == waits.assign(2.0)
    served[0].end(Cause.LOST, 3.0)
    assert [suspects[1]] == [lease.ticket for lease in waits.assign(3.0)]


def test_a_suspect_has_one_attempt_at_a_time_in_a_batch_too():
    """A batch is not filled with several requests of a suspect's content."""
    waits = line(worker(capacity=4))
    waits.pool.poison.add("d", 0.0)
    clean, *_ = join(waits, ticket(shape="s"), *(ticket(digest="d", shape="s") for _ in range(3)))
    served = [lease.ticket for lease in waits.assign(1.0)]
    assert clean in served
    assert 1 == sum(each.digest == "d" for each in served)
