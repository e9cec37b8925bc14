"""One run: a trace, a fleet, a policy; the same trace is the same for every policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.scheduling.agenda import Agenda
from bench.scheduling.baselines import CHOICES, Peer
from bench.scheduling.job import Fate
from bench.scheduling.product import Product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scheduling.faults import Fault
    from bench.scheduling.fleet import Plan
    from bench.scheduling.job import Job

PEERS: Final = tuple(CHOICES)
ORDERS: Final = ("fifo", "sjf", "edf", "on_time")
POLICIES: Final = (*PEERS, *ORDERS)


def simulate(
    jobs: Sequence[Job], plan: Plan, policy: str, faults: Sequence[Fault] = (), **options: object
) -> list[Fate]:
    """Lets a policy serve a trace, and returns what became of each job.

    `options` are settings of the product's pools.
    """
    agenda = Agenda()
    deadline_seconds = jobs[0].deadline - jobs[0].arrived
    fleet = plan.build(agenda, deadline_seconds, jobs[-1].arrived, bool(faults))
    if policy in CHOICES:
        server: Peer | Product = Peer(agenda, fleet, policy)
    else:
        server = Product(agenda, fleet, policy, **options)
    fates = [Fate() for _ in jobs]
    for fault in faults:
        fault.note(agenda, fleet)
    for job, fate in zip(jobs, fates, strict=True):
        agenda.at(job.arrived, server.arrive, job, fate)
    agenda.run()
    return fates
