"""A process around an application: its socket, its signals and its exit code."""

import os
import signal
import socket
import sys
from typing import Any, NoReturn

import structlog
import uvicorn
from fastapi import FastAPI

from workers.runner import Runner

JOIN_SECONDS = 0.2
KEEP_ALIVE_SECONDS = 75
GRACE_SECONDS = 5

log = structlog.get_logger()


class PortInUse(Exception):
    """The address cannot be listened on; the message is one sentence."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, taken before anything slow happens; raises PortInUse."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches off the delay of small packets.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(socket.SOMAXCONN)
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise PortInUse(f"Cannot listen on {host}:{port}: {reason}.") from error
    return sock


class WorkerServer(uvicorn.Server):
    """Ends when the engine thread has failed, and stops that thread before it waits for answers."""

    def __init__(self, config: uvicorn.Config, runner: Runner[Any, Any]) -> None:
        super().__init__(config)
        self._runner = runner

    async def on_tick(self, counter: int) -> bool:
        """Looks at the engine thread ten times a second."""
        return await super().on_tick(counter) or self._runner.failure is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Gives up the running work first, so that every caller is answered at once."""
        self._runner.stop()
        await super().shutdown(sockets)


def serve(app: FastAPI, sock: socket.socket) -> NoReturn:
    """Serves until a signal (exit code 0) or until the engine thread fails (1), then ends."""
    runner: Runner[Any, Any] = app.state.runner
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    # uvicorn raises a signal again once it has shut down; a clean end is not a death by signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    host, port = sock.getsockname()[:2]
    log.info("listening", host=host, port=port)
    WorkerServer(config, runner).run([sock])
    code = 0 if runner.failure is None else 1
    log.info("stopped", exit_code=code)
    # Not through the interpreter's own end: it takes seconds to take torch apart, and it is not
    # safe while the engine thread is inside a native call.
    runner.join(JOIN_SECONDS)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
