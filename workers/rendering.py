"""The one place where errors become answers, in OpenAI's envelope."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from workers.errors import InvalidRequest, Refused, WorkerError

ROUTE_CODES = ((404, "not_found"), (405, "method_not_allowed"))


def add_error_handlers(app: FastAPI) -> None:
    """Renders our errors, FastAPI's 422 and unknown routes."""
    app.add_exception_handler(WorkerError, _render)
    app.add_exception_handler(RequestValidationError, _render_fields)
    app.add_exception_handler(HTTPException, _render_route)


async def _render(_: Request, error: Exception) -> Response:
    if not isinstance(error, WorkerError):
        raise error
    if isinstance(error, Refused):
        return PlainTextResponse(error.message, error.status)
    return JSONResponse(error.envelope, error.status, error.headers)


async def _render_fields(request: Request, error: Exception) -> Response:
    """FastAPI's 422 without the caller's values: a prompt is not echoed."""
    if not isinstance(error, RequestValidationError):
        raise error
    details: list[dict[str, Any]] = list(error.errors())
    names = [".".join(str(part) for part in item["loc"][1:]) for item in details]
    told = "; ".join(f"{name}: {item['msg']}" for name, item in zip(names, details, strict=True))
    is_missing = details[0]["type"] == "missing" and names[0] in ("image", "prompt")
    code = f"missing_{names[0]}" if is_missing else "invalid_value"
    return await _render(request, InvalidRequest(told, code, names[0] or None, 422))


async def _render_route(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = dict(ROUTE_CODES).get(error.status_code, "invalid_value")
    wrong = InvalidRequest(str(error.detail), code, status=error.status_code)
    return JSONResponse(wrong.envelope, error.status_code, error.headers)
