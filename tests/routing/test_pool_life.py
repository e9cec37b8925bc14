"""Any life of two pools and their workers keeps every counter true."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import pool, take, ticket, worker

REPORTS = (None, frozenset(Task), frozenset({Task.T2I}), frozenset({Task.I2I}))
WORKERS = st.integers(0, len(REPORTS) - 1)


class PoolLife(RuleBasedStateMachine):
    """Takes, ends, moves and probes in any order, and counts on its own."""

    def __init__(self):
        super().__init__()
        self.workers = [worker(f"w-{at}", 1 + at % 3) for at in range(len(REPORTS))]
        for one, said in zip(self.workers, REPORTS, strict=True):
            one.capability.report(said)
        self.pools = (pool(*self.workers), pool(tasks=("t2i",)))
        self.living, self.ended = [], []
        self.now = 0.0

    @rule(at=WORKERS, to=st.sampled_from([0, 1, None]))
    def move(self, at, to):
        """Lets a worker go, or takes it into a pool, perhaps from the other one."""
        one = self.workers[at]
        for chosen in self.pools:
            chosen.replace([each for each in chosen.workers if each is not one])
        if to is not None:
            self.pools[to].replace([*self.pools[to].workers, one])

    @rule(which=st.integers(0, 1), task=st.sampled_from(Task), out=st.sets(WORKERS, max_size=2))
    def take(self, which, task, out):
        """Takes a slot if there is one; who is left out is not taken."""
        chosen = self.pools[which]
        without = tuple(self.workers[at] for at in out)
        is_tried = chosen.circuit.is_on_trial and any(w.in_flight for w in chosen.workers)
        able = [w for w in chosen.workers if w.is_available(task, self.now) and w not in without]
        could = able and not is_tried and chosen.missing(task) is None
        lease = take(chosen, ticket(task, without=without), self.now)
        assert bool(could) is (lease is not None)
        if lease is not None:
            assert lease.worker in able
            if task is Task.I2I:
                said = lease.worker.capability.reported
                assert said in (None, frozenset(Task), frozenset({task}))
                assert Task.I2I in chosen.tasks
            self.living.append(lease)

    @precondition(lambda self: self.living)
    @rule(data=st.data(), cause=st.sampled_from(Cause))
    def end(self, data, cause):
        """Ends a lease."""
        lease = data.draw(st.sampled_from(self.living))
        lease.end(cause, self.now)
        self.living.remove(lease)
        self.ended.append(lease)

    @precondition(lambda self: self.ended)
    @rule(cause=st.sampled_from(Cause))
    def end_again(self, cause):
        """Ends a lease that has ended already."""
        self.ended[-1].end(cause, self.now)

    @rule(at=WORKERS, sign=st.sampled_from([*Sign, Sign.GOOD_PROBE, Sign.GOOD_PROBE]))
    def probe(self, at, sign):
        """Lets a worker be seen well or ill."""
        self.workers[at].see(sign, self.now)

    @rule()
    def wait(self):
        """Lets time pass, so that rests end."""
        self.now += 60.0
        for chosen in self.pools:
            chosen.look(self.now)

    @invariant()
    def counters_are_living_leases(self):
        """Checks that the slots taken are the living leases, within the capacity."""
        for one in self.workers:
            assert one.leases == [lease for lease in self.living if lease.worker is one]
            assert one.in_flight <= one.capacity

    @invariant()
    def leaving_are_the_removed_with_work(self):
        """Checks that exactly the removed workers that hold a pool's lease leave it, once each."""
        for chosen in self.pools:
            held = {lease.worker for lease in self.living if lease.pool is chosen}
            assert len(chosen.leaving) == len(set(chosen.leaving))
            assert held - set(chosen.workers) == set(chosen.leaving)


class TestPoolLife(PoolLife.TestCase):
    """Any sequence of take, end, move and probe keeps every counter true."""

    settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
