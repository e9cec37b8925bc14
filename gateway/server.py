"""Runs the two listeners around one runtime: named phases, and the order of a drain.

uvicorn closes its listeners before an app's lifespan ends, so a drain cannot live in the
lifespan; and two servers in one process would fight over signals, so theirs are switched off.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from gateway.app import create_admin_app, create_app
from gateway.config_file import ConfigError, load_config
from gateway.errors import InvalidRequest
from gateway.runtime import Runtime
from gateway.telemetry import capture_library_logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

    from gateway.config import Config

BACKLOG = 2048
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
WATCH_SECONDS = 1.0


class PortTaken(Exception):
    """Says which address cannot be listened on."""


class _Listener(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(config: Config, path: Path | None = None) -> None:
    """Serves until a signal, then drains; a second signal cuts the drain short.

    `path` is the file that the configuration is read from again when it changes, and on SIGHUP.
    Raises PortTaken where an address is in use.
    """
    server = config.server
    public = bind(server.host, server.port)
    private = bind(server.admin_host, server.admin_port)
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for signum in STOP_SIGNALS:
        loop.add_signal_handler(signum, on_signal)
    capture_library_logs(server)
    source = None if path is None else partial(_read, path)
    async with Runtime(config, source) as runtime:
        listeners = (
            (_listener(create_app(runtime)), public),
            (_listener(create_admin_app(runtime)), private),
        )
        tasks = [asyncio.create_task(each.serve(sockets=[sock])) for each, sock in listeners]
        runtime.telemetry.log.info(
            "serving",
            host=server.host,
            port=public.getsockname()[1],
            admin_port=private.getsockname()[1],
        )
        for task in tasks:
            task.add_done_callback(lambda _: stop.set())  # a listener that fails ends the rest
        loop.add_signal_handler(signal.SIGHUP, _reload, runtime)
        watch = None if path is None else asyncio.create_task(_watch(path, runtime))
        await stop.wait()
        if watch is not None:
            watch.cancel()
        runtime.telemetry.log.info("draining", seconds=server.drain_seconds)
        await runtime.drain(hurry)
        for each, _ in listeners:
            each.should_exit = True
        await asyncio.gather(*tasks)
        runtime.telemetry.log.info("stopped")


def _read(path: Path) -> Config:
    try:
        return load_config(path)
    except ConfigError as error:
        raise InvalidRequest(str(error)) from error


def _reload(runtime: Runtime) -> None:
    try:
        runtime.reload()
    except InvalidRequest as error:
        runtime.telemetry.log.error("reload refused", detail=error.message)


async def _watch(path: Path, runtime: Runtime) -> None:
    """Reloads when the file's content is another one and has been for a moment."""
    held = read = await asyncio.to_thread(_content, path)
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        before, read = read, await asyncio.to_thread(_content, path)
        if read == before != held and read is not None:
            held = read
            _reload(runtime)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def bind(host: str, port: int) -> socket.socket:
    """Binds a listening address. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches off the delay of small packets.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise PortTaken(f"cannot listen on {host} port {port}: {error.strerror}") from error
    sock.set_inheritable(True)
    return sock


def _listener(app: ASGIApp) -> _Listener:
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        proxy_headers=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return _Listener(config)
