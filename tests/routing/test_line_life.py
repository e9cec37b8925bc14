"""Any life of a line uses every slot that somebody fits, and loses no ticket."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.routing.caller import Caller
from gateway.routing.health import Sign
from gateway.routing.order import ORDERS
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import line, ticket, worker

CALLERS = [Caller("a"), Caller("b"), Caller("c", 1)]
TICKETS = st.fixed_dictionaries(
    {
        "task": st.sampled_from(Task),
        "seconds": st.floats(2, 30),
        "caller": st.sampled_from(CALLERS),
        "shape": st.sampled_from("st"),
        "digest": st.sampled_from(["", "d", "e"]),
        "number": st.integers(1, 2),
    }
)


class LineLife(RuleBasedStateMachine):
    """Joins, leaves, assigns, ends and probes in any order, and counts on its own."""

    def __init__(self):
        super().__init__()
        self.workers = [worker(f"w-{at}", capacity) for at, capacity in enumerate((1, 2, 3))]
        self.line = line(*self.workers, tasks=("i2i", "t2i"))
        self.now = 0.0
        self.waiting, self.living, self.served, self.gone = [], [], [], []

    @rule(options=TICKETS, is_spill=st.booleans(), data=st.data())
    def join(self, options, is_spill, data):
        """Lets a ticket join."""
        new = ticket(**options, arrived=self.now)
        new.is_spill = is_spill and new.task is Task.T2I
        if new.number > 1:
            new.without = (data.draw(st.sampled_from(self.workers)),)
        self.line.join(new)
        self.waiting.append(new)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data):
        """Lets a ticket leave, perhaps twice."""
        gone = data.draw(st.sampled_from(self.waiting))
        self.line.leave(gone)
        self.line.leave(gone)
        self.waiting.remove(gone)
        self.gone.append(gone)

    @rule(order=st.sampled_from(sorted(ORDERS)))
    def reorder(self, order):
        """Takes in another configuration."""
        config = self.line.pool.config.model_copy(update={"order": order})
        self.line.pool.configure(config)

    @rule()
    def assign(self):
        """Gives slots away; afterwards none is free that somebody who waits may have."""
        for lease in self.line.assign(self.now):
            assert lease.worker not in lease.ticket.without
            assert lease.worker.is_fit(lease.ticket.task)
            self.waiting.remove(lease.ticket)
            self.served.append(lease.ticket)
            self.living.append(lease)
        poison = self.line.pool.poison
        for each in self.waiting:
            is_suspect = poison.has_to_wait(each.digest, self.now)
            assert is_suspect or not self.line.pool.free(each, self.now)

    @precondition(lambda self: self.living)
    @rule(data=st.data(), cause=st.sampled_from(Cause))
    def end(self, data, cause):
        """Ends a lease in any way."""
        lease = data.draw(st.sampled_from(self.living))
        self.living.remove(lease)
        lease.end(cause, self.now)

    @rule(data=st.data(), sign=st.sampled_from(Sign))
    def probe(self, data, sign):
        """Lets a worker be seen well or ill."""
        data.draw(st.sampled_from(self.workers)).see(sign, self.now)

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds):
        """Lets time pass."""
        self.now += seconds

    @invariant()
    def every_ticket_is_in_one_place(self):
        """Checks that who waits is in the line once, and nobody was served who had left."""
        assert self.waiting == self.line.tickets
        assert len(self.served) == len(set(self.served))
        assert not set(self.served) & (set(self.gone) | set(self.waiting))

    @invariant()
    def slots_are_living_leases(self):
        """Checks that leases are counted where they are held, within every capacity."""
        for each in self.workers:
            assert [lease for lease in self.living if lease.worker is each] == each.leases
            assert each.in_flight <= each.capacity

    @invariant()
    def at_most_half_rest(self):
        """Checks that no more than half of the workers are rested at a time."""
        resting = [w for w in self.workers if w.breaker.is_open or w.breaker.is_on_trial]
        assert len(resting) <= len(self.workers) // 2

    @invariant()
    def everybody_has_a_place(self):
        """Checks that all who wait have one position and, where anybody works, a wait."""
        ranked = self.line.ranked(self.now)
        assert sorted(map(id, ranked)) == sorted(map(id, self.waiting))
        waits = self.line.waits(self.now)
        assert not waits or list(waits) == ranked
        assert list(waits.values()) == sorted(waits.values())
        assert all(each >= 0 for each in (*waits.values(), self.line.drain_seconds(self.now)))


class TestLineLife(LineLife.TestCase):
    """Any sequence of events keeps every ticket in one place and every slot in use."""

    settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
