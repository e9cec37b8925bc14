"""The waiting line under cancellation: no place and no slot is ever lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.health import Sign
from gateway.routing.outcome import Cause
from tests.transport.test_admission import line, settle, ticket


class Hall:
    """Is a line of three slots, all who ever asked for one, and what they hold."""

    def __init__(self):
        self.pool, self.queue = line((1, 2), queue_limit=3)
        self.calls = []

    def ask(self, **options):
        """Asks for a slot."""
        self.calls.append(asyncio.create_task(self.queue.lease(ticket(**options))))

    def waiting(self):
        """Lists those who have no answer yet."""
        return [call for call in self.calls if not call.done()]

    def leases(self):
        """Lists the leases that are held."""
        done = [c for c in self.calls if c.done() and not c.cancelled() and not c.exception()]
        return [call.result() for call in done if not call.result().is_ended]

    def act(self, event):
        """Lets something happen, where it can."""
        waiting, leases = self.waiting(), self.leases()
        if event in ("ask", "ask shortly", "ask again"):
            number = 2 if event == "ask again" else 1
            self.ask(deadline=1e-4 if event == "ask shortly" else 1e9, number=number)
        elif event in ("down", "up", "silent"):
            sign = {"up": Sign.GOOD_PROBE, "down": Sign.LOST_ATTEMPT}.get(event)
            self.pool.workers[1].see(sign or Sign.SILENT_AT_WORK, 0.0)
            self.queue.wake()
        if event in ("cancel first", "both ways") and waiting:
            waiting[0].cancel()
        if event in ("end", "hand over", "both ways") and leases:
            leases[0].end(Cause.ANSWER, 0.0)  # gives the slot to the first who waits …
        if event in ("cancel", "hand over") and waiting:
            waiting[0].cancel()  # … who may be cancelled before it could see that

    def check(self):
        """Checks that slots are living leases, and that a place is held by who waits."""
        held = self.leases()
        assert sorted(map(id, held)) == sorted(id(x) for w in self.pool.workers for x in w.leases)
        assert all(worker.in_flight <= worker.capacity for worker in self.pool.workers)
        assert self.queue.waiting == len(self.waiting())

    async def close(self):
        """Lets everybody leave, and checks that nothing is left behind."""
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)
        for lease in self.leases():
            lease.end(Cause.ANSWER, 0.0)
        assert (0, 0) == (self.queue.waiting, sum(w.in_flight for w in self.pool.workers))


EVENTS = ["ask", "ask", "ask shortly", "ask again", "end", "cancel", "cancel first", "hand over"]
EVENTS += ["both ways", "down", "up", "silent"]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 5))))
def test_no_slot_is_lost_whatever_is_cancelled_and_when(events):
    """After any events, any steps of the loop apart, slots equal living leases once all is calm."""

    async def play():
        hall = Hall()
        for event, steps in events:
            hall.act(event)
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps == 5:
                hall.check()
        await settle()
        await hall.close()

    asyncio.run(play())


@pytest.mark.parametrize("event", ["end", "down", "up", "dismiss", "hand over", "both ways"])
def test_a_waiter_may_be_cancelled_at_every_step(event):
    """However many steps after an event a waiter is cancelled, nothing is lost (R7)."""

    async def play(before, after):
        hall = Hall()
        for _ in range(5):
            hall.ask()
        for _ in range(before):
            await asyncio.sleep(0)
        hall.queue.dismiss() if event == "dismiss" else hall.act(event)
        for _ in range(after):
            await asyncio.sleep(0)
        for call in hall.waiting():
            call.cancel()
        await settle()
        hall.check()
        await hall.close()

    for before in range(6):
        for after in range(6):
            asyncio.run(play(before, after))
