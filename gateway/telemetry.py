"""One record per request and per attempt, written as a log line and as metrics.

Nothing here ever sees a prompt or a picture, so neither can reach a log.
"""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import structlog

from gateway.metrics import Metrics
from gateway.routing.health import Health
from gateway.routing.outcome import MEANINGS, Attempt

if TYPE_CHECKING:
    from gateway.config import ServerConfig
    from gateway.errors import GatewayError
    from gateway.record import RequestRecord


class Telemetry:
    """Is the log and the metrics of one runtime."""

    def __init__(self, server: ServerConfig) -> None:
        self.log: Any = _logger(server)
        self.metrics = Metrics()

    def request_ended(self, record: RequestRecord, now: float) -> None:
        """Writes the one line and the metrics of a request."""
        seconds = now - record.started
        task, pool = record.task or "none", record.pool or "none"
        metrics = self.metrics
        metrics.requests.labels(record.route, task, pool, str(record.status)).inc()
        metrics.request_seconds.labels(record.route, task).observe(seconds)
        if record.pool is not None:
            metrics.queue_seconds.labels(pool).observe(record.queue_seconds)
        fields: dict[str, Any] = {
            "id": record.id,
            "method": record.method,
            "path": record.path,
            "status": record.status,
            "seconds": round(seconds, 3),
        }
        if record.task is not None:
            fields |= {"task": record.task, "evidence": record.evidence}
        if record.ar_tokens:
            fields |= {"ar_tokens": record.ar_tokens, "pixel_steps": record.pixel_steps}
        if record.pool is not None:
            fields |= {
                "pool": record.pool,
                "worker": record.workers or None,
                "attempts": record.attempts,
                "queue_seconds": round(record.queue_seconds, 3),
                "worker_seconds": round(record.worker_seconds, 3),
            }
        if record.code is not None:
            fields["code"] = record.code
        self.log.info("request", **fields)

    def attempt_ended(self, attempt: Attempt, request_id: str, detail: str) -> None:
        """Counts an attempt, and logs one that failed."""
        assert attempt.cause is not None
        outcome = MEANINGS[attempt.cause].outcome.value
        self.metrics.attempts.labels(
            attempt.pool, attempt.worker, outcome, attempt.cause.value
        ).inc()
        if outcome != "answered":
            self.log.warning(
                "attempt",
                id=request_id,
                worker=attempt.worker,
                number=attempt.number,
                cause=attempt.cause.value,
                seconds=round(attempt.seconds, 3),
                detail=detail,
            )

    def health_changed(self, pool: str, name: str, state: Health, detail: str) -> None:
        """Logs that a server is seen in another state of health."""
        tell = self.log.info if state is Health.UP else self.log.warning
        is_up = state in (Health.UP, Health.DOUBTFUL)
        tell("health", pool=pool, server=name, state=state.value, up=is_up, detail=detail)

    def operated(self, action: str, worker: str) -> None:
        """Logs what an operator does to a worker."""
        self.log.info("operator", action=action, worker=worker)

    def fault(self, where: str, error: BaseException, request_id: str | None = None) -> None:
        """Logs an error of our own by its kinds and places.

        Its text stays out: libraries put what they choked on into it, and that may be a picture.
        """
        self.log.error("fault", where=where, id=request_id, trace=_trace(error))

    def answered(self, pool: str, *, is_on_time: bool) -> None:
        """Counts an answer as on time or late."""
        self.metrics.slo.labels(pool, "yes" if is_on_time else "no").inc()

    def shed(self, pool: str, error: GatewayError) -> None:
        """Counts a request that was refused at the line."""
        self.metrics.shed.labels(pool, error.code).inc()

    def resend_denied(self, pool: str) -> None:
        """Counts a request that was not sent again for want of budget."""
        self.metrics.resends_denied.labels(pool).inc()

    def rested(self, pool: str, worker: str, reason: str) -> None:
        """Counts and logs that a worker (empty: the whole pool) gets no work for a while."""
        self.metrics.rests.labels(pool, worker or "all", reason).inc()
        self.log.warning("rest", pool=pool, worker=worker or "all", reason=reason)

    def reloaded(self, needs_restart: list[str]) -> None:
        """Logs that another configuration holds, and what of it only holds after a restart."""
        tell = self.log.warning if needs_restart else self.log.info
        tell("reloaded", needs_restart=needs_restart)


def _trace(error: BaseException) -> list[str]:
    """Lists the kind of an error and of each of its causes, and the places that it came by."""
    lines: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        places = traceback.extract_tb(seen.__traceback__)
        lines.append(type(seen).__name__)
        lines += [f"{place.filename}:{place.lineno} {place.name}" for place in places]
        seen = seen.__cause__ or seen.__context__
    return lines


def _logger(server: ServerConfig) -> Any:
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stdout),
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[server.log_level.upper()]
        ),
        processors=[*_first(), *_last(server)],
    )


def capture_library_logs(server: ServerConfig) -> None:
    """Gives the libraries' own log lines the form of ours; for a process that is only a gateway."""
    handler = logging.StreamHandler(sys.stdout)
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_first(), processors=[strip, *_last(server)]
        )
    )
    logging.getLogger().handlers = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    # One line per malformed form would be the caller's to write; the answer tells him already.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    # Pillow warns of every oddity in a caller's picture; what matters is answered.
    warnings.filterwarnings("ignore", category=UserWarning, module="PIL")


def _first() -> list[Any]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper("iso", utc=True),
    ]


def _last(server: ServerConfig) -> list[Any]:
    as_text = server.log_format == "text" or (server.log_format == "auto" and sys.stdout.isatty())
    if as_text:
        # The plain traceback: the usual one for terminals shows local values, prompts among them.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(exception_formatter=plain, sort_keys=False)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
