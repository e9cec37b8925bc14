"""The peers: a request is bound to a worker when it arrives, and waits in that worker's own line.

So do nginx, HAProxy, Envoy and the like in front of model servers. They are given more than they
have: a worker that answers no probe gets nothing from the next probe on, whoever is refused a
connection is sent elsewhere, and nobody is turned away for the length of a line.
"""

from __future__ import annotations

import random
from collections import deque
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gateway.routing.outcome import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.scheduling.agenda import Agenda
    from bench.scheduling.fleet import Fleet
    from bench.scheduling.job import Fate, Job
    from bench.scheduling.machine import Machine

    Choose = Callable[["Peer", Sequence["_Backend"]], "_Backend"]

PROBE_SECONDS: Final = 5.0


class Peer:
    """Is a proxy with one way to choose."""

    def __init__(self, agenda: Agenda, fleet: Fleet, name: str) -> None:
        self.chance = random.Random(name)
        self.turn = 0
        self._agenda = agenda
        self._choose = CHOICES[name]
        self._backends = {
            group: [_Backend(machine, agenda) for machine in members]
            for group, members in fleet.groups.items()
        }
        self._tasks = {group: members.tasks for group, members in fleet.groups.items()}
        if fleet.has_faults:
            self._probe(fleet.ends)

    def _probe(self, ends: float) -> None:
        for backends in self._backends.values():
            for backend in backends:
                backend.is_up = backend.machine.answers_probes
        if self._agenda.now < ends:
            self._agenda.at(self._agenda.now + PROBE_SECONDS, self._probe, ends)

    def arrive(self, job: Job, fate: Fate) -> None:
        """Binds a request to a worker."""
        able = [
            backend
            for group, backends in self._backends.items()
            if job.task.value in self._tasks[group]
            for backend in backends
        ]
        if up := [backend for backend in able if backend.is_up and not backend.machine.is_dead]:
            self._choose(self, up).take(job, fate)
        else:
            fate.fail("no worker")


class _Backend:
    """Is one worker with its own line, first come, first served."""

    def __init__(self, machine: Machine, agenda: Agenda) -> None:
        self.machine = machine
        self.is_up = True
        self._agenda = agenda
        self._line: deque[tuple[Job, Fate]] = deque()
        self._is_busy = False

    @property
    def open_requests(self) -> int:
        """Counts what the peer has sent it and has not been answered."""
        return len(self._line) + self._is_busy

    def take(self, job: Job, fate: Fate) -> None:
        """Puts a request at the end of the line."""
        self._line.append((job, fate))
        self._begin()

    def _begin(self) -> None:
        while self._line and not self._is_busy:
            job, fate = self._line.popleft()
            if self._agenda.now > job.deadline:  # its caller has left
                fate.fail("deadline in line")
                continue
            self._is_busy = True
            self.machine.begin(job, fate, partial(self._ended, job, fate))

    def _ended(self, job: Job, fate: Fate, cause: Cause) -> None:
        self._is_busy = False
        if cause is Cause.ANSWER:
            fate.answer(job, self._agenda.now)
        else:
            fate.fail(cause.value)
        if cause is Cause.LOST:  # the line was in the process that ended
            while self._line:
                self._line.popleft()[1].fail(cause.value)
        self._begin()


def _round_robin(peer: Peer, backends: Sequence[_Backend]) -> _Backend:
    peer.turn += 1
    return backends[peer.turn % len(backends)]


def _random(peer: Peer, backends: Sequence[_Backend]) -> _Backend:
    return peer.chance.choice(backends)


def _least_request(peer: Peer, backends: Sequence[_Backend]) -> _Backend:
    fewest = min(backend.open_requests for backend in backends)
    return peer.chance.choice([each for each in backends if each.open_requests == fewest])


def _p2c(peer: Peer, backends: Sequence[_Backend]) -> _Backend:
    return _least_request(peer, peer.chance.sample(backends, min(2, len(backends))))


CHOICES: Final[MappingProxyType[str, Choose]] = MappingProxyType(
    {
        "round_robin": _round_robin,
        "random": _random,
        "p2c": _p2c,
        "least_request": _least_request,
    }
)
