"""What goes wrong in a run, when, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bench.scheduling.agenda import Agenda
    from bench.scheduling.fleet import Fleet

Kind = Literal["kill", "hang", "slow", "lose_encoder"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Is one trouble of one machine, or of all machines of a group where none is named."""

    kind: Kind
    at: float
    lasts: float
    group: str
    machine: int | None = 0

    def note(self, agenda: Agenda, fleet: Fleet) -> None:
        """Notes its begin and its end."""
        machines = fleet.groups[self.group].machines
        for machine in machines if self.machine is None else (machines[self.machine],):
            agenda.at(self.at, getattr(machine, self.kind))
            agenda.at(self.at + self.lasts, machine.mend)


def repeated(
    kind: Kind, group: str, *, machine: int | None = 0, every: float, lasts: float, ends: float
) -> list[Fault]:
    """Lists a fault that comes again and again."""
    times = range(1, int(ends / every) + 1)
    return [Fault(kind, number * every, lasts, group, machine) for number in times]
