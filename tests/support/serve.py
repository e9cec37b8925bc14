"""Real servers for tests, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import uvicorn


@asynccontextmanager
async def run_server(app):
    """Serves an ASGI app on a free port of 127.0.0.1 and yields its base URL.

    Calls uvicorn's own phases without its main loop, which only looks for an end ten times a
    second, and would cost every test that time.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http="httptools",
        proxy_headers=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[sock])
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await server.shutdown(sockets=[sock])


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
