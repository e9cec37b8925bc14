"""Small faults that were found once, each with the rule that it broke."""

from __future__ import annotations

from gateway.config import WorkerConfig
from gateway.routing.caller import Caller
from gateway.routing.health import Health, Sign
from gateway.routing.order import REMEMBERED, Shares
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import join, line, pool, ticket, train, worker


def test_a_trial_that_was_given_up_decides_nothing_later():
    """A slow trial's late end says nothing to the breaker that has opened again meanwhile."""
    chosen = train(pool(worker("w-0"), worker("w-1"), worker("w-2")))
    first = chosen.workers[0]
    first.breaker.trip(0.0, "slow")
    chosen.look(5.0)
    trial = chosen.take(ticket(seconds=10.0), first, 5.0)
    chosen.look(36.0)
    assert first.breaker.is_open
    chosen.look(first.breaker.until)
    trial.end(Cause.BAD_STATUS, first.breaker.until + 1.0)
    assert first.breaker.is_on_trial


def test_a_setting_beats_what_a_worker_showed():
    """An operator who says what a worker can do is believed from then on."""
    one = worker()
    one.capability.is_blind = True
    one.configure("w-0", WorkerConfig(url=one.url, tasks=("t2i", "i2i")))
    assert one.is_fit(Task.I2I)


def test_a_silent_worker_holds_no_slot_free_for_the_own():
    """Only slots that can be used now count as left for the pool's own work."""
    chosen = pool(worker("w-0"), worker("w-1"), tasks=("i2i", "t2i"))
    chosen.workers[0].see(Sign.SILENT_AT_WORK, 0.0)
    assert Health.SILENT is chosen.workers[0].health.state
    spilled = ticket(Task.T2I, is_spill=True)
    assert [] == chosen.free(spilled, 0.0, own_waits=True)


def test_an_expired_ticket_is_given_nothing():
    """Who can no longer be answered in time takes no slot from others."""
    waits = line(worker())
    late, good = join(waits, ticket(deadline=1.0), ticket(arrived=0.1))
    assert [good] == [lease.ticket for lease in waits.assign(5.0)]
    assert [late] == waits.tickets


def test_those_who_left_are_not_remembered_without_end():
    """However many callers come once and go, only a bounded number is remembered."""
    shares = Shares()
    for number in range(5 * REMEMBERED):
        caller = Caller(str(number))
        shares.join(caller)
        shares.charge(caller, 1.0, ())
        shares.prune(())
    assert len(shares._given) <= 2 * REMEMBERED


def test_a_crowd_of_callers_takes_nobodys_slot():
    """However many callers wait and leave, who is served together with others is remembered."""
    waits = line(worker(capacity=3), order="fifo")
    count = 2 * REMEMBERED + 4
    join(waits, *(ticket(caller=Caller(str(n)), shape="s") for n in range(count)))
    served = 0
    while leases := waits.assign(1.0):
        served += len(leases)
        for lease in leases:
            lease.end(Cause.CLIENT_LEFT, 1.0)
    assert (count, 0) == (served, waits.pool.workers[0].in_flight)


def test_what_rules_everything_out_is_doubted():
    """A model that refuses what is never tried comes to let one through."""
    model = train(pool(worker())).costs[Task.T2I]
    large = ticket(seconds=5000.0).cost
    assert model.least_seconds(large) > 0
    for _ in range(100):
        model.doubt()
    assert model.least_seconds(large) < 1.0


def test_nothing_is_ruled_out_beyond_what_was_seen():
    """Of pictures larger than any that was seen only the time of the largest is certain."""
    chosen = train(pool(worker()))
    assert chosen.least(ticket(seconds=5000.0)) < 100.0
