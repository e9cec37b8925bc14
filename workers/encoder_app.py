"""Serves the autoregressive half over HTTP, with SGLang's `/generate` contract."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from workers.checkpoint import Checkpoint
from workers.contract import read_generate
from workers.decoding import DecodeJob, LoadedDecoder, Tokens, decoding, load_decoder, may_join
from workers.encoder_calls import Calls
from workers.encoder_status import encoder_status_router
from workers.errors import InvalidRequest
from workers.rendering import add_error_handlers
from workers.runner import WAITING_LIMIT, Runner
from workers.telemetry import EncoderMetrics
from workers.waiting import unheard


def create_encoder_app(
    checkpoint: Checkpoint,
    device: str = "auto",
    *,
    waiting_limit: int = WAITING_LIMIT,
    load: Callable[[], LoadedDecoder] | None = None,
) -> FastAPI:
    """The encoder server's application; `app.state.runner` owns its one decoding thread."""
    runner: Runner[DecodeJob, Tokens] = Runner(
        lambda: decoding(load() if load else load_decoder(checkpoint, device), metrics),
        waiting_limit,
        may_join,
    )
    metrics = EncoderMetrics(runner)
    calls = Calls(runner, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        runner.start()
        yield
        runner.stop()

    app = FastAPI(title="Turnout encoder", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.runner = runner
    app.include_router(encoder_status_router(checkpoint, runner, metrics.registry))
    add_error_handlers(app)
    app.add_exception_handler(ClientDisconnect, unheard)

    @app.post("/generate")
    async def generate(request: Request) -> Response:
        """Continues one row of ids, or a list of rows as one batch; streamed if asked."""
        body = await _json(request)
        return await calls.answer(read_generate(body, checkpoint), body, request)

    @app.post("/abort_request")
    async def abort_request(request: Request) -> Response:
        """Stops the row of that name before its next step; an unknown name is no error."""
        body = await _json(request)
        if not isinstance(body, dict):
            raise InvalidRequest("The body must be a JSON object.")
        calls.abort(None if body.get("abort_all") is True else str(body.get("rid") or ""))
        return Response()

    return app


async def _json(request: Request) -> Any:
    try:
        return msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest("The body is not valid JSON.") from error
