"""Servers that keep the contract, each started on a free port: name, base URL, and its tasks."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.scripted_worker import ScriptedWorker
from tests.workers.support import running, running_fake, running_split
from workers import FakeEngine, ImageLimits, WorkerInfo, create_app, create_encoder_app

URL_VARIABLE, TASKS_VARIABLE = "TURNOUT_CONTRACT_URL", "TURNOUT_CONTRACT_TASKS"


@dataclass(frozen=True)
class Target:
    """One server; `checks` says whether it refuses what it cannot serve, `is_ours` whether it
    also tells what only our workers tell."""

    name: str
    url: str
    tasks: tuple[str, ...] = ("t2i", "i2i")
    checks: bool = True
    is_ours: bool = True


@contextmanager
def scripted(_):
    """The gateway tests' worker: it plays its script and refuses nothing."""
    worker, loop = ScriptedWorker(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(worker.start(), loop).result(10)
    try:
        yield Target("scripted", worker.url, checks=False, is_ours=False)
    finally:
        asyncio.run_coroutine_threadsafe(worker.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def fake(_):
    """Our worker's HTTP face with an engine that has no model."""
    with running_fake(FakeEngine(limits=ImageLimits(64, 512))) as client:
        yield Target("fake", base_url(client))


@contextmanager
def tiny(checkpoint):
    """Our worker with the whole tiny model in process."""
    from workers.glm_image import load_engine

    info = WorkerInfo(checkpoint.name, limits=checkpoint.limits)
    with running(create_app(info, lambda: load_engine(checkpoint, (), "cpu"))) as client:
        yield Target("tiny", base_url(client))


@contextmanager
def split(checkpoint):
    """Our worker without a language model, and our encoder server behind it."""
    with (
        running(create_encoder_app(checkpoint, "cpu")) as encoder,
        running_split(checkpoint, base_url(encoder)) as client,
    ):
        yield Target("split", base_url(client))


@contextmanager
def elsewhere(_):
    """A server that somebody else has started, such as a stock SGLang."""
    tasks = tuple(os.environ.get(TASKS_VARIABLE, "t2i,i2i").split(","))
    yield Target("elsewhere", os.environ[URL_VARIABLE].rstrip("/"), tasks, is_ours=False)


def base_url(client):
    """An httpx client's base URL without a slash at its end."""
    return str(client.base_url).rstrip("/")


TARGETS = (scripted, fake, tiny, split, *((elsewhere,) if os.environ.get(URL_VARIABLE) else ()))
