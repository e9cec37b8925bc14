"""What is known of one request and of each of its pictures: for the log, metrics and headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_HEADER: Final = 1024


@dataclass(slots=True)
class Trace:
    """Is the way of one picture: the worker asked last, attempts, times in seconds."""

    worker: str = ""
    attempts: int = 0
    queue_seconds: float = 0.0
    worker_seconds: float = 0.0
    is_begun: bool = False
    """Whether a worker may have begun it."""


@dataclass(slots=True)
class RequestRecord:
    """Is what is known of one request, filled in along its way; times in seconds.

    Its pictures run side by side, so its times are those of the slowest one.
    """

    id: str
    method: str
    path: str
    started: float
    route: str = "unknown"
    task: str | None = None
    evidence: str | None = None
    pool: str | None = None
    traces: list[Trace] = field(default_factory=list)
    status: int = 0
    code: str | None = None
    seed: int | None = None
    ar_tokens: int = 0
    pixel_steps: int = 0
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def workers(self) -> str:
        """Names the worker of each picture, comma-joined."""
        return ",".join(trace.worker for trace in self.traces if trace.worker)

    @property
    def attempts(self) -> int:
        """Counts the attempts of all pictures."""
        return sum(trace.attempts for trace in self.traces)

    @property
    def queue_seconds(self) -> float:
        """Tells the longest time in line."""
        return max((trace.queue_seconds for trace in self.traces), default=0.0)

    @property
    def worker_seconds(self) -> float:
        """Tells the longest time at workers."""
        return max((trace.worker_seconds for trace in self.traces), default=0.0)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Lists the response headers that tell the request's way, as far as it went."""
        pairs: list[tuple[str, str | None]] = [
            ("x-request-id", self.id),
            ("x-turnout-task", self.task),
            ("x-turnout-pool", self.pool),
            ("x-turnout-worker", self.workers or None),
            ("x-turnout-seed", None if self.seed is None else str(self.seed)),
            ("x-turnout-ignored", _cut(",".join(dict.fromkeys(self.ignored))) or None),
            ("x-turnout-warning", _cut("; ".join(self.warnings)) or None),
        ]
        if self.pool is not None:
            pairs.append(("x-turnout-attempts", str(self.attempts)))
            pairs.append(("x-turnout-queue-seconds", f"{self.queue_seconds:.3f}"))
            pairs.append(("x-turnout-worker-seconds", f"{self.worker_seconds:.3f}"))
        return [(name.encode(), value.encode()) for name, value in pairs if value is not None]


def _cut(text: str) -> str:
    """Keeps a header at a length that every proxy takes."""
    return text if len(text) <= MAX_HEADER else f"{text[:MAX_HEADER]}..."
