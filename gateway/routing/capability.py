"""Decides which tasks a worker may be given: configuration, reports, and what it showed itself.

A worker behind an external encoder cannot see pictures, and a stock SGLang server does not say
so: it reports both tasks and answers an edit with a plain 500, at once. What gives it away are
token counts in its text-to-image answers, its own words, or quick failures of different edits
while text-to-image succeeds.
"""

from __future__ import annotations

from typing import Final

from gateway.routing.request import Task

QUICK_SECONDS: Final = 1.0
"""No edit was ever painted in less, so a failure within it came before any work."""
QUICK_FAILURES: Final = 2
"""Different edits that have to fail quickly: one may be the fault of its picture."""


class Capability:
    """Is what one worker can do; `configured` speaks where the configuration does, and wins."""

    __slots__ = (
        "_edits",
        "_failed",
        "_texts",
        "configured",
        "has_to_declare",
        "is_blind",
        "is_declared",
        "is_external",
        "reported",
    )

    def __init__(self) -> None:
        self.configured: frozenset[Task] | None = None
        self.has_to_declare = False
        """Whether it stands behind an external encoder, where few can do more than text."""
        self.reported: frozenset[Task] | None = None
        """What the server says it can do; None while it has not said."""
        self.is_declared = False
        """Whether it says so task by task, as only our own workers do."""
        self.is_external = False
        """Whether its own arguments name an external encoder."""
        self.is_blind = False
        """Whether it showed itself text-only, whatever anybody says."""
        self._texts = False
        self._edits = False
        self._failed: set[str] = set()

    def can(self, task: Task) -> bool:
        """Tells whether it can do a task, as far as is known."""
        has_to_declare = self.has_to_declare or self.is_external
        if task is Task.I2I and (self.is_blind or (has_to_declare and not self._declares_i2i)):
            return False
        said = self.configured if self.configured is not None else self.reported
        return said is None or task in said

    def configure(self, tasks: frozenset[Task] | None) -> None:
        """Takes in what the configuration says; a change makes what it showed before void."""
        if tasks != self.configured:
            self.configured = tasks
            self._forget_what_it_showed()

    def report(
        self,
        tasks: frozenset[Task] | None,
        *,
        is_declared: bool = False,
        is_external: bool | None = None,
    ) -> None:
        """Takes in what the server says; a change makes what it showed before void.

        None is "not said", and what was said before stays true.
        """
        if is_external is not None:
            self.is_external = is_external
        if tasks is not None and (tasks, is_declared) != (self.reported, self.is_declared):
            self.reported, self.is_declared = tasks, is_declared
            self._forget_what_it_showed()

    def forget(self) -> None:
        """Voids all that was seen: another server may stand at its address now."""
        self.reported, self.is_declared, self.is_external = None, False, False
        self._forget_what_it_showed()

    def _forget_what_it_showed(self) -> None:
        self.is_blind = self._texts = self._edits = False
        self._failed = set()

    def served(self, task: Task, *, counts_tokens: bool) -> None:
        """Takes in a good answer; only an external encoder counts a text request's tokens."""
        self._edits = self._edits or task is Task.I2I
        self._texts = self._texts or task is Task.T2I
        if task is Task.T2I and counts_tokens and not (self._is_sure or self._edits):
            self.is_blind = True

    def refused(self, task: Task, seconds: float, digest: str) -> bool:
        """Takes in a bare failure, and tells whether it amounts to a refusal as text-only."""
        if task is Task.T2I or self._edits or not self._texts or self._is_sure:
            return False
        if seconds <= QUICK_SECONDS:
            self._failed.add(digest)
        return seconds <= QUICK_SECONDS and len(self._failed) >= QUICK_FAILURES

    @property
    def _is_sure(self) -> bool:
        """Tells whether somebody who knows said that it takes pictures."""
        if self.configured is not None and not self.has_to_declare:
            return Task.I2I in self.configured
        return self._declares_i2i

    @property
    def _declares_i2i(self) -> bool:
        return self.is_declared and Task.I2I in (self.reported or ())
