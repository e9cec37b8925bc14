"""Any life of a pool keeps its counters true."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import pool, worker

TASKS = st.sampled_from(Task)
REPORTS = st.sampled_from([None, frozenset(Task), frozenset({Task.T2I}), frozenset({Task.I2I})])


class PoolLife(RuleBasedStateMachine):
    """Takes, ends, adds, removes and probes in any order, and counts on its own."""

    leases = Bundle("leases")
    removed = Bundle("removed")

    def __init__(self):
        super().__init__()
        self.pools = (pool(tasks=("t2i", "i2i")), pool(tasks=("t2i",)))
        self.workers = []
        self.living = []

    @rule(target=removed, which=st.integers(0, 1), capacity=st.integers(1, 3), said=REPORTS)
    def make(self, which, capacity, said):
        """Makes a worker that no pool has yet."""
        made = worker(f"w-{len(self.workers)}", capacity)
        made.reported_tasks = said
        self.workers.append(made)
        return self.pools[which], made

    @rule(pair=consumes(removed))
    def add(self, pair):
        """Takes a worker in, for the first time or again."""
        chosen, one = pair
        chosen.add(one)

    @rule(target=removed, data=st.data())
    def remove(self, data):
        """Lets any worker of any pool go."""
        pairs = [(chosen, one) for chosen in self.pools for one in chosen.workers]
        if not pairs:
            return self.make(0, 1, None)
        chosen, one = data.draw(st.sampled_from(pairs))
        chosen.remove(one)
        return chosen, one

    @rule(target=leases, which=st.integers(0, 1), task=TASKS, data=st.data())
    def take(self, which, task, data):
        """Takes a slot if there is one; who is left out is not taken."""
        chosen = self.pools[which]
        without = data.draw(st.lists(st.sampled_from(chosen.workers))) if chosen.workers else []
        could = any(w.is_available(task) and w not in without for w in chosen.workers)
        lease = chosen.take(task, 1, 0.0, without)
        assert (could and task in chosen.tasks) is (lease is not None)
        if lease is not None:
            assert lease.worker in chosen.workers
            assert lease.worker not in without
            if task is Task.I2I:
                assert lease.worker.reported_tasks in (None, frozenset(Task), frozenset({task}))
                assert Task.I2I in chosen.tasks
            self.living.append(lease)
        return lease

    @rule(lease=leases, cause=st.sampled_from(Cause))
    def end(self, lease, cause):
        """Ends a lease, perhaps one that has ended already."""
        if lease is not None:
            lease.end(cause, 1.0)
            self.living = [each for each in self.living if each is not lease]

    @rule(sign=st.sampled_from(Sign), data=st.data())
    def probe(self, sign, data):
        """Lets a worker be seen well or ill."""
        if self.workers:
            data.draw(st.sampled_from(self.workers)).health.see(sign)

    @invariant()
    def counters_are_living_leases(self):
        """Checks that in_flight is the number of living leases, within the capacity."""
        for one in self.workers:
            held = sum(lease.worker is one for lease in self.living)
            assert held == one.in_flight
            assert 0 <= one.in_flight <= one.capacity

    @invariant()
    def leaving_are_the_removed_with_work(self):
        """Checks that exactly the removed workers that hold a lease are leaving, once each."""
        for chosen in self.pools:
            assert len(chosen.leaving) == len(set(chosen.leaving))
            assert all(one.in_flight for one in chosen.leaving)
            assert not set(chosen.leaving) & set(chosen.workers)


class TestPoolLife(PoolLife.TestCase):
    """Any sequence of take, end, add, remove and probe keeps every counter true."""

    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
