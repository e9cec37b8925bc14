"""The error tree: everything a caller can be told, and the one place that renders it.

GatewayError                    500  internal_error
├─ CallerError                  the caller's fault
│  ├─ InvalidRequest            400  invalid_json, missing_prompt, invalid_value, …
│  ├─ UnusableImage             400  missing_image, invalid_image, image_too_large, …
│  ├─ NotFound                  404  not_found, model_not_found, unsupported_endpoint
│  ├─ MethodNotAllowed          405  method_not_allowed
│  ├─ SlowUpload                408  request_timeout
│  ├─ BodyTooLarge              413  request_too_large
│  └─ MediaType                 415  unsupported_media_type
├─ CapacityError                ours; try again after a while
│  ├─ QueueFull                 429  queue_full
│  ├─ NoWorker                  503  no_worker_available
│  └─ Draining                  503  draining
└─ WorkerError                  theirs
   ├─ BadAnswer                 502  worker_error
   ├─ OutOfMemory               503  worker_out_of_memory
   └─ DeadlineExceeded          504  deadline_exceeded

Texts say what to change. Addresses and worker bodies belong in the log, never in a text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Final

RETRY_AFTER_SECONDS: Final = range(1, 121)
"""The OpenAI SDKs ignore a longer Retry-After."""


class GatewayError(Exception):
    """Is the root: an error with a code, a status, and the field that caused it."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    codes: ClassVar[tuple[str, ...]] = ("internal_error",)
    resend_safe: ClassVar[bool] = False
    """False where work may have begun: the SDKs must not repeat the call by themselves."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        allow: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.codes[0]
        if self.code not in self.codes:
            raise ValueError(f"{type(self).__name__} has no code {self.code}")
        self.param = param
        self.retry_after = retry_after
        self.allow = allow


class CallerError(GatewayError):
    """Says that the request has to change before it can succeed."""

    type = "invalid_request_error"
    resend_safe = True


class InvalidRequest(CallerError):
    status = 400
    codes = (
        "invalid_value",
        "invalid_json",
        "invalid_multipart",
        "missing_prompt",
        "invalid_size",
        "unsupported_parameter",
        "model_required",
    )


class UnusableImage(CallerError):
    status = 400
    codes = (
        "invalid_image",
        "missing_image",
        "unsupported_image_format",
        "image_too_large",
        "too_many_images",
        "image_url_forbidden",
        "image_url_fetch_failed",
    )


class NotFound(CallerError):
    status = 404
    codes = ("not_found", "model_not_found", "unsupported_endpoint")


class MethodNotAllowed(CallerError):
    status = 405
    codes = ("method_not_allowed",)


class SlowUpload(CallerError):
    status = 408
    codes = ("request_timeout",)


class BodyTooLarge(CallerError):
    status = 413
    codes = ("request_too_large",)


class MediaType(CallerError):
    status = 415
    codes = ("unsupported_media_type",)


class CapacityError(GatewayError):
    """Says that nothing has begun and that the same request may succeed later."""

    resend_safe = True


class QueueFull(CapacityError):
    status = 429
    type = "rate_limit_error"
    codes = ("queue_full",)


class NoWorker(CapacityError):
    status = 503
    type = "service_unavailable_error"
    codes = ("no_worker_available",)


class Draining(CapacityError):
    status = 503
    type = "service_unavailable_error"
    codes = ("draining",)


class WorkerError(GatewayError):
    """Says that a worker took the request and did not answer it."""


class BadAnswer(WorkerError):
    status = 502
    codes = ("worker_error",)


class OutOfMemory(WorkerError):
    status = 503
    type = "service_unavailable_error"
    codes = ("worker_out_of_memory",)
    resend_safe = True


class DeadlineExceeded(WorkerError):
    status = 504
    codes = ("deadline_exceeded",)


LEAVES: Final[tuple[type[GatewayError], ...]] = (
    InvalidRequest,
    UnusableImage,
    NotFound,
    MethodNotAllowed,
    SlowUpload,
    BodyTooLarge,
    MediaType,
    QueueFull,
    NoWorker,
    Draining,
    BadAnswer,
    OutOfMemory,
    DeadlineExceeded,
    GatewayError,
)
"""Every class that is raised; the table in docs/api.md is checked against it."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Is an error on the wire: status, headers and a JSON body."""

    status: int
    headers: dict[str, str]
    body: bytes


def render(error: GatewayError) -> Rendered:
    """Renders an error in OpenAI's envelope, all four keys present."""
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        seconds = min(
            max(round(error.retry_after), RETRY_AFTER_SECONDS[0]), RETRY_AFTER_SECONDS[-1]
        )
        headers["retry-after"] = str(seconds)
    if not error.resend_safe:
        headers["x-should-retry"] = "false"
    if error.allow is not None:
        headers["allow"] = error.allow
    envelope = {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
    }
    body = json.dumps({"error": envelope}, ensure_ascii=False).encode("utf-8", "replace")
    return Rendered(error.status, headers, body)
