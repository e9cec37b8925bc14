"""A new configuration keeps what lives: workers by their address, pools by their name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Config
from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import table, take, ticket


def config(**pools):
    """Writes a configuration; a pool is a list of hosts, or a section."""
    sections = {
        name: said
        if isinstance(said, dict)
        else {"tasks": ["t2i", "i2i"], "workers": [{"url": f"http://{host}"} for host in said]}
        for name, said in pools.items()
    }
    return Config.model_validate({"pools": sections})


def living(**pools):
    """Builds a table of workers that are up."""
    return table(**config(**pools).model_dump(exclude_unset=True)["pools"])


def named(routes):
    """Maps pools to the hosts of their workers."""
    return {
        pool.name: [worker.url.removeprefix("http://") for worker in pool.workers]
        for pool in routes.pools
    }


def test_workers_live_on_by_address_whatever_they_are_called():
    """A worker keeps health, pace and leases when its name, place or capacity changes."""
    before = living(p=["a", "b"])
    first, second = before.pools[0].workers
    lease = take(before.pools[0], ticket())
    first.pace = 3.0
    section = {
        "tasks": ["i2i"],
        "workers": [{"url": "http://b"}, {"url": "http://a", "name": "new", "capacity": 4}],
        "order": "fifo",
    }
    after = before.evolve(config(p=section))
    (pool,) = after.pools
    assert pool is before.pools[0]
    assert [second, first] == pool.workers
    assert ("new", 4, 3.0, True) == (first.name, first.capacity, first.pace, first.health.is_up)
    assert ((Task.I2I,), "fifo") == (pool.tasks, pool.config.order)
    assert (lease.worker is first, 1) == (True, first.in_flight)


def test_what_a_worker_can_do_is_read_anew():
    """Configured tasks come and go with the configuration."""
    routes = living(p=["a"])
    (worker,) = routes.pools[0].workers
    for tasks, able in ((["t2i"], False), (None, True), (["i2i"], True)):
        section = {"tasks": ["i2i", "t2i"], "workers": [{"url": "http://a", "tasks": tasks}]}
        routes = routes.evolve(config(p=section))
        assert able is worker.is_fit(Task.I2I)


def test_a_new_worker_is_unproven():
    """Who was not there before gets nothing until it has answered a probe."""
    routes = living(p=["a"]).evolve(config(p=["a", "b"], q=["c"]))
    assert [[True, False], [False]] == [
        [worker.health.is_up for worker in pool.workers] for pool in routes.pools
    ]


def test_a_worker_that_is_no_longer_named_leaves_with_its_last_lease():
    """A removed worker gets nothing new, and is forgotten when its work is done."""
    before = living(p=["a", "b"])
    (pool,) = before.pools
    gone = pool.workers[0]
    lease = pool.take(ticket(), gone, 0.0)
    before.evolve(config(p=["b"]))
    assert [gone] == pool.leaving
    assert gone not in pool.free(ticket(), 0.0)
    lease.end(Cause.ANSWER, 9.0)
    assert [] == pool.leaving


def test_a_worker_that_is_named_again_is_the_same():
    """A worker that is leaving and comes back keeps its lease and its health."""
    before = living(p=["a", "b"])
    (pool,) = before.pools
    back = pool.workers[0]
    pool.take(ticket(), back, 0.0)
    between = before.evolve(config(p=["b"]))
    between.evolve(config(p=["b", "a"]))
    assert (back, []) == (pool.workers[1], pool.leaving)


def test_a_worker_moves_to_another_pool_with_its_work():
    """A worker that moves is in one pool, keeps its slot taken, and is judged by its old one."""
    before = living(p=["a"], q=["b"])
    first, second = before.pools
    moving = first.workers[0]
    lease = take(first, ticket())
    after = before.evolve(config(p=[], q=["b", "a"]))
    assert {"p": [], "q": ["b", "a"]} == named(after)
    assert (moving, 1) == (second.workers[1], moving.in_flight)
    assert moving not in second.free(ticket(), 0.0)
    lease.end(Cause.ANSWER, 9.0)
    assert moving in second.free(ticket(), 9.0)
    assert ([], []) == (first.leaving, second.leaving)


def test_a_pool_that_is_no_longer_named_keeps_its_workers():
    """Those who wait in a removed pool are still served there, and nobody new finds it."""
    before = living(p=["a"], q=["b"])
    removed = before.pools[0]
    after = before.evolve(config(q=["b"]))
    assert {"q": ["b"]} == named(after)
    assert None is removed.missing(Task.T2I)
    assert take(removed, ticket()) is not None


def test_a_worker_of_a_removed_pool_is_the_same_when_it_is_named_again():
    """While it is at work, a worker is not forgotten with its pool: its slot stays taken."""
    before = living(p=["a"], q=["b"])
    (worker,) = before.pools[0].workers
    take(before.pools[0], ticket())
    between = before.evolve(config(q=["b"]))
    after = between.evolve(config(p=["a"], q=["b"]))
    assert [worker] == after.pools[0].workers


def test_a_worker_that_was_leaving_a_removed_pool_is_the_same_when_it_is_named_again():
    """While it is at work, a worker that left a pool before that was removed is not forgotten."""
    before = living(p=["a", "c"], q=["b"])
    (worker, _) = before.pools[0].workers
    before.pools[0].take(ticket(), worker, 0.0)
    between = before.evolve(config(p=["c"], q=["b"])).evolve(config(q=["b"]))
    after = between.evolve(config(q=["b", "a"]))
    assert worker is after.pools[0].workers[1]


def test_a_removed_pool_is_forgotten_when_its_work_is_done():
    """A former pool is remembered until its workers are let go."""
    before = living(p=["a"], q=["b"])
    lease = take(before.pools[0], ticket())
    between = before.evolve(config(q=["b"]))
    assert before.pools[:1] == between.former
    lease.end(Cause.ANSWER, 9.0)
    assert before.pools[:1] == between.evolve(config(q=["b"])).former, "somebody may wait there"
    before.pools[0].replace(())
    assert () == between.evolve(config(q=["b"])).former


@pytest.mark.parametrize(
    ("url", "is_up"), [("http://e.test", True), ("http://f.test", False), (None, None)]
)
def test_an_encoder_keeps_its_health_at_its_address(url, is_up):
    """An encoder at another address is asked anew; one that is gone is not waited for."""
    section = {"tasks": ["t2i"], "workers": [{"url": "http://a"}]}
    before = living(p=section | {"encoder_url": "http://e.test"})
    (pool,) = before.evolve(config(p=section | {"encoder_url": url})).pools
    assert is_up is (pool.encoder and pool.encoder.is_up)


HOSTS = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(HOSTS, st.integers(0, 6), st.booleans()), min_size=1, max_size=5))
def test_no_change_loses_or_doubles_a_worker(changes):
    """Whatever is configured, each address has one worker, and leases stay with theirs."""
    routes, leases, known = living(p=[], q=[]), [], {}
    for hosts, cut, is_taken in changes:
        routes = routes.evolve(config(p=hosts[:cut], q=hosts[cut:]))
        assert {"p": hosts[:cut], "q": hosts[cut:]} == named(routes)
        for pool in routes.pools:
            for worker in pool.workers:
                worker.see(Sign.GOOD_PROBE, 0.0)
                held = known.get(worker.url)
                assert held is None or held is worker or not held.leases
                known[worker.url] = worker
            if is_taken:
                leases += filter(None, [take(pool, ticket())])
        for lease in leases:
            assert lease in lease.worker.leases
    for lease in leases:
        lease.end(Cause.ANSWER, 1.0)
    assert not any(worker.leases for worker in known.values())
    assert not any(pool.leaving for pool in routes.pools)
