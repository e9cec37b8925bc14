"""The whole demo as processes, started once by `turnout up`, and shared by the tests in here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
import psutil
import pytest

from tests.support.process import free_ports, running, wait_for

NAMES = ("port", "admin-port", "encoder-port", "t2i-port", "i2i-port")


class Demo:
    """Is a running `turnout up`."""

    def __init__(self, process, ports, directory, log):
        self.process = process
        self.ports = ports
        self.directory = directory
        self.log = log

    def url(self, name):
        """Returns the base URL of one of its servers."""
        return f"http://127.0.0.1:{self.ports[name]}"

    def text(self):
        """Returns what it has printed so far."""
        return self.log.read_text()

    def children(self):
        """Lists the processes that it started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def child_log(self, name):
        """Returns the log of one child."""
        return (self.directory / "logs" / f"{name}.log").read_text()

    def encoder_count(self, task):
        """Returns how many requests of a task the encoder server has counted."""
        text = httpx.get(self.url("encoder-port") + "/metrics", trust_env=False).text
        pattern = rf'^turnout_encoder_requests_total\{{task="{task}"\}} (\S+)$'
        found = re.search(pattern, text, re.MULTILINE)
        return float(found[1]) if found else 0.0


@contextmanager
def open_demo(directory, log):
    """Starts `turnout up` on free ports and yields a Demo; ends it as Ctrl-C would."""
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    options = [f"--{name}={port}" for name, port in ports.items()]
    arguments = ("gateway", "up", "--dir", str(directory), *options)
    with running(*arguments, log=log) as process:
        try:
            yield Demo(process, ports, directory, log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(60)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Offers a directory that holds the tiny checkpoint as `turnout up` keeps it."""
    directory = tmp_path_factory.mktemp("tiny") / "dir"
    command = [sys.executable, "-m", "workers", "tiny", str(directory / "glm-image-tiny")]
    directory.mkdir()
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    return directory


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """Offers the running demo; it has written its own checkpoint."""
    base = tmp_path_factory.mktemp("demo")
    with open_demo(base / "dir", base / "up.log") as opened:
        wait_for(lambda: "Ctrl-C" in opened.text() or opened.process.poll() is not None, 240)
        assert opened.process.poll() is None, opened.text()
        yield opened
