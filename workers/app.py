"""The HTTP face of a worker: SGLang's image routes in front of one engine thread."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response

from workers.engine import Engine, WorkerInfo
from workers.errors import InvalidRequest, PipelineFailed, WorkerError
from workers.generation import GenerationJob, GenerationLine
from workers.pictures import Size, fit_source, read_picture, size_like
from workers.runner import WAITING_LIMIT
from workers.schemas import ImagesRequest
from workers.status import status_router
from workers.waiting import unheard

DEFAULT_SIDE = 1024
MAX_SOURCES = 16


def create_app(
    info: WorkerInfo, load: Callable[[], Engine], *, waiting_limit: int = WAITING_LIMIT
) -> FastAPI:
    """The worker's application; `load` runs in the engine thread and may take minutes.

    `app.state.runner` is the engine thread's owner: its `failure` tells a process to end.
    """
    line = GenerationLine(info, load, waiting_limit)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        line.runner.start()
        yield
        line.runner.stop()

    app = FastAPI(title="Turnout worker", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.runner = line.runner
    app.include_router(status_router(info, line.runner, line.metrics.registry))
    app.add_exception_handler(WorkerError, _render)
    app.add_exception_handler(RequestValidationError, _render_fields)
    app.add_exception_handler(ClientDisconnect, unheard)

    @app.post("/v1/images/generations")
    async def generations(fields: ImagesRequest, request: Request) -> Response:
        """Makes pictures from text."""
        fields.check_response_format()
        side = min(DEFAULT_SIDE, info.limits.max_side)
        size = fields.target_size(info.limits, (side, side))
        return await line.answer(GenerationJob.of(fields, size, info.limits), fields, request)

    @app.post("/v1/images/edits")
    async def edits(request: Request) -> Response:
        """Makes pictures from text and at least one source picture (multipart)."""
        async with request.form() as form:
            files = [*form.getlist("image"), *form.getlist("image[]")]
            uploads = [await file.read() for file in files if isinstance(file, UploadFile)]
            texts = {key: value for key, value in form.items() if isinstance(value, str)}
        fields = _edit_fields(texts, bool(uploads))
        fields.check_response_format()
        if "i2i" not in info.tasks and info.encoder == "in-process":
            raise InvalidRequest("input_reference is not supported for T2I models.")
        if len(uploads) > MAX_SOURCES:
            raise InvalidRequest(f"At most {MAX_SOURCES} source images.")
        pictures = [
            await run_in_threadpool(read_picture, data, info.limits.max_aspect) for data in uploads
        ]
        fallback: Size = size_like(pictures[0].size, info.limits)
        size = fields.target_size(info.limits, fallback)
        sources = [await run_in_threadpool(fit_source, item, info.limits) for item in pictures]
        job = GenerationJob.of(fields, size, info.limits, tuple(sources))
        return await line.answer(job, fields, request)

    return app


def _edit_fields(texts: dict[str, str], has_image: bool) -> ImagesRequest:
    missing = {"type": "missing", "loc": ("body", "image"), "msg": "Field required", "input": None}
    try:
        fields = ImagesRequest.model_validate(texts)
    except ValidationError as error:
        details = [{**item, "loc": ("body", *item["loc"])} for item in error.errors()]
        raise RequestValidationError(details if has_image else [*details, missing]) from error
    if not has_image:
        raise RequestValidationError([missing])
    return fields


async def _render(_: Request, error: Exception) -> Response:
    """The one place where errors become answers."""
    if not isinstance(error, WorkerError):
        raise error
    if isinstance(error, PipelineFailed):
        return PlainTextResponse(error.message, error.status)
    return JSONResponse({"detail": error.message}, error.status, error.headers)


async def _render_fields(_: Request, error: Exception) -> Response:
    """FastAPI's 422 without the caller's values: a prompt is not echoed."""
    if not isinstance(error, RequestValidationError):
        raise error
    details = [{key: item[key] for key in ("type", "loc", "msg")} for item in error.errors()]
    return JSONResponse({"detail": details}, 422)
