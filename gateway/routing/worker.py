"""One model server as the gateway sees it: address, capacity, work in flight, health, pace."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.routing.breaker import Breaker, Circuit
from gateway.routing.capability import Capability
from gateway.routing.health import HealthTrack, Sign
from gateway.routing.request import Task

if TYPE_CHECKING:
    from gateway.config import WorkerConfig
    from gateway.routing.pool import Lease

FAILURES_IN_A_ROW: Final = 3
"""Failed answers, out of memory among them, after which a worker is rested."""
SLOW_START_SECONDS: Final = 30.0
"""A worker that returns is back at full load after this time."""
_PACE_WEIGHT: Final = 0.3
_PACES: Final = (0.1, 10.0)


class Worker:
    """Is one model server at one address; a few questions decide whether it gets work."""

    __slots__ = (
        "_configured_to_stop",
        "breaker",
        "capability",
        "capacity",
        "detail",
        "health",
        "is_capacity_configured",
        "is_drained",
        "leases",
        "name",
        "others_seconds",
        "pace",
        "reports_load",
        "returned",
        "said_to_stop",
        "streams_progress",
        "url",
    )

    def __init__(self, name: str, url: str, capacity: int = 1) -> None:
        self.name = name
        self.url = url.rstrip("/")
        self.capacity = capacity
        self._configured_to_stop: bool | None = None
        self.is_capacity_configured = True
        self.others_seconds = 0.0
        """Work that the server says it has from others, in seconds."""
        self.streams_progress = False
        """Whether it tells how far it has come."""
        self.reports_load = False
        """Whether its health tells what it has in hand."""
        self.said_to_stop = False
        """Whether the server says that it stops working when its caller hangs up."""
        self.leases: list[Lease] = []
        self.health = HealthTrack()
        self.breaker = Breaker(FAILURES_IN_A_ROW)
        self.capability = Capability()
        self.is_drained = False
        """Whether an operator took it out of service."""
        self.pace = 1.0
        """How long it takes for what usually takes one second."""
        self.detail = "not asked yet"
        """What its last probe saw."""
        self.returned: float | None = None
        """When it came back from being away; None where it never was."""

    def __repr__(self) -> str:
        return f"<Worker {self.name} [{self.state} | {self.in_flight}/{self.capacity}]>"

    @property
    def state(self) -> str:
        """Says in one word how it stands."""
        if self.is_drained:
            return "drained"
        if self.health.is_up and not self.breaker.is_open:
            return "on_trial" if self.breaker.is_on_trial else self.health.state.value
        return "resting" if self.health.is_up else self.health.state.value

    @property
    def reason(self) -> str | None:
        """Says why it is not given work as usual; None where it is."""
        if self.is_drained:
            return "an operator took it out of service"
        if self.health.is_up and not self.health.is_silent:
            is_well = self.breaker.state is Circuit.CLOSED
            return None if is_well else self.breaker.reason
        return self.detail

    @property
    def in_flight(self) -> int:
        """Counts the slots that are taken."""
        return len(self.leases)

    @property
    def stops_on_disconnect(self) -> bool:
        """Tells whether it stops when its caller hangs up; the configuration wins."""
        configured = self._configured_to_stop
        return self.said_to_stop if configured is None else configured

    def drain(self) -> None:
        """Takes it out of service; what it has in hand ends as usual."""
        self.is_drained = True

    def resume(self) -> None:
        """Takes it back into service, from a drain or from a rest."""
        self.is_drained = False
        self.breaker = Breaker(FAILURES_IN_A_ROW)

    def configure(self, name: str, config: WorkerConfig, *, via_encoder: bool = False) -> None:
        """Takes in what the configuration says; where it is silent, the server's word counts.

        `via_encoder` tells that it stands behind an external encoder.
        """
        self.name, self.capacity = name, config.capacity
        self.is_capacity_configured = "capacity" in config.model_fields_set
        self.capability.has_to_declare = via_encoder
        is_said = "stops_on_disconnect" in config.model_fields_set
        self._configured_to_stop = config.stops_on_disconnect if is_said else None
        tasks = None if config.tasks is None else frozenset(map(Task, config.tasks))
        self.capability.configure(tasks)

    def slots(self, now: float) -> int:
        """Counts the requests that it may have at once: one on trial, few after a return.

        What is left over from before a trial takes no place of its own, while there is another.
        """
        if self.breaker.is_on_trial:
            started = (lease.attempt.started for lease in self.leases)
            before = sum(not self.breaker.is_trial(at) for at in started)
            return min(self.capacity, before + 1)
        return max(1, math.ceil(self.capacity * self.warmth(now)))

    def warmth(self, now: float) -> float:
        """Tells how far a slow start has come, from 0 to 1."""
        if self.returned is None:
            return 1.0
        return min(1.0, max(0.0, (now - self.returned) / SLOW_START_SECONDS))

    def is_full(self, now: float) -> bool:
        """Tells whether all slots that it may have are taken."""
        return self.in_flight >= self.slots(now)

    def is_fit(self, task: Task) -> bool:
        """Tells whether it is in service, well, and able to do the task, busy or not."""
        return self.is_in_service and self.capability.can(task)

    @property
    def is_in_service(self) -> bool:
        """Tells whether it gets work at all."""
        return self.health.is_up and not self.breaker.is_open and not self.is_drained

    def is_available(self, task: Task, now: float) -> bool:
        """Tells whether it can take one more request of the task now."""
        return self.is_fit(task) and not self.health.is_silent and not self.is_full(now)

    def report_load(self, in_flight: int, capacity: int, seconds: float) -> None:
        """Takes in what the server says of its load; more than we gave it is somebody else's."""
        self.reports_load = True
        if not self.is_capacity_configured:
            self.capacity = capacity
        self.others_seconds = seconds if in_flight > self.in_flight else 0.0

    def see(self, sign: Sign, now: float) -> bool:
        """Moves its health by one sign and tells whether `health.is_up` changed.

        A server that was away may have been replaced, so what it showed before is forgotten.
        """
        was_known = self.health.was_up
        changed = self.health.see(sign)
        if changed and self.health.is_up:
            self.capability.forget()
            self.returned = now if was_known else None
        return changed

    def took(self, seconds: float, predicted: float) -> None:
        """Learns its pace from a finished request: a mean in which the last ones weigh most."""
        low, high = _PACES
        ratio = min(max(seconds / predicted, low), high)
        self.pace = math.exp(
            (1 - _PACE_WEIGHT) * math.log(self.pace) + _PACE_WEIGHT * math.log(ratio)
        )
