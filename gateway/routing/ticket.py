"""What the line knows of one picture that waits: who wants it, what it costs, when it is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.routing.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Collection

    from gateway.routing.cost import Cost
    from gateway.routing.request import Task
    from gateway.routing.worker import Worker


@dataclass(slots=True, eq=False, kw_only=True)
class Ticket:
    """Is one picture in a line or at a worker; times are in seconds on the pool's clock.

    `shape` is equal for pictures that a worker can make in one batch; `digest` is equal for
    requests with the same content. `predicted`, `due` and `turn` are the line's, set when it joins.
    """

    task: Task
    cost: Cost
    arrived: float
    deadline: float
    caller: Caller = field(default_factory=Caller)
    shape: str = ""
    digest: str = ""
    id: str = ""
    number: int = 1
    """Of the attempt that it waits for, from 1."""
    without: Collection[Worker] = ()
    """Workers that refused it."""
    is_spill: bool = False
    """Whether it came from another pool that cannot serve it."""
    predicted: float = field(default=0.0, init=False)
    due: float = field(default=0.0, init=False)
    turn: int = field(default=0, init=False)

    def __repr__(self) -> str:
        return f"<Ticket {self.task.value} {self.predicted:.1f}s due {self.due:.1f}>"
