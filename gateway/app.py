"""Builds the two web apps around a runtime: routes, error handlers, the one middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import gateway
from gateway.api import admin, artifacts, chat, generate, huggingface, images, status, workers
from gateway.api.middleware import Boundary
from gateway.api.openapi import describe
from gateway.errors import GatewayError, InvalidRequest, MethodNotAllowed, NotFound
from gateway.errors import render as render_error

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.types import ASGIApp

    from gateway.runtime import Runtime


class _DescribedApp(FastAPI):
    """Is an app whose description is ours, not the framework's."""

    def openapi(self) -> dict[str, Any]:
        runtime = self.state.runtime
        if self.state.described is not runtime.config:  # a reload may change names and limits
            self.openapi_schema = describe(self.state.routers, runtime, version=gateway.__version__)
            self.state.described = runtime.config
        return self.openapi_schema or {}


def create_app(runtime: Runtime) -> ASGIApp:
    """Returns the app for clients."""
    faces = (generate, images, chat, huggingface, artifacts, status)
    return _app(runtime, *(face.router for face in faces))


def create_admin_app(runtime: Runtime) -> ASGIApp:
    """Returns the app for operators; it belongs on a port that clients cannot reach."""
    return _app(runtime, admin.router, workers.router, status.router)


def _app(runtime: Runtime, *routers: APIRouter) -> ASGIApp:
    app = _DescribedApp(redirect_slashes=False, docs_url=None, redoc_url=None)
    app.state.runtime, app.state.routers, app.state.described = runtime, routers, None
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(GatewayError, _render)
    app.add_exception_handler(RequestValidationError, _render)
    app.add_exception_handler(HTTPException, _render)
    app.add_exception_handler(Exception, _render)
    if runtime.config.server.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=runtime.config.server.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["*"],
        )
    return Boundary(app, runtime)


async def _render(request: Request, error: Exception) -> Response:
    known = _known(error)
    request.state.record.code = known.code
    answer = render_error(known)
    return Response(answer.body, status_code=answer.status, headers=answer.headers)


def _known(error: Exception) -> GatewayError:
    """Translates what the framework raises into the one tree."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, RequestValidationError):
        return InvalidRequest("the request does not have the shape that this route reads")
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return NotFound(
                "there is nothing at this path; pictures are made at POST /generate, "
                "/v1/images/generations and /v1/images/edits"
            )
        if error.status_code == 405:
            allow = (error.headers or {}).get("Allow", "POST")
            return MethodNotAllowed(f"this path takes {allow}", allow=allow)
        if error.status_code < 500:
            return InvalidRequest(str(error.detail))
    return GatewayError("an internal error; it was logged")
