"""What the worker tests share: real servers on free ports, answers, pictures."""

import base64
import contextlib
import io
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
