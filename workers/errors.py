"""Every error a worker answers with, and how each is rendered. Knows no FastAPI and no torch.

WorkerError
├── InvalidRequest      400  the caller's fault
├── NotBegun            503  no work was done: the request may go elsewhere
│   ├── Busy                 too many requests wait here
│   ├── NotReady             loading, or stopping
│   └── EncoderUnreachable   the external encoder took no work
├── WorkLost            503  work had begun (`x-turnout-started: true`): never resend
│   ├── EncoderLost          the external encoder died or fell silent
│   └── OutOfMemory          the memory was full; it is free again
├── EncoderFailed       502  the encoder's answer cannot be used (work had begun)
├── PipelineFailed      500  the engine raised; the reason is in the log only
│   └── Refused              500  SGLang's own answer to what it does not serve: plain text
└── CallerLeft          499  nobody is there to read it

DeviceMissing                the device asked for is not there
EngineBroken                 the engine cannot serve again; ends the process
CheckpointError              a model directory that cannot be served, in one sentence
"""

from typing import Any

STARTED_HEADER = "x-turnout-started"
RETRY_SECONDS = 5


class WorkerError(Exception):
    """An error with a status; its message is shown to the caller."""

    status = 500
    type = "server_error"
    code = "internal_error"
    message = "Internal Server Error"
    has_begun = False
    param: str | None = None

    def __init__(self, message: str | None = None) -> None:
        self.message = message or self.message
        super().__init__(self.message)

    @property
    def headers(self) -> dict[str, str]:
        """What a caller must know before it tries again: whether work began, and when to."""
        headers = {STARTED_HEADER: "true"} if self.has_begun else {}
        return headers | ({"retry-after": str(RETRY_SECONDS)} if self.status == 503 else {})

    @property
    def envelope(self) -> dict[str, Any]:
        """OpenAI's error body."""
        keys = ("message", "type", "param", "code")
        return {"error": {key: getattr(self, key) for key in keys}}


class InvalidRequest(WorkerError):
    """The request cannot be served as it is."""

    status = 400
    type = "invalid_request_error"

    def __init__(
        self, message: str, code: str = "invalid_value", param: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.code, self.param, self.status = code, param, status


class NotBegun(WorkerError):
    """No work was done for this request."""

    status = 503
    type = "service_unavailable_error"
    code = "not_ready"


class Busy(NotBegun):
    """The waiting line is full."""

    code = "busy"
    message = "Too many requests are waiting here."


class NotReady(NotBegun):
    """The engine is loading, or the process is stopping."""

    message = "The model is loading."


class EncoderUnreachable(NotBegun):
    """The external encoder did not take the request."""

    code = "encoder_unreachable"
    message = "The external encoder cannot be reached."


class WorkLost(WorkerError):
    """Work for this request had begun and is lost."""

    status = 503
    type = "service_unavailable_error"
    code = "work_lost"
    message = "The work was lost after it had begun."
    has_begun = True


class EncoderLost(WorkLost):
    """The external encoder died, closed the connection or fell silent."""

    code = "encoder_lost"
    message = "The external encoder broke off."


class OutOfMemory(WorkLost):
    """The memory was full; what this request held is free again."""

    code = "worker_out_of_memory"
    message = "The worker ran out of memory."


class EncoderFailed(WorkerError):
    """The encoder's answer cannot be used."""

    status = 502
    code = "encoder_error"
    has_begun = True


class PipelineFailed(WorkerError):
    """The engine raised; the reason is in the log only."""

    has_begun = True


class Refused(PipelineFailed):
    """What SGLang does not serve either: its bare 500."""

    code = "text_only"
    has_begun = False


class CallerLeft(WorkerError):
    """The caller closed the connection before the answer, or cancelled the work."""

    status = 499
    code = "caller_left"
    message = "The caller left."


class EngineBroken(Exception):
    """The engine cannot serve another request."""


class DeviceMissing(Exception):
    """The device asked for is not there; the message is one sentence."""


class CheckpointError(Exception):
    """The model directory cannot be served; the message is one sentence."""
