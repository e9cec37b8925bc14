"""Every error a worker answers with, and how each is rendered. Knows no FastAPI and no torch.

WorkerError
├── InvalidRequest      400  the caller's fault
├── NotBegun            503  no work was done: the request may go elsewhere
│   ├── Busy                 too many requests wait here
│   ├── NotReady             loading, or stopping
│   └── EncoderUnreachable   the external encoder took no work
├── WorkLost            503  work had begun (`x-turnout-started: true`): never resend
├── PipelineFailed      500  plain text, as SGLang answers
└── CallerLeft          499  nobody is there to read it

EncoderError                 the encoder's answer cannot be used; becomes PipelineFailed
DeviceMissing                the device asked for is not there
EngineBroken                 the engine cannot serve again; ends the process
CheckpointError              a model directory that cannot be served, in one sentence
"""

STARTED_HEADER = "x-turnout-started"


class WorkerError(Exception):
    """An error with a status; its message is shown to the caller."""

    status = 500
    message = "Internal Server Error"

    def __init__(self, message: str | None = None) -> None:
        self.message = message or self.message
        super().__init__(self.message)

    @property
    def headers(self) -> dict[str, str]:
        """Headers that the answer carries."""
        return {}


class InvalidRequest(WorkerError):
    """The request cannot be served as it is."""

    status = 400


class NotBegun(WorkerError):
    """No work was done for this request."""

    status = 503


class Busy(NotBegun):
    """The waiting line is full."""

    message = "Too many requests are waiting here."


class NotReady(NotBegun):
    """The engine is loading, or the process is stopping."""

    message = "The model is loading."


class EncoderUnreachable(NotBegun):
    """The external encoder did not take the request."""

    message = "The external encoder cannot be reached."


class WorkLost(WorkerError):
    """Work for this request had begun and is lost."""

    status = 503
    message = "The work was lost after it had begun."

    @property
    def headers(self) -> dict[str, str]:
        """The mark that forbids a resend."""
        return {STARTED_HEADER: "true"}


class PipelineFailed(WorkerError):
    """The engine raised; the reason is in the log only."""


class CallerLeft(WorkerError):
    """The caller closed the connection before the answer."""

    status = 499
    message = "The caller left."


class EncoderError(Exception):
    """The encoder's answer cannot be used."""


class EngineBroken(Exception):
    """The engine cannot serve another request."""


class DeviceMissing(Exception):
    """The device asked for is not there; the message is one sentence."""


class CheckpointError(Exception):
    """The model directory cannot be served; the message is one sentence."""
