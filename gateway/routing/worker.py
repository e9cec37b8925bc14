"""One model server as the gateway sees it: address, capacity, work in flight, health."""

from __future__ import annotations

from gateway.routing.health import HealthTrack
from gateway.routing.request import Task


class Worker:
    """Is one model server at one address; three questions decide whether it gets work."""

    __slots__ = (
        "capacity",
        "health",
        "in_flight",
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
        """What the server says it can do, or showed it cannot; None while nothing is known."""

    def __repr__(self) -> str:
        return (
            f"<Worker {self.name} [{self.health.state.value} | {self.in_flight}/{self.capacity}]>"
        )

    @property
    def is_full(self) -> bool:
        """Tells whether all its slots are taken."""
        return self.in_flight >= self.capacity

    def is_fit(self, task: Task) -> bool:
        """Tells whether it is healthy and able to do the task, busy or not."""
        able = self.reported_tasks is None or task in self.reported_tasks
        return self.health.is_up and able

    def is_available(self, task: Task) -> bool:
        """Tells whether it can take one more request of the task now."""
        return self.is_fit(task) and not self.is_full

    def lacks_sight(self) -> None:
        """Notes that it refused a picture as text-only, until it reports otherwise."""
        known = self.reported_tasks if self.reported_tasks is not None else frozenset(Task)
        self.reported_tasks = known - {Task.I2I}
