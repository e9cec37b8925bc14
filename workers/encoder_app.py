"""Serves the autoregressive half over HTTP, with SGLang's `/generate` contract."""

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from workers.checkpoint import Checkpoint
from workers.contract import read_generate
from workers.errors import InvalidRequest, WorkerError
from workers.rows import Row, Sampling
from workers.runner import WAITING_LIMIT, Run, Runner
from workers.telemetry import EncoderMetrics
from workers.waiting import result_of, unheard

log = structlog.get_logger()


def load_decoder(checkpoint: Checkpoint, device: str) -> Run[Sequence[Row], list[list[int]]]:
    """Loads the language model, decodes a few tokens to warm it, and returns the decoder."""
    # Seconds of imports: they belong in the decoding thread, where /health can be asked already.
    from transformers import GlmImageForConditionalGeneration

    from workers.decode import Decoder
    from workers.device import load_part, prepare_torch

    began = time.monotonic()
    where, dtype = prepare_torch(device)
    part = "vision_language_encoder"
    model = load_part(
        part,
        lambda: GlmImageForConditionalGeneration.from_pretrained(
            checkpoint.path / part, dtype=dtype, local_files_only=True
        ),
        where,
    )
    decoder = Decoder(model)
    decoder.decode([Row([checkpoint.start_token_id], [[1, 2, 2]], 5, 0, Sampling())])
    log.info("ready", model=checkpoint.name, seconds=round(time.monotonic() - began, 3))
    return decoder.decode


def create_encoder_app(
    checkpoint: Checkpoint, device: str = "auto", *, waiting_limit: int = WAITING_LIMIT
) -> FastAPI:
    """The encoder server's application; `app.state.runner` owns its one decoding thread."""
    runner: Runner[Sequence[Row], list[list[int]]] = Runner(
        lambda: load_decoder(checkpoint, device), waiting_limit
    )
    metrics = EncoderMetrics(runner)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        runner.start()
        yield
        runner.stop()

    app = FastAPI(title="Turnout encoder", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.runner = runner
    app.add_exception_handler(WorkerError, _render)
    app.add_exception_handler(ClientDisconnect, unheard)

    @app.post("/generate")
    async def generate(request: Request) -> Response:
        """Continues one row of ids, or a list of rows as one batch."""
        try:
            body = msgspec.json.decode(await request.body())
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidRequest("The body is not valid JSON.") from error
        wanted = read_generate(body, checkpoint)
        began = time.monotonic()
        outputs = await result_of(runner.submit(wanted.rows), request)
        seconds = time.monotonic() - began
        for task in wanted.tasks:
            metrics.requests.labels(task).inc()
        metrics.tokens.inc(sum(map(len, outputs)))
        metrics.seconds.observe(seconds)
        log.info("decoded", tasks=wanted.tasks, rows=len(outputs), seconds=round(seconds, 3))
        rids = _rids(body.get("rid"), len(outputs))
        answers = [
            _answer(*parts, seconds) for parts in zip(rids, wanted.rows, outputs, strict=True)
        ]
        answer = answers if wanted.is_list else answers[0]
        return Response(msgspec.json.encode(answer), media_type="application/json")

    @app.get("/health")
    @app.get("/health_generate")
    async def health() -> JSONResponse:
        """200 once warm."""
        facts = {"status": runner.state, "in_flight": runner.in_flight, "waiting": runner.waiting}
        return JSONResponse(facts, 200 if runner.state == "ok" else 503)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """One model."""
        model = {"id": checkpoint.name, "object": "model", "owned_by": "turnout"}
        return {"object": "list", "data": [model | {"max_model_len": checkpoint.context_length}]}

    @app.get("/model_info")
    async def model_info() -> dict[str, Any]:
        """SGLang's keys."""
        return {"model_path": checkpoint.name, "is_generation": True}

    @app.get("/server_info")
    async def server_info() -> dict[str, Any]:
        """What is served and how busy it is."""
        return {
            "model_path": checkpoint.name,
            "status": runner.state,
            "context_length": checkpoint.context_length,
            "in_flight": runner.in_flight,
            "waiting": runner.waiting,
        }

    @app.get("/metrics")
    async def scrape() -> Response:
        """Prometheus text."""
        return Response(
            generate_latest(metrics.registry), headers={"content-type": CONTENT_TYPE_LATEST}
        )

    return app


def _rids(rid: Any, count: int) -> list[str]:
    given = rid if isinstance(rid, list) else [rid]
    if len(given) == count and all(isinstance(item, str) for item in given):
        return given
    return [uuid.uuid4().hex for _ in range(count)]


def _answer(rid: str, row: Row, ids: list[int], seconds: float) -> dict[str, Any]:
    is_full = len(ids) == row.max_new_tokens
    reason = {"type": "length", "length": len(ids)} if is_full else {"type": "stop"}
    return {
        "text": "",
        "output_ids": ids,
        "meta_info": {
            "id": rid,
            "finish_reason": reason,
            "prompt_tokens": len(row.input_ids),
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "e2e_latency": seconds,
        },
    }


async def _render(_: Request, error: Exception) -> Response:
    if not isinstance(error, WorkerError):
        raise error
    return JSONResponse({"error": {"message": error.message}}, error.status, error.headers)
