"""A stand-in for a stock SGLang encoder at the border: its wire, without a model.

It streams one token at a time, all tokens so far in each chunk, obeys `/abort_request`, and does
as its settings say.
"""

import asyncio
import json

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response, StreamingResponse


class StockEncoder:
    """Records what it was sent and counts the tokens it made; settings may change at any time."""

    state = "ok"  # as the runner of an application of ours, for `running`

    def __init__(self):
        self.bodies = []
        self.aborted = []
        self.made = 0
        self.token = 1
        self.seconds_per_token = 0.0
        self.stops_after = None  # tokens, then silence
        self.dies_after = None  # tokens, then a closed connection
        self.gives = None  # tokens, then a proper end
        self.is_incremental = False
        self.is_healthy = True
        self.status = 200
        self.headers = {}
        self.content = None  # instead of a stream
        self.load = 0
        self.app = FastAPI()
        self.app.state.runner = self
        self.app.post("/generate")(self._generate)
        self.app.post("/abort_request")(self._abort)
        self.app.get("/health")(self._health)
        self.app.get("/v1/loads")(self._loads)

    async def _generate(self, request: Request):
        body = await request.json()
        self.bodies.append(body)
        if self.status != 200 or self.content is not None:
            return Response(self.content or b"", self.status, self.headers)
        if not body.get("stream"):
            return Response(b"this stand-in only streams", 500)
        return StreamingResponse(self._stream(body), media_type="text/event-stream")

    async def _stream(self, body):
        is_list = isinstance(body["input_ids"][0], list)
        params = body["sampling_params"][0] if is_list else body["sampling_params"]
        rids = body["rid"] if is_list else [body["rid"]]
        total = self.gives or params["max_new_tokens"]
        for count in range(1, total + 1):
            await asyncio.sleep(self.seconds_per_token)
            if self.stops_after is not None and count > self.stops_after:
                await asyncio.sleep(60)
            if self.dies_after is not None and count > self.dies_after:
                raise asyncio.CancelledError  # the connection breaks off
            gone = [rid for rid in rids if rid in self.aborted]
            self.made += len(rids) - len(gone)
            for index, rid in enumerate(rids):
                reason = {"type": "length", "length": count} if count == total else None
                reason = {"type": "abort", "message": "aborted"} if rid in gone else reason
                ids = [self.token] * (1 if self.is_incremental else count)
                meta = {"id": rid, "completion_tokens": count, "finish_reason": reason}
                chunk = {"text": "", "output_ids": ids, "meta_info": meta}
                chunk |= {"index": index} if is_list else {}
                yield f"data: {json.dumps(chunk)}\n\n"
            if len(gone) == len(rids):
                break
        yield "data: [DONE]\n\n"

    async def _abort(self, request: Request):
        self.aborted.append((await request.json())["rid"])
        return Response()

    async def _health(self):
        return Response(status_code=200 if self.is_healthy else 503)

    async def _loads(self):
        return JSONResponse({"loads": [{"num_running_reqs": self.load, "num_waiting_reqs": 0}]})
