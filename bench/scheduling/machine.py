"""One worker on paper: it takes one job at a time, and may be killed, hang, or turn slow."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from gateway.routing.outcome import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.scheduling.agenda import Agenda
    from bench.scheduling.job import Fate, Job

    Ended = Callable[[Cause], None]
    Stint = tuple[Job, Fate, Ended]

CONNECT_SECONDS = 0.001


class Machine:
    """Is what stands at the other end of the wire; knows nothing about lines or policies."""

    def __init__(self, name: str, agenda: Agenda) -> None:
        self.name = name
        self.slowness = 1.0
        self.is_dead = self.is_hung = self.is_without_encoder = False
        self._agenda = agenda
        self._current: Stint | None = None
        self._began = 0.0
        self._behind: deque[Stint] = deque()
        """What was sent while it still had another, whose caller had given up."""

    @property
    def answers_probes(self) -> bool:
        """Tells whether a probe gets its answer."""
        return not (self.is_dead or self.is_hung)

    def begin(self, job: Job, fate: Fate, ended: Ended) -> None:
        """Takes a job; `ended` is called once, when its connection ends."""
        if self.is_dead:
            self._agenda.at(self._agenda.now + CONNECT_SECONDS, ended, Cause.UNREACHABLE)
            return
        if self.is_without_encoder:
            self._agenda.at(self._agenda.now + CONNECT_SECONDS, ended, Cause.BAD_STATUS)
            return
        self._behind.append((job, fate, ended))
        self._next()

    def _next(self) -> None:
        if self._behind and self._current is None:
            self._current = current = self._behind.popleft()
            self._began = self._agenda.now
            if not self.is_hung:
                done = self._began + current[0].seconds * self.slowness
                self._agenda.at(done, self._finish, current)

    def _finish(self, current: Stint) -> None:
        if current is self._current and not self.is_hung:
            self._end(Cause.ANSWER)

    def _end(self, cause: Cause) -> None:
        if self._current is not None:
            _, fate, ended = self._current
            self._current = None
            fate.stints.append((self._began, self._agenda.now))
            ended(cause)
            self._next()

    def _lose(self, cause: Cause) -> None:
        behind, self._behind = self._behind, deque()
        self._end(cause)
        for _, _, ended in behind:
            ended(cause)

    def kill(self) -> None:
        """Ends the process; whoever waits for it loses the connection."""
        self.is_dead = True
        self._lose(Cause.LOST)

    def hang(self) -> None:
        """Takes connections from now on, and never answers; nor what it has."""
        self.is_hung = True

    def slow(self, times: float = 5.0) -> None:
        """Takes several times as long for what it begins from now on."""
        self.slowness = times

    def lose_encoder(self) -> None:
        """Has no encoder from now on: what it has fails, and what comes as well."""
        self.is_without_encoder = True
        self._lose(Cause.BAD_STATUS)

    def mend(self) -> None:
        """Is as good as new; one that hung was restarted, so what it had is lost."""
        self.is_dead, self.slowness, self.is_without_encoder = False, 1.0, False
        if self.is_hung:
            self.is_hung = False
            self._lose(Cause.LOST)
