"""What workers say of their load and their encoder is used where it is said, and not needed."""

from __future__ import annotations

import pytest

from gateway.config import WorkerConfig
from gateway.routing.balance import expected_work
from gateway.routing.capability import Capability
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import join, line, pool, take, ticket, worker

BOTH, TEXT = frozenset(Task), frozenset({Task.T2I})


def test_work_of_others_counts_for_the_balance():
    """A worker that says it has more in hand than we gave it is taken after one that has not."""
    waits = line(worker("w-0"), worker("w-1"))
    busy, idle = waits.pool.workers
    busy.report_load(2, 1, 30.0)
    idle.report_load(0, 1, 0.0)
    join(waits, ticket(seconds=10.0))
    assert [idle] == [lease.worker for lease in waits.assign(0.0)]
    busy.report_load(0, 1, 0.0)
    assert pytest.approx(expected_work(busy, ticket(), 0.0)) == 0.0


def test_our_own_work_is_not_counted_twice():
    """What a worker says it has is ours, as long as it is no more than we gave it."""
    one = worker()
    pool(one).take(ticket(), one, 0.0)
    one.report_load(1, 1, 30.0)
    assert 0.0 == one.others_seconds


@pytest.mark.parametrize(("options", "expected"), [({}, 4), ({"capacity": 2}, 2)])
def test_a_reported_capacity_holds_where_none_is_configured(options, expected):
    """The configuration wins where it speaks."""
    one = worker()
    one.configure("w-0", WorkerConfig(url=one.url, **options))
    one.report_load(0, 4, 0.0)
    assert (expected, True) == (one.capacity, one.reports_load)


@pytest.mark.parametrize(
    ("reported", "is_declared", "sees"),
    [(None, False, False), (BOTH, False, False), (TEXT, True, False), (BOTH, True, True)],
)
@pytest.mark.parametrize("configured", [None, BOTH])
@pytest.mark.parametrize("told_by", ["configuration", "server"])
def test_behind_an_encoder_only_who_declares_it_sees(
    reported, is_declared, sees, configured, told_by
):
    """A worker with an external encoder gets a picture only if it says task by task that it can."""
    asked = Capability()
    asked.configured = configured
    asked.has_to_declare = told_by == "configuration"
    asked.report(reported, is_declared=is_declared, is_external=told_by == "server")
    assert sees is asked.can(Task.I2I)
    assert asked.can(Task.T2I)


def test_what_was_said_of_the_encoder_holds_until_it_is_unsaid():
    """A page that is missing once does not give a worker eyes."""
    asked = Capability()
    asked.report(BOTH, is_external=True)
    asked.report(BOTH, is_external=None)
    assert not asked.can(Task.I2I)
    asked.report(BOTH, is_external=False)
    assert asked.can(Task.I2I)
    asked.report(BOTH, is_external=True)
    asked.forget()
    assert asked.can(Task.I2I)


def test_nothing_begins_while_the_encoder_is_silent():
    """Work waits for an encoder that is too busy to speak, and is not refused for it."""
    chosen = pool(worker(), tasks=("t2i",), encoder_url="http://encoder.test")
    chosen.encoder.see(Sign.GOOD_PROBE)
    held = take(chosen, ticket())
    assert chosen.has_work
    held.end(Cause.CLIENT_LEFT, 1.0)
    assert not chosen.has_work
    chosen.encoder.see(Sign.SILENT_AT_WORK)
    assert ([], None) == (chosen.free(ticket(), 1.0), chosen.missing(Task.T2I))
