"""A worker that does as it is told: SGLang's image routes on a raw socket, every byte recorded.

By default it answers like SGLang 0.5.23: the picture has the size and format that were asked
for, and its colour tells which prompt, seed and input pictures arrived.
"""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import hashlib
import json
from dataclasses import dataclass, field

import h11

from tests.support.pictures import picture

PATHS = ("/v1/images/generations", "/v1/images/edits")


@dataclass
class Recorded:
    """Is one request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    texts: dict[str, object] = field(default_factory=dict)
    files: list[tuple[str, str, str, bytes]] = field(
        default_factory=list
    )  # name, file, type, bytes
    peer_left: bool = False
    is_done: bool = False


class ScriptedWorker:
    """Is the worker; `script` is one of the coroutines below, and may be changed at any time."""

    def __init__(self, task_type="TI2I"):
        self.task_type = task_type
        self.script = answer
        self.health_status, self.health = 200, {}
        self.info, self.more_info = True, {}
        self.silent, self.begun = False, 0  # silent: whether probes are left without an answer
        self.requests: list[Recorded] = []
        self.probes, self.running, self.peak = [], 0, 0
        self._server = None
        self._exchanges: set[asyncio.Task] = set()
        self.port = 0

    async def start(self):
        """Listens, on the same port as before if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        """Refuses connections from now on and cuts those that are open."""
        if self._server is not None:
            self._server.close()
            for exchange in self._exchanges:
                exchange.cancel()
            await asyncio.gather(*self._exchanges)
            await self._server.wait_closed()
            self._server = None

    @property
    def url(self):
        """Is the base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def hits(self):
        """Counts the generation requests that arrived; probes do not count."""
        return len(self.requests)

    async def _serve(self, reader, writer):
        self._exchanges.add(asyncio.current_task())
        try:
            await self._exchange(reader, writer)
        except asyncio.CancelledError:  # by `stop`, as a killed process would end
            writer.transport.abort()
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        finally:
            self._exchanges.discard(asyncio.current_task())
            writer.close()

    async def _exchange(self, reader, writer):
        connection = h11.Connection(h11.SERVER)
        head, body = None, b""
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                return
        headers = {name.decode(): value.decode() for name, value in head.headers}
        request = Recorded(head.method.decode(), head.target.decode(), headers, body)
        if request.path not in PATHS:
            self.begun += 1
            while self.silent:
                await asyncio.sleep(0.01)
            self.probes.append(request.path)
            await self._status(request, writer)
            return
        _parse(request)
        self.requests.append(request)
        self.running += 1
        self.peak = max(self.peak, self.running)
        script = asyncio.ensure_future(self.script(self, request, writer))
        watch = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({script, watch}, return_when=asyncio.FIRST_COMPLETED)
            request.peer_left = watch.done() and not script.done()
            await script
        finally:
            script.cancel()
            watch.cancel()
            self.running -= 1
            request.is_done = True

    async def _status(self, request, writer):
        if request.path == "/health":
            await send(writer, self.health_status, json.dumps(self.health).encode())
        elif request.path == "/model_info" and self.info:
            said = {"task_type": self.task_type, **self.more_info}
            await send(writer, 200, json.dumps(said).encode())
        else:
            await send(writer, 404, b'{"detail":"Not Found"}')


def _parse(request):
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json"):
        request.texts = json.loads(request.body)
        return
    form = f"Content-Type: {kind}\r\n\r\n".encode() + request.body
    for part in email.message_from_bytes(form, policy=email.policy.HTTP).iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        if part.get_filename() is None:
            request.texts[name] = data.decode()
        else:
            request.files.append((name, part.get_filename(), part.get_content_type(), data))


async def send(writer, status, body, content_type="application/json", **headers):
    """Sends one whole answer; the connection closes after it."""
    lines = [
        f"HTTP/1.1 {status} X",
        f"content-type: {content_type}",
        f"content-length: {len(body)}",
        "connection: close",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()


def colour_of(request):
    """Returns the colour that proves which prompt, seed and pictures a worker was given."""
    pictures = b"".join(data for *_, data in request.files)
    words = f"{request.texts['prompt']}|{request.texts.get('seed')}|".encode()
    return tuple(hashlib.sha256(words + pictures).digest()[:3])


def answer_body(request, **changes):
    """Builds SGLang's answer to a recorded request."""
    width, height = map(int, str(request.texts["size"]).split("x"))
    fmt = str(request.texts.get("output_format", "jpeg"))
    data = picture(width, height, colour_of(request), fmt)
    datum = {
        "b64_json": base64.b64encode(data).decode(),
        "url": None,
        "revised_prompt": None,
        "file_path": "/srv/outputs/1.png",
        "resize": None,
    }
    body = {
        "id": "img_1",
        "created": 1,
        "data": [datum | changes.pop("datum", {})],
        "peak_memory_mb": 41234.5,
        "inference_time_s": 12.5,
        "usage": None,
    }
    return json.dumps(body | changes).encode()


async def answer(worker, request, writer):
    """Answers as SGLang would; without `b64_json` it has nowhere to put the picture."""
    if request.texts.get("response_format") != "b64_json":
        await send(writer, 400, b'{"detail":"url needs a cloud storage"}')
    elif request.path == PATHS[1] and worker.task_type == "T2I":
        await send(writer, 500, b"Internal Server Error", "text/plain")
    else:
        await send(writer, 200, answer_body(request), set_cookie="a=b", server="scripted")


def after(gate, then=answer):
    """Waits for an `asyncio.Event`, then goes on as told."""

    async def script(worker, request, writer):
        await gate.wait()
        await then(worker, request, writer)

    return script


def status(code, body=b"Internal Server Error", content_type="text/plain", **headers):
    """Answers a bare status."""

    async def script(worker, request, writer):
        await send(writer, code, body, content_type, **headers)

    return script


def changed(**changes):
    """Answers 200 with members of the body replaced; `datum` changes the picture's entry."""

    async def script(worker, request, writer):
        await send(writer, 200, answer_body(request, **changes))

    return script


async def hang_up(worker, request, writer):
    """Closes the connection without a word."""
    writer.transport.abort()


async def half(worker, request, writer):
    """Sends the first half of a good answer, then closes."""
    body = answer_body(request)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body))
    writer.write(body[: len(body) // 2])
    await writer.drain()


async def hang(worker, request, writer):
    """Never answers."""
    await asyncio.Event().wait()
