"""Workers come and go by name while everything runs; each address has one worker."""

from __future__ import annotations

import pytest

from gateway.config import WorkerConfig
from gateway.errors import InvalidRequest, NotFound
from gateway.routing.breaker import Circuit
from gateway.routing.outcome import Cause
from tests.routing.builders import section, table, take, ticket


def two():
    """Builds a table of two pools of one worker each."""
    return table(t2i=section("t2i"), i2i=section("i2i", "t2i"))


@pytest.mark.parametrize(("said", "name"), [("", "t2i-1"), ("new", "new")])
def test_a_worker_is_taken_in(said, name):
    """A worker that is added is unproven, configured, and named after its pool if not otherwise."""
    routes = two()
    added = routes.add_worker("t2i", WorkerConfig(url="http://new.test", name=said, capacity=3))
    assert [added] == routes.pools[0].workers[1:]
    assert (name, 3, "http://new.test", False) == (
        added.name,
        added.capacity,
        added.url,
        added.health.is_up,
    )
    assert added is routes.worker(name)


def test_a_name_that_is_taken_is_passed_by():
    """A worker without a name gets the first number that nobody has."""
    routes = two()
    routes.add_worker("i2i", WorkerConfig(url="http://a.test", name="t2i-1"))
    assert "t2i-2" == routes.add_worker("t2i", WorkerConfig(url="http://b.test")).name


@pytest.mark.parametrize(
    ("pool", "entry", "error", "param"),
    [
        ("other", {"url": "http://new.test"}, NotFound, None),
        ("t2i", {"url": "http://new.test", "name": "i2i-0"}, InvalidRequest, "name"),
        ("t2i", {"url": "http://i2i-t2i-0.test"}, InvalidRequest, "url"),
    ],
)
def test_a_worker_that_is_known_is_not_taken_in(pool, entry, error, param):
    """A pool that does not exist, and a name or an address that is taken, change nothing."""
    routes = two()
    with pytest.raises(error) as caught:
        routes.add_worker(pool, WorkerConfig(**entry))
    assert param == caught.value.param
    assert [1, 1] == [len(each.workers) for each in routes.pools]


def test_a_worker_is_taken_out():
    """A worker that is removed gets nothing new, and leaves with its last lease."""
    routes = two()
    text, pictures = routes.pools
    lease = take(text, ticket())
    removed = routes.remove_worker("t2i-0")
    assert (lease.worker, [], [removed]) == (removed, text.workers, text.leaving)
    assert 1 == len(pictures.workers)
    lease.end(Cause.ANSWER, 1.0)
    assert [] == text.leaving
    with pytest.raises(NotFound, match="there is no worker 't2i-0'"):
        routes.remove_worker("t2i-0")


def test_a_worker_that_is_leaving_comes_back_as_itself():
    """Who is added again while at work is the same worker: its slot stays taken."""
    routes = two()
    text = routes.pools[0]
    lease = take(text, ticket())
    routes.remove_worker("t2i-0")
    back = routes.add_worker("t2i", WorkerConfig(url=lease.worker.url, name="back"))
    assert (lease.worker, "back", 1) == (back, back.name, back.in_flight)
    assert [] == text.leaving


def test_a_drained_worker_is_resumed():
    """A worker that is drained gets nothing; resumed, it is back at once, from a rest as well."""
    routes = two()
    text = routes.pools[0]
    worker = routes.worker("t2i-0")
    worker.drain()
    assert [] == text.free(ticket(), 0.0)
    worker.breaker.trip(0.0, "slow")
    worker.resume()
    assert [worker] == text.free(ticket(), 0.0)
    assert Circuit.CLOSED is worker.breaker.state
