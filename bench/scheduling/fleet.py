"""The workers of one run: groups that serve the same tasks, each behind one line or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.scheduling.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.scheduling.agenda import Agenda


@dataclass(frozen=True, slots=True)
class Group:
    """Is a set of like machines; `tasks` are the words of the wire, own work first."""

    tasks: tuple[str, ...]
    machines: tuple[Machine, ...]
    has_encoder: bool = False

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Is every machine of a run."""

    groups: Mapping[str, Group]
    deadline_seconds: float
    ends: float
    """When the last request has arrived, so that little needs a look any more."""
    has_faults: bool = False

    @property
    def machines(self) -> list[Machine]:
        """Lists all machines."""
        return [machine for group in self.groups.values() for machine in group]


@dataclass(frozen=True, slots=True)
class Plan:
    """Says what groups a fleet has: name → (tasks, machines, whether an encoder stands behind)."""

    groups: tuple[tuple[str, tuple[str, ...], int, bool], ...]

    @property
    def workers(self) -> int:
        """Counts the machines."""
        return sum(count for _, _, count, _ in self.groups)

    def build(
        self, agenda: Agenda, deadline_seconds: float, ends: float, has_faults: bool
    ) -> Fleet:
        """Builds the machines."""
        groups = {
            name: Group(
                tasks, tuple(Machine(f"{name}-{n}", agenda) for n in range(count)), has_encoder
            )
            for name, tasks, count, has_encoder in self.groups
        }
        return Fleet(groups, deadline_seconds, ends, has_faults)
