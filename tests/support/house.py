"""A whole gateway over scripted workers, on real sockets, inside one event loop."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory

import httpx

from gateway import Config, Runtime, create_admin_app, create_app
from tests.support.scripted_worker import ScriptedWorker
from tests.support.serve import run_server, until

FAST = {"probe_seconds": 0.1, "connect_seconds": 1}


class Clock:
    """Is the gateway's clock: real time, and what a test lets pass at once."""

    def __init__(self):
        self.passed = 0.0

    def __call__(self):
        return time.monotonic() + self.passed


class House:
    """Is the test's house: `open` builds the gateway, `client` calls it."""

    def __init__(self):
        self._stack = AsyncExitStack()
        self.clock = Clock()
        self.source = None  # what a reload reads; a test may put a function here
        self.client = self.admin = self.runtime = self.url = None

    async def __aenter__(self):
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *exc):
        return await self._stack.__aexit__(*exc)

    async def worker(self, task_type="TI2I", **attributes):
        """Starts a scripted worker."""
        worker = ScriptedWorker(task_type)
        for name, value in attributes.items():
            setattr(worker, name, value)
        await worker.start()
        self._stack.push_async_callback(worker.stop)
        return worker

    async def two_tracks(self, **config):
        """Opens a gateway over one text-only worker T and one worker I; returns both."""
        text, image = await self.worker("T2I"), await self.worker("TI2I")
        await self.open({"t2i": [text], "i2i": [image]}, **config)
        return text, image

    async def pair(self, name="t2i", **config):
        """Opens one pool of two workers; the first is asked first."""
        task_type = "T2I" if name == "t2i" else "TI2I"
        first, second = await self.worker(task_type), await self.worker(task_type)
        await self.open({name: [first, second]}, **config)
        return first, second

    async def open(self, pools, pool=None, *, wait=True, **sections):
        """Opens a gateway over pools of workers (or URLs); `pool` adds options to every pool.

        A pool's tasks are read off its name: `t2i`, `i2i`, or `both`.
        """
        config = self.config(pools, pool, **sections)
        runtime = Runtime(config, lambda: self.source(), self.clock)
        self.runtime = await self._stack.enter_async_context(runtime)
        self.url = await self._stack.enter_async_context(run_server(create_app(self.runtime)))
        admin = await self._stack.enter_async_context(run_server(create_admin_app(self.runtime)))
        self.client = await self._client(self.url)
        self.admin = await self._client(admin)
        if wait:
            await until(lambda: all(p["ready"] for p in self.runtime.readiness()["pools"].values()))

    def config(self, pools, pool=None, **sections):
        """Builds a configuration over pools of workers, as `open` does."""
        return Config.model_validate(
            {
                "pools": {
                    name: FAST
                    | {"tasks": {"both": ["i2i", "t2i"]}.get(name.split("_")[0], [name[:3]])}
                    | {"workers": [_section(worker) for worker in workers]}
                    | (pool or {})
                    for name, workers in pools.items()
                },
                "server": {"log_level": "error"},
                "artifacts": {"directory": self._stack.enter_context(TemporaryDirectory())},
            }
            | sections
        )

    async def _client(self, url):
        client = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)
        return await self._stack.enter_async_context(client)

    def pool(self, name):
        """Returns the living pool."""
        return self.runtime.queues[name].pool

    def queue(self, name):
        """Returns the living line."""
        return self.runtime.queues[name]

    async def generate(self, headers=None, **fields):
        """Posts JSON to /generate."""
        return await self.client.post("/generate", json=fields, headers=headers)


def _section(worker):
    if isinstance(worker, dict):
        return worker
    return {"url": worker if isinstance(worker, str) else worker.url}


def code_of(response):
    """Returns (status, code, param) of an error answer, its envelope checked."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    return response.status_code, error["code"], error["param"]
