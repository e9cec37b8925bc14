"""One model server as the gateway sees it: address, capacity, work in flight, health."""

from __future__ import annotations

from gateway.routing.health import HealthTrack, Sign
from gateway.routing.request import Task


class Worker:
    """Is one model server at one address; three questions decide whether it gets work."""

    __slots__ = (
        "capacity",
        "health",
        "in_flight",
        "is_blind",
        "name",
        "reported_tasks",
        "stops_on_disconnect",
        "url",
    )

    def __init__(
        self, name: str, url: str, capacity: int = 1, stops_on_disconnect: bool = False
    ) -> None:
        self.name = name
        self.url = url.rstrip("/")
        self.capacity = capacity
        self.stops_on_disconnect = stops_on_disconnect
        self.in_flight = 0
        self.health = HealthTrack()
        self.reported_tasks: frozenset[Task] | None = None
        """What the server says it can do; None while it has not said."""
        self.is_blind = False
        """Whether it refused a picture as text-only, whatever it says."""

    def __repr__(self) -> str:
        return (
            f"<Worker {self.name} [{self.health.state.value} | {self.in_flight}/{self.capacity}]>"
        )

    @property
    def is_full(self) -> bool:
        """Tells whether all its slots are taken."""
        return self.in_flight >= self.capacity

    def is_able(self, task: Task) -> bool:
        """Tells whether it can do the task at all, as far as is known."""
        if task is Task.I2I and self.is_blind:
            return False
        return self.reported_tasks is None or task in self.reported_tasks

    def is_fit(self, task: Task) -> bool:
        """Tells whether it is healthy and able to do the task, busy or not."""
        return self.health.is_up and self.is_able(task)

    def is_available(self, task: Task) -> bool:
        """Tells whether it can take one more request of the task now."""
        return self.is_fit(task) and not self.is_full

    def report(self, tasks: frozenset[Task] | None) -> None:
        """Takes in what the server says it can do; a change clears what it showed before."""
        if tasks != self.reported_tasks:
            self.reported_tasks = tasks
            self.is_blind = False

    def see(self, sign: Sign) -> bool:
        """Moves its health by one sign and tells whether `health.is_up` changed.

        A server that was away may have been replaced, so what it showed before is forgotten.
        """
        changed = self.health.see(sign)
        if changed and self.health.is_up:
            self.is_blind = False
        return changed
