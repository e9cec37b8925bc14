"""POST /v1/chat/completions with pictures out, as clients of multimodal servers speak it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request, Response

from gateway.api.depends import RecordDep, RuntimeDep
from gateway.api.generate import produce
from gateway.api.openapi import events_of, json_of, picture_route
from gateway.api.responses import openai_usage, picture_data
from gateway.routing.inspection import Face

if TYPE_CHECKING:
    from gateway.api.produced import Produced

router = APIRouter()


@router.post(
    "/v1/chat/completions",
    openapi_extra=picture_route(
        json_of("ChatAnswer") | events_of("ChatChunk"),
        no_code=("missing_image",),
        json="ChatRequest",
    ),
)
async def chat(http: Request, runtime: RuntimeDep, record: RecordDep) -> Response:
    """Makes pictures from the last user message and the images of all messages."""
    produced = await produce(http, runtime, record, Face.CHAT)
    head = {
        "id": f"chatcmpl-{record.id}",
        "created": int(time.time()),
        "model": produced.request.model,
    }
    data = await picture_data(http, produced, runtime)
    kind = produced.request.output_format
    urls = [each.get("url") or f"data:image/{kind};base64,{each['b64_json']}" for each in data]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    message = {"role": "assistant", "content": parts}
    usage = _usage(produced)
    if produced.request.stream:
        return Response(_events(head, message, usage), media_type="text/event-stream")
    answer = {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _usage(produced: Produced) -> dict[str, int] | None:
    usage = openai_usage(produced)
    if usage is None:
        return None
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
    }


def _events(head: dict[str, Any], message: dict[str, Any], usage: dict[str, int] | None) -> bytes:
    """Renders the chunks of a stream: the whole message in one, then its end."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    if usage is not None:
        chunks.append({"choices": [], "usage": usage})
    lines = [
        b"data: " + msgspec.json.encode({**head, "object": "chat.completion.chunk", **chunk})
        for chunk in chunks
    ]
    return b"\n\n".join([*lines, b"data: [DONE]", b""])
