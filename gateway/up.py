"""The demo: encoder server, one worker of each kind, and the gateway, all on this machine.

Every process is a child that ends with this one, whatever ends it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import httpx

from gateway.children import Child, spawn, stop
from gateway.server import PortTaken, bind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST: Final = "127.0.0.1"
READY_SECONDS: Final = 300.0
STOP_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.2

CONFIG: Final = """\
# Written by `turnout up`; a good start for a configuration of your own.
[server]
port = {port}
admin_port = {admin_port}
drain_seconds = 10

[artifacts]
directory = "{directory}/artifacts"

[models.glm-image]
aliases = ["zai-org/GLM-Image"]
default_size = "256x256" # the tiny model is at its best when small
max_side = 512

[pools.t2i]
tasks = ["t2i"]
encoder_url = "http://127.0.0.1:{encoder_port}"
workers = [{{ url = "http://127.0.0.1:{t2i_port}" }}]

[pools.i2i]
tasks = ["i2i"]
workers = [{{ url = "http://127.0.0.1:{i2i_port}" }}]
"""

CURL_T2I: Final = """\
curl -sS -D - -o fox.png http://127.0.0.1:{port}/generate \\
  -H 'Accept: image/png' -H 'Content-Type: application/json' \\
  -d '{{"prompt": "a red fox in the snow", "size": "256x256", "seed": 7}}'"""
CURL_I2I: Final = """\
curl -sS -D - -o night.png http://127.0.0.1:{port}/generate \\
  -H 'Accept: image/png' \\
  -F image=@fox.png -F prompt='the same fox at night' -F seed=7"""


class DemoFailed(Exception):
    """Says in one sentence why the demo cannot run."""


class Stopped(Exception):
    """Says that a signal asked for the end."""


class Demo:
    """Is the whole demo; `run` returns when a signal ends it."""

    def __init__(
        self,
        directory: Path,
        port: int,
        admin_port: int,
        encoder_port: int,
        t2i_port: int,
        i2i_port: int,
    ) -> None:
        self._directory = directory.absolute()
        self._ports = {
            "port": port,
            "admin_port": admin_port,
            "encoder_port": encoder_port,
            "t2i_port": t2i_port,
            "i2i_port": i2i_port,
        }
        self._children: list[Child] = []
        self._stop = threading.Event()

    def run(self) -> None:
        """Starts everything, waits for a signal, stops everything. Raises DemoFailed."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, lambda *_: self._stop.set())
        try:
            self._start()
            self._say_ready()
            while not self._stop.wait(POLL_SECONDS):
                self._check_alive()
        except Stopped:
            pass
        finally:
            if self._stop.is_set():
                print("\nturnout: stopping; running work ends first", flush=True)
            self._end()

    def _start(self) -> None:
        self._check_ports()
        try:
            (self._directory / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DemoFailed(f"cannot write to {self._directory}: {error.strerror}") from None
        model = self._directory / "glm-image-tiny"
        if not model.exists():
            self._step("writing the tiny checkpoint", self._tiny(model))
        encoder = f"http://{HOST}:{self._ports['encoder_port']}"
        workers = [
            self._worker("encoder server", "encoder_port", "encoder", model),
            self._worker("T2I worker", "t2i_port", "serve", model, "--encoder", encoder),
            self._worker("I2I worker", "i2i_port", "serve", model, "--encoder", "in-process"),
        ]
        for child in workers:
            self._step(f"starting the {child.name}", child)
        self._step("starting the gateway", self._gateway())

    def _check_ports(self) -> None:
        if len(set(self._ports.values())) < len(self._ports):
            raise DemoFailed("two of the ports are the same; each process needs its own")
        for name, port in self._ports.items():
            try:
                bind(HOST, port).close()
            except PortTaken as error:
                option = "--" + name.replace("_", "-")
                raise DemoFailed(
                    f"{error}; stop what uses it or choose another with {option} "
                    f"(make up ARGS='{option} {port + 1}')"
                ) from None

    def _tiny(self, model: Path) -> Child:
        child = self._spawn("tiny checkpoint", "workers", "tiny", str(model))
        child.ready = lambda: child.process.poll() == 0
        return child

    def _worker(self, name: str, port_name: str, verb: str, model: Path, *more: str) -> Child:
        port = str(self._ports[port_name])
        child = self._spawn(
            name, "workers", verb, "--model", str(model), "--host", HOST, "--port", port, *more
        )
        child.ready = lambda: _answers(f"http://{HOST}:{port}/health", lambda _: True)
        return child

    def _gateway(self) -> Child:
        path = self._directory / "turnout.toml"
        path.write_text(CONFIG.format(directory=self._directory, **self._ports), encoding="utf-8")
        child = self._spawn("gateway", "gateway", "serve", "--config", str(path))
        url = f"http://{HOST}:{self._ports['port']}/readyz"
        child.ready = lambda: _answers(
            url, lambda body: all(pool["ready"] for pool in body["pools"].values())
        )
        return child

    def _spawn(self, name: str, module: str, *arguments: str) -> Child:
        log = self._directory / "logs" / f"{name.lower().replace(' ', '-')}.log"
        child = spawn(name, [sys.executable, "-m", module, *arguments], log)
        self._children.append(child)
        return child

    def _step(self, what: str, child: Child) -> None:
        print(f"turnout: {what} …", end="", flush=True)
        began = time.monotonic()
        try:
            while not child.ready():
                self._check_alive()
                if time.monotonic() - began > READY_SECONDS:
                    raise DemoFailed(f"the {child.name} is not ready; see {child.log}")
                if self._stop.wait(POLL_SECONDS):
                    raise Stopped
        except BaseException:
            print(flush=True)
            raise
        print(f" ready after {time.monotonic() - began:.1f} s", flush=True)

    def _check_alive(self) -> None:
        for child in self._children:
            code = child.process.poll()
            if code is not None and not (code == 0 and child.name == "tiny checkpoint"):
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                raise DemoFailed(
                    f"the {child.name} ended with {how}, so everything was stopped; "
                    f"its log is {child.log}"
                )

    def _say_ready(self) -> None:
        port = self._ports["port"]
        print(f"turnout: all ready on http://{HOST}:{port}; Ctrl-C stops everything")
        print(f"turnout: logs and turnout.toml are in {self._directory}\n")
        print("A picture from a text (the external encoder plans it):\n")
        print(CURL_T2I.format(port=port))
        print("\nThe same picture, edited (the worker plans it in process):\n")
        print(CURL_I2I.format(port=port), end="\n\n", flush=True)

    def _end(self) -> None:
        """Ends the gateway first, so that its running work can finish, then the rest."""
        gateway = [child for child in self._children if child.name == "gateway"]
        stop(gateway, STOP_SECONDS)
        stop([child for child in self._children if child not in gateway], STOP_SECONDS)


def _answers(url: str, is_right: Callable[[Any], bool]) -> bool:
    try:
        response = httpx.get(url, timeout=2, trust_env=False)
        return response.status_code == 200 and is_right(response.json())
    except (httpx.HTTPError, ValueError):
        return False
