"""Real processes for tests: started with their output in a file, always ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx


@contextmanager
def running(*arguments, log, env=None):
    """Runs `python -m …` and kills it at the end if it still lives."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"COLUMNS": "200"} | (env or {}),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_for(condition, seconds=60.0, every=0.05):
    """Waits until a condition holds, and fails when it does not within a loose ceiling."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "gave up waiting"
        time.sleep(every)


def answers(url, status=200):
    """Tells whether a GET answers with a status."""
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == status
    except httpx.HTTPError:
        return False


def free_ports(count):
    """Returns ports that nobody listens on now."""
    import socket

    socks = [socket.socket() for _ in range(count)]
    try:
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]
    finally:
        for sock in socks:
            sock.close()
