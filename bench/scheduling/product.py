"""Drives the product's own lines and pools, as `gateway.transport` does, but without sockets.

Each method does what its namesake there does; what is decided is decided by `gateway.routing`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.config import Config
from gateway.errors import NoWorker
from gateway.routing.caller import Caller
from gateway.routing.health import Health, Sign
from gateway.routing.line import Line
from gateway.routing.outcome import MEANINGS, Cause
from gateway.routing.routes import RouteTable, choose
from gateway.routing.ticket import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.scheduling.agenda import Agenda
    from bench.scheduling.fleet import Fleet
    from bench.scheduling.job import Fate, Job
    from bench.scheduling.machine import Machine
    from gateway.routing.pool import Lease, Pool
    from gateway.routing.worker import Worker

EAGER_SECONDS: Final = 0.5
"""Pause between probes of a server that is not quite well, as `transport.prober` has it."""


class Product:
    """Is the gateway with one order: lines, pools and probes over machines."""

    def __init__(self, agenda: Agenda, fleet: Fleet, order: str, **options: object) -> None:
        self._agenda = agenda
        self._routes = RouteTable.build(_config(fleet, order, options))
        machines = {_url(machine): machine for machine in fleet.machines}
        self._stations = {
            pool: _Station(
                self,
                pool,
                {worker: machines[worker.url] for worker in pool.workers},
                agenda,
                fleet,
            )
            for pool in self._routes.pools
        }

    def arrive(self, job: Job, fate: Fate) -> None:
        """Takes in a request."""
        ticket = Ticket(
            task=job.task,
            cost=job.cost,
            arrived=job.arrived,
            deadline=job.deadline,
            caller=Caller(job.caller),
            digest=str(job.number),
        )
        self.find_place(job, fate, ticket, ())

    def find_place(
        self,
        job: Job,
        fate: Fate,
        ticket: Ticket,
        without: Sequence[Worker],
        *,
        is_resent: bool = False,
    ) -> None:
        """Lets a request join the first line that can serve it; else it fails."""
        choices, number = self._routes.choices(job.task), len(without) + 1
        try:
            pool = choose(choices, job.task, self._agenda.now, without)
        except NoWorker:
            fate.fail("no worker")
            return
        if is_resent and not pool.budget.spend(self._agenda.now):
            fate.fail("no budget")
            return

        def ticket_for(pool: Pool) -> Ticket:
            is_spill = pool is not choices[0]
            return replace(ticket, number=number, without=without, is_spill=is_spill)

        refusal = self._stations[pool].lease(job, fate, ticket_for(pool))
        if refusal is None:
            return
        for other in choices:
            station, spilled = self._stations[other], ticket_for(other)
            if other is not pool and station.has_room(spilled):
                refusal = station.lease(job, fate, spilled)
                break
        if refusal is not None:
            fate.fail(refusal)


def _url(machine: Machine) -> str:
    return f"http://{machine.name}.test"


def _config(fleet: Fleet, order: str, options: Mapping[str, object]) -> Config:
    pools: dict[str, dict[str, object]] = {
        name: {
            "tasks": group.tasks,
            "workers": [{"url": _url(machine), "name": machine.name} for machine in group],
            "encoder_url": "http://encoder.test" if group.has_encoder else None,
            "deadline_seconds": fleet.deadline_seconds,
            "order": order,
        }
        for name, group in fleet.groups.items()
    }
    return Config.model_validate(
        {"pools": {name: pool | dict(options) for name, pool in pools.items()}}
    )


class _Station:
    """Is one pool's line with those who wait in it, and the prober of its workers."""

    def __init__(
        self,
        product: Product,
        pool: Pool,
        machines: Mapping[Worker, Machine],
        agenda: Agenda,
        fleet: Fleet,
    ) -> None:
        self.pool = pool
        self.line = Line(pool)
        self._product = product
        self._machines = machines
        self._agenda = agenda
        self._fleet = fleet
        self._waiting: dict[Ticket, tuple[Job, Fate]] = {}
        pool.on_end.append(lambda attempt: self._assign())
        for worker in machines:
            self._probe(worker)
        self._probe_encoder()

    def has_room(self, ticket: Ticket) -> bool:
        """Tells whether a ticket would be served at once."""
        self.pool.look(self._agenda.now)
        return not self.line.tickets and bool(self.pool.free(ticket, self._agenda.now))

    def lease(self, job: Job, fate: Fate, ticket: Ticket) -> str | None:
        """Lets a ticket wait for a worker, or says why it may not."""
        now = self._agenda.now
        if now + self.pool.least(ticket) >= ticket.deadline:
            if not self.pool.has_work:
                self.pool.costs[ticket.task].doubt()
            return "cannot be met"
        self.line.join(ticket)
        self._waiting[ticket] = (job, fate)
        self._assign()
        if ticket not in self._waiting:
            return None
        if len(self.line.tickets) > self.pool.config.queue_limit and ticket.number == 1:
            self._leave(ticket)
            return "queue full"
        if not self.line.can_be_met(ticket, now):
            self._leave(ticket)
            return "cannot be met"
        self._agenda.at(ticket.deadline - self.pool.least(ticket), self._give_up, ticket)
        return None

    def _leave(self, ticket: Ticket) -> tuple[Job, Fate]:
        self.line.leave(ticket)
        return self._waiting.pop(ticket)

    def _give_up(self, ticket: Ticket) -> None:
        if ticket in self._waiting:
            self._leave(ticket)[1].fail("deadline in line")

    def _assign(self) -> None:
        for lease in self.line.assign(self._agenda.now):
            self._attempt(lease, *self._waiting.pop(lease.ticket))
        for ticket, _ in self.line.unserved():
            if ticket in self._waiting:
                job, fate = self._leave(ticket)
                self._product.find_place(job, fate, ticket, tuple(ticket.without))

    def _attempt(self, lease: Lease, job: Job, fate: Fate) -> None:
        ended = partial(self._ended, lease, job, fate)
        self._machines[lease.worker].begin(job, fate, ended)
        self._agenda.at(job.deadline, self._pass_deadline, lease, fate)
        self._agenda.at(job.deadline + self.pool.config.deadline_seconds, ended, Cause.HUNG)

    def _pass_deadline(self, lease: Lease, fate: Fate) -> None:
        if not lease.is_ended:
            lease.attempt.given_up = Cause.DEADLINE
            fate.fail("deadline at work")

    def _ended(self, lease: Lease, job: Job, fate: Fate, cause: Cause) -> None:
        if lease.is_ended:
            return
        if lease.attempt.given_up is not None and not MEANINGS[cause].is_ill:
            cause = lease.attempt.given_up
        if cause is Cause.ANSWER:
            fate.answer(job, self._agenda.now)
        elif not MEANINGS[cause].may_resend:
            fate.fail(cause.value)
        lease.end(cause, self._agenda.now)
        if MEANINGS[cause].may_resend:
            without = (*lease.ticket.without, lease.worker)
            self._product.find_place(job, fate, lease.ticket, without, is_resent=True)

    def _probe(self, worker: Worker) -> None:
        now, machine = self._agenda.now, self._machines[worker]
        if machine.answers_probes:
            worker.see(Sign.GOOD_PROBE, now)
        elif machine.is_hung and worker.in_flight:
            worker.see(Sign.SILENT_AT_WORK, now)
        else:
            worker.see(Sign.BAD_PROBE, now)
        self._look_again(worker.health.state, self._probe, worker)

    def _probe_encoder(self) -> None:
        if self.pool.encoder is not None:
            is_lost = any(machine.is_without_encoder for machine in self._machines.values())
            self.pool.encoder.see(Sign.BAD_PROBE if is_lost else Sign.GOOD_PROBE)
            self._look_again(self.pool.encoder.state, self._probe_encoder)

    def _look_again(self, state: Health, probe: Callable[..., None], *given: Worker) -> None:
        if self._fleet.has_faults or not all(each.is_in_service for each in self.pool.workers):
            self._assign()
        full = self.pool.config.probe_seconds
        pause = full if state is Health.UP else min(full, EAGER_SECONDS)
        if self._waiting or self._agenda.now < self._fleet.ends:
            self._agenda.at(self._agenda.now + pause, probe, *given)
