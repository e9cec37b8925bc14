"""Why a worker is not given work, or a pool begins nothing new, in one sentence."""

from __future__ import annotations

import pytest

from gateway.config import Config
from gateway.routing.health import Sign
from gateway.routing.request import Task
from gateway.routing.routes import RouteTable
from tests.routing.builders import pool, section, table, worker


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: None, None),
        (lambda one: one.drain(), "an operator took it out of service"),
        (lambda one: one.breaker.trip(0.0, "slow"), "slow"),
        (lambda one: one.see(Sign.LOST_ATTEMPT, 0.0), "refuses the connection"),
        (lambda one: one.see(Sign.SILENT_AT_WORK, 0.0), "refuses the connection"),
    ],
)
def test_a_worker_says_why_it_gets_no_work(change, reason):
    """A drain counts before a rest, and a rest before what the last probe saw."""
    one = worker()
    one.detail = "refuses the connection"
    change(one)
    assert reason == one.reason


def test_a_pool_says_what_it_waits_for():
    """Silence of the encoder, or of every worker in service, is waited for and is named."""
    chosen = pool(worker("w-0"), worker("w-1"), tasks=("t2i",), encoder_url="http://e.test")
    chosen.encoder.see(Sign.GOOD_PROBE)
    assert None is chosen.waits_for()
    chosen.workers[0].see(Sign.SILENT_AT_WORK, 0.0)
    assert None is chosen.waits_for()
    chosen.workers[1].see(Sign.SILENT_AT_WORK, 0.0)
    assert "every worker of pool 'both' is too busy to answer its probe" == chosen.waits_for()
    chosen.encoder.see(Sign.SILENT_AT_WORK)
    assert "the encoder of pool 'both' is too busy to answer its probe" == chosen.waits_for()


def test_a_pool_without_workers_waits_for_nobody():
    """Where nobody is in service there is nobody to wait for."""
    assert None is pool().waits_for()


def test_a_worker_is_found_in_its_pool():
    """A worker that has left is in no pool."""
    routes = table(t2i=section("t2i"), i2i=section("i2i"))
    one = routes.pools[1].workers[0]
    assert routes.pools[1] is routes.pool_of(one)
    assert None is RouteTable.build(Config()).pool_of(one)


def test_a_pool_says_what_a_worker_lacks():
    """Of the pool's tasks those are lacking that the worker cannot do."""
    chosen, blind = pool(worker(), tasks=("i2i", "t2i")), worker()
    blind.capability.report(frozenset({Task.T2I}))
    assert ([], [Task.I2I]) == (chosen.lacks(chosen.workers[0]), chosen.lacks(blind))
