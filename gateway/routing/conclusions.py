"""Draws the conclusions from an ended attempt: health, breakers, pace, poison, capability.

At most half of a pool's workers are rested at a time; where more fail, the pool's own circuit
opens, because then it is not the workers.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from gateway.routing.health import Sign
from gateway.routing.outcome import MEANINGS, Cause

if TYPE_CHECKING:
    from gateway.routing.breaker import Breaker
    from gateway.routing.pool import Lease, Pool
    from gateway.routing.worker import Worker

SLOW: Final = 3.0
"""Times the usual pace of the others at which a worker is rested."""
SLOW_REASON: Final = "slow"


def conclude(pool: Pool, lease: Lease, now: float) -> None:
    """Moves everything that the end of a lease says something about."""
    attempt, worker, ticket = lease.attempt, lease.worker, lease.ticket
    assert attempt.cause is not None
    meaning = MEANINGS[attempt.cause]
    if attempt.cause is Cause.ANSWER:
        _answered(pool, lease, now)
    elif attempt.cause is Cause.TEXT_ONLY:
        worker.capability.is_blind = True
    is_poison = bool(ticket.digest) and pool.poison.knows(ticket.digest, now)
    if meaning.breaks and ticket.digest:
        pool.poison.add(ticket.digest, now)
    if is_poison and meaning.breaks:
        return
    if meaning.is_ill:
        worker.see(Sign.LOST_ATTEMPT, now)
    if meaning.is_failure and _had_time(pool, lease):
        reason = attempt.cause.value
        may_rest = _may_rest(pool, worker)
        if _counts(worker.breaker, lease) and worker.breaker.failed(now, reason, may_trip=may_rest):
            pool.tripped(worker.name, reason)
        may_rest = len(pool.workers) > 1
        if may_rest and _counts(pool.circuit, lease) and pool.circuit.failed(now, reason):
            pool.tripped("", reason)


def _had_time(pool: Pool, lease: Lease) -> bool:
    """Tells whether a deadline that has passed is the worker's fault, and not a caller's haste."""
    enough = min(lease.ticket.predicted, 0.9 * pool.config.deadline_seconds)
    return lease.attempt.cause is not Cause.DEADLINE or lease.attempt.seconds >= enough


def _counts(breaker: Breaker, lease: Lease) -> bool:
    """Tells whether a lease says anything to a breaker: one on trial listens to the trial only."""
    return not breaker.is_on_trial or breaker.is_trial(lease.attempt.started)


def _answered(pool: Pool, lease: Lease, now: float) -> None:
    worker, ticket, seconds = lease.worker, lease.ticket, lease.attempt.seconds
    worker.see(Sign.ANSWERED, now)
    worker.capability.served(ticket.task, counts_tokens=lease.attempt.counts_tokens)
    if _counts(pool.circuit, lease):
        pool.circuit.passed(now)
    costs = pool.costs[ticket.task]
    predicted = costs.seconds(ticket.cost)
    costs.learn(ticket.cost, seconds)
    was_noticed = lease.is_slow
    lease.is_slow = was_noticed or _is_slow(pool, lease, seconds)
    was_on_trial = worker.breaker.is_on_trial
    if lease.is_slow or not was_on_trial:
        worker.took(seconds, predicted)
    if lease.is_slow:
        if not was_noticed:
            _rest(pool, worker, now)
    elif _counts(worker.breaker, lease):
        worker.breaker.passed(now)
        if was_on_trial:
            worker.pace, worker.returned = 1.0, now


def look_for_slow(pool: Pool, now: float) -> None:
    """Rests workers that have had a request for far longer than it usually takes."""
    for lease in [lease for worker in pool.workers for lease in worker.leases]:
        if not lease.is_slow and _is_slow(pool, lease, now - lease.attempt.started):
            lease.is_slow = True
            _rest(pool, lease.worker, now)


def _rest(pool: Pool, worker: Worker, now: float) -> None:
    if worker.breaker.trip(now, SLOW_REASON):
        pool.tripped(worker.name, SLOW_REASON)


def _is_slow(pool: Pool, lease: Lease, seconds: float) -> bool:
    """Tells whether a time is far beyond what the others would have needed.

    With nobody to compare it to, and before enough was seen, no time is slow.
    """
    if seconds <= lease.ticket.predicted:  # the usual case costs nothing
        return False
    worker, costs = lease.worker, pool.costs[lease.ticket.task]
    others = [each.pace for each in pool.workers if each is not worker and each.is_in_service]
    if not others or not costs.is_trained or not _may_rest(pool, worker):
        return False
    return seconds > SLOW * median(others) * costs.seconds(lease.ticket.cost)


def _may_rest(pool: Pool, worker: Worker) -> bool:
    """Tells whether a worker may be rested: a lone one, or at most half of several."""
    others = [each for each in pool.workers if each is not worker]
    resting = sum(each.breaker.is_open or each.breaker.is_on_trial for each in others)
    return not others or resting + 1 <= len(pool.workers) // 2
