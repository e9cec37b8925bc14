"""Real servers for tests, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager

import uvicorn


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self):
        yield


@asynccontextmanager
async def run_server(app):
    """Serves an ASGI app on a free port of 127.0.0.1 and yields its base URL."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _Quiet(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        sock.close()


def dead_url():
    """Returns an address that certainly refuses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


async def until(condition, seconds=10.0):
    """Waits until a condition holds, and fails when it does not within a loose ceiling."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
