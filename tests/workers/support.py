"""What the worker tests share: real servers on free ports, answers, pictures."""

import base64
import contextlib
import io
import json
import socket
import threading
import time

import httpx
import uvicorn
from PIL import Image

from workers.app import create_app


def wait_until(condition, seconds=60.0):
    """Looks every few milliseconds until the condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.005)


@contextlib.contextmanager
def running(app, *, warm=True):
    """The application behind a real uvicorn on a free port, as an httpx client."""
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            if warm:
                wait_until(lambda: app.state.runner.state == "ok", 60)
            yield client
    finally:
        server.should_exit = True
        thread.join(20)


@contextlib.contextmanager
def running_fake(engine, **options):
    """A worker with a fake engine."""
    warm = options.pop("warm", True)
    with running(create_app(engine.info, lambda: engine, **options), warm=warm) as client:
        yield client


@contextlib.contextmanager
def running_split(tiny, *urls, tasks=("t2i", "i2i"), engine=None):
    """A worker of the tiny model with encoder servers elsewhere."""
    from workers.engine import WorkerInfo
    from workers.glm_image import load_engine

    info = WorkerInfo(tiny.name, tasks, urls, tiny.limits)

    def load():
        return engine or load_engine(tiny, urls, "cpu", tasks)

    with running(create_app(info, load)) as client:
        yield client


def leave_when(client, condition, path, **call):
    """Sends a request and closes the connection as soon as the condition holds."""
    request = client.build_request("POST", path, **call)
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection((client.base_url.host, client.base_url.port)) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + request.read())
        wait_until(condition, 20)


def slow_decoder(tiny, seconds_per_step):
    """Loads the real decoder and lets every step take longer, so that steps can be counted."""
    from workers.decoding import LoadedDecoder, load_decoder

    def load():
        loaded = load_decoder(tiny, "cpu")

        def decode(rows, before_step):
            def after_a_while(step, tokens):
                before_step(step, tokens)
                time.sleep(seconds_per_step)

            return loaded.decode(rows, after_a_while)

        return LoadedDecoder(decode, loaded.peak_memory_mb)

    return load


def metric(client, name):
    """The value of one metric, by its full name as a scrape shows it."""
    found = [
        line.removeprefix(f"{name} ")
        for line in client.get("/metrics").text.splitlines()
        if line.startswith(f"{name} ")
    ]
    (value,) = found
    return float(value)


def events_of(lines):
    """The server-sent events of a stream as (name, data); comments are (None, text)."""
    name = None
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
        elif line.startswith(":"):
            yield None, line


def error_of(answer):
    """The error in OpenAI's envelope, which is the whole body."""
    (error,) = answer.json().values()
    assert set(error) == {"message", "type", "param", "code"}
    return error


def fields(**more):
    """The least that a generation needs, and more."""
    return {"prompt": "a cat", "response_format": "b64_json", "output_format": "png"} | more


def picture_of(answer, number=0):
    """The picture in an answer."""
    assert answer.status_code == 200, answer.text
    data = base64.b64decode(answer.json()["data"][number]["b64_json"])
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def colours(image):
    """The colours of its three bands."""
    width, height = image.size
    return tuple(image.getpixel((x, height // 2)) for x in (1, width // 2, width - 2))


def png(image):
    """The picture's bytes."""
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def pattern(width, height, shift=0):
    """A picture whose pixels all differ from their neighbours."""
    image = Image.new("RGB", (width, height))
    image.putdata(
        [
            ((3 * x + shift) % 256, (5 * y + shift) % 256, (x * y + shift) % 256)
            for y in range(height)
            for x in range(width)
        ]
    )
    return image
