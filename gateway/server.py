"""Runs the two listeners around one runtime: named phases, and the order of a drain.

uvicorn closes its listeners before an app's lifespan ends, so a drain cannot live in the
lifespan; and two servers in one process would fight over signals, so theirs are switched off.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from gateway.app import create_admin_app, create_app
from gateway.config_file import ConfigError, load_config
from gateway.errors import InvalidRequest
from gateway.runtime import Runtime
from gateway.telemetry import capture_library_logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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


class Source:
    """Is where the configuration is read from, again and again: a file under what was typed."""

    def __init__(self, path: Path, typed: Mapping[str, object]) -> None:
        self._path = path
        self._typed = typed
        self.content: bytes | None = None
        """What the file held when it was last read."""

    def __call__(self) -> Config:
        """Reads it. Raises InvalidRequest."""
        self.content = self.look()
        try:
            config = load_config(self._path)
        except ConfigError as error:
            raise InvalidRequest(str(error)) from error
        return config.model_copy(update={"server": config.server.model_copy(update=self._typed)})

    def look(self) -> bytes | None:
        """Returns what the file holds; None where it cannot be read."""
        try:
            return self._path.read_bytes()
        except OSError:
            return None


async def serve(source: Source) -> None:
    """Serves until a signal, then drains; a second signal cuts the drain short.

    The configuration is read again when its file changes, and on SIGHUP.
    Raises InvalidRequest for the configuration, PortTaken where an address is in use.
    """
    config = source()
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
        watch = asyncio.create_task(_watch(source, runtime))
        await stop.wait()
        watch.cancel()
        held = runtime.config.server
        runtime.telemetry.log.info(
            "draining", delay_seconds=held.drain_delay_seconds, seconds=held.drain_seconds
        )
        await runtime.drain(hurry)
        for each, _ in listeners:
            each.should_exit = True
        await asyncio.gather(*tasks)
        runtime.telemetry.log.info("stopped")


def _reload(runtime: Runtime) -> None:
    try:
        runtime.reload()
    except InvalidRequest as error:
        runtime.telemetry.log.error("reload refused", detail=error.message)
    except Exception as error:  # noqa: BLE001 - what runs goes on, whatever a new file does to us
        runtime.telemetry.fault("reload", error)


async def _watch(source: Source, runtime: Runtime) -> None:
    """Reloads when the file's content is another one and has been for a moment."""
    read = source.content
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        before, read = read, await asyncio.to_thread(source.look)
        if read == before != source.content and read is not None:
            _reload(runtime)


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
