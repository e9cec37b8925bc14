"""What stays the same over all attempts of one picture, and what its caller is told in the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.errors import (
    BadAnswer,
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    OutOfMemory,
)
from gateway.routing.outcome import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gateway.config import ModelConfig
    from gateway.record import RequestRecord, Trace
    from gateway.routing.pool import Pool
    from gateway.routing.request import ImageRequest
    from gateway.routing.ticket import Ticket
    from gateway.routing.worker import Worker
    from gateway.transport.events import Listener
    from gateway.transport.replies import Failure

RETRY_AFTER_MEMORY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Errand:
    """Is what stays the same over all attempts of one picture."""

    request: ImageRequest
    model: ModelConfig
    choices: tuple[Pool, ...]
    ticket: Ticket
    headers: Mapping[str, str]
    record: RequestRecord
    trace: Trace
    listener: Listener | None = None
    """Told how far it has come, where somebody wants to know."""

    def ticket_for(self, pool: Pool, number: int, without: Collection[Worker]) -> Ticket:
        """Returns the ticket of one attempt in one pool's line."""
        is_spill = pool is not self.choices[0]
        return replace(self.ticket, number=number, without=tuple(without), is_spill=is_spill)


def worst(failures: BaseExceptionGroup[BaseException], errands: Sequence[Errand]) -> BaseException:
    """Picks the error to tell: a fault of ours, else one after which work may have run.

    Where others of several pictures have begun, "come back later" would be the wrong advice.
    """
    errors = failures.exceptions
    if faults := [error for error in errors if not isinstance(error, GatewayError)]:
        return faults[0]
    known = [error for error in errors if isinstance(error, GatewayError)]
    worst = min(known, key=lambda error: error.resend_safe)
    has_begun = len(errands) > 1 and any(errand.trace.is_begun for errand in errands)
    if has_begun and worst.retry_after is not None:
        return BadAnswer(f"one of {len(errands)} pictures failed when others had begun: {worst}")
    return worst


def error_of(failure: Failure, errand: Errand, expected_wait: float) -> GatewayError:
    if failure.cause is Cause.REJECTED:
        return InvalidRequest(
            "the worker's model cannot take this request; most often its size is out of range, "
            "else the prompt is too long or an input image unusable"
        )
    if failure.cause is Cause.OUT_OF_MEMORY:
        return OutOfMemory(
            "the worker ran out of memory; ask for a smaller size or try again later",
            retry_after=max(RETRY_AFTER_MEMORY_SECONDS, expected_wait),
        )
    if failure.cause in (Cause.DEADLINE, Cause.HUNG):
        seconds = errand.ticket.deadline - errand.record.started
        return DeadlineExceeded(
            f"no answer within {seconds:g} seconds; ask for fewer steps, fewer "
            "pictures or a smaller size"
        )
    return BadAnswer(
        "the worker did not give a usable answer; the work may have run, so it was not sent again"
    )
