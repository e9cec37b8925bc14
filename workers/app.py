"""The HTTP face of a worker: SGLang's image routes in front of one engine thread."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from workers.answers import HEARTBEAT_SECONDS, Answers, Order
from workers.engine import Engine, WorkerInfo
from workers.errors import InvalidRequest
from workers.generation import GenerationJob, GenerationLine
from workers.load import LoadHeader
from workers.pictures import Size, fit_source, read_picture, size_like
from workers.rendering import add_error_handlers
from workers.runner import WAITING_LIMIT
from workers.schemas import ImagesRequest
from workers.status import status_router
from workers.waiting import unheard

DEFAULT_SIDE = 1024
MAX_SOURCES = 16
TEXT_ONLY = "input_reference is not supported for T2I models."


def create_app(
    info: WorkerInfo,
    load: Callable[[], Engine],
    *,
    waiting_limit: int = WAITING_LIMIT,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> FastAPI:
    """The worker's application; `load` runs in the engine thread and may take minutes.

    `app.state.runner` is the engine thread's owner: its `failure` tells a process to end.
    """
    line = GenerationLine(info, load, waiting_limit)
    answers = Answers(info, line, heartbeat_seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        line.runner.start()
        yield
        line.runner.stop()

    app = FastAPI(title="Turnout worker", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.runner = line.runner
    app.include_router(status_router(info, line.runner, line.load, line.metrics.registry))
    app.add_middleware(LoadHeader, load=line.load)
    add_error_handlers(app)
    app.add_exception_handler(ClientDisconnect, unheard)

    @app.post("/v1/images/generations")
    async def generations(fields: ImagesRequest, request: Request) -> Response:
        """Makes pictures from text."""
        fields.check_response_format()
        side = min(DEFAULT_SIDE, info.limits.max_side)
        size = fields.target_size(info.limits, (side, side))
        job = GenerationJob.of(fields, size, info.limits)
        return await answers.answer(Order(job, fields, request))

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
            raise InvalidRequest(TEXT_ONLY, param="image")
        if len(uploads) > MAX_SOURCES:
            raise InvalidRequest(f"At most {MAX_SOURCES} source images.", param="image")
        pictures = [
            await run_in_threadpool(read_picture, data, info.limits.max_aspect) for data in uploads
        ]
        fallback: Size = size_like(pictures[0].size, info.limits)
        size = fields.target_size(info.limits, fallback)
        sources = [await run_in_threadpool(fit_source, item, info.limits) for item in pictures]
        job = GenerationJob.of(fields, size, info.limits, tuple(sources))
        return await answers.answer(Order(job, fields, request))

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
