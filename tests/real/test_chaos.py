"""A thousand mixed requests while real worker processes are killed, hung and started again."""

from __future__ import annotations

import asyncio
import collections
import signal
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from tests.support.pictures import DATA8
from tests.support.process import free_ports, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(280)]

REQUESTS, AT_ONCE = 1000, 12
DEADLINE_SECONDS, WORK_SECONDS = 30.0, 0.03
KINDS = {"t": "T2I", "i": "TI2I"}


class WorkerProcess:
    """Is one worker on a port of its own, that lives, hangs, and lives again."""

    def __init__(self, name, port, directory):
        self.name, self.port = name, port
        self.log = directory / f"{name}.log"
        self.process = None

    async def start(self):
        """Starts it at its port."""
        arguments = (self.port, KINDS[self.name[0]], WORK_SECONDS, self.log)
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.worker_process", *map(str, arguments)
        )

    async def kill(self):
        """Ends it at once, whatever it is doing."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def hang(self, seconds):
        """Stops it for a while; its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def lines(self):
        """Lists what it has noted, over all its lives."""
        text = self.log.read_text() if self.log.exists() else ""
        return [line.split() for line in text.splitlines()]


@asynccontextmanager
async def house(tmp_path):
    """Runs four worker processes and a gateway process over them."""
    port, admin_port, *ports = free_ports(6)
    names = ("t0", "t1", "i0", "i1")
    workers = [WorkerProcess(*pair, tmp_path) for pair in zip(names, ports, strict=True)]
    sections = [
        f'[pools.{pool}]\ntasks = ["{pool}"]\nprobe_seconds = 0.3\nqueue_limit = 1000\n'
        f"deadline_seconds = {DEADLINE_SECONDS}\nworkers = ["
        + ", ".join(f'{{ url = "http://127.0.0.1:{w.port}" }}' for w in workers if w.name[0] == k)
        + "]\n"
        for pool, k in (("t2i", "t"), ("i2i", "i"))
    ]
    config, log = tmp_path / "turnout.toml", tmp_path / "gateway.log"
    config.write_text(f"[server]\nport = {port}\nadmin_port = {admin_port}\n" + "\n".join(sections))
    async with AsyncExitStack() as stack:
        for worker in workers:
            await worker.start()
            stack.push_async_callback(worker.kill)
        stack.enter_context(running("gateway", "serve", "--config", str(config), log=log))
        limits = httpx.Limits(max_connections=AT_ONCE + 2)
        client = httpx.AsyncClient(timeout=60, trust_env=False, limits=limits)
        await stack.enter_async_context(client)
        client.base_url = f"http://127.0.0.1:{port}"
        admin = f"http://127.0.0.1:{admin_port}"
        yield client, admin, workers


async def pools(client, admin):
    """Returns what the admin port says of the pools; nothing while it does not answer."""
    try:
        return (await client.get(f"{admin}/admin/pools")).json()
    except httpx.TransportError:
        return {}


async def all_up(client, admin):
    """Waits until every worker of every pool is given work."""
    async with asyncio.timeout(60):
        while True:
            said = await pools(client, admin)
            states = {w["state"] for p in said.values() for w in p["workers"]}
            if states and states <= {"up", "on_trial"}:
                return said
            await asyncio.sleep(0.1)


async def torment(client, admin, workers, done):
    """Kills, hangs and restarts one worker after another until all is done; counts the kills."""
    kills, turn = 0, 0
    while not done.is_set():
        worker = workers[turn % len(workers)]
        turn += 1
        if turn % 3:
            await worker.kill()
            kills += 1
            await asyncio.sleep(0.4)
            await worker.start()
        else:
            await worker.hang(1.2)
        await all_up(client, admin)  # so that one at a time is away
    return kills


async def test_no_request_is_lost_or_run_twice_while_workers_die(tmp_path):
    """Each ends in time and runs at most once; only what ran on a killed worker fails."""
    async with house(tmp_path) as (client, admin, workers):
        await all_up(client, admin)
        places, results = asyncio.Semaphore(AT_ONCE), []

        async def ask(number):
            image = {"image": DATA8} if number % 3 == 0 else {}
            body = {"prompt": f"r{number}", "size": "64x64", **image}
            async with places:
                began = time.monotonic()
                answer = await client.post("/generate", json=body)
                results.append((answer.status_code, time.monotonic() - began, number))

        done = asyncio.Event()
        chaos = asyncio.create_task(torment(client, admin, workers, done))
        try:
            await asyncio.gather(*(ask(number) for number in range(REQUESTS)))
        finally:
            done.set()
            kills = await chaos
        assert REQUESTS == len(results)
        assert max(seconds for _, seconds, _ in results) < DEADLINE_SECONDS + 2
        codes = collections.Counter(status for status, *_ in results)
        assert set(codes) <= {200, 502}
        assert codes[502] <= kills, f"{codes} with {kills} kills"
        assert kills >= 4
        begun = collections.Counter(
            prompt for w in workers for word, _, prompt in w.lines() if word == "begin"
        )
        assert {1} == set(begun.values()), "nothing ran twice"
        for worker in workers:
            paths = {path for _, path, _ in worker.lines()}
            assert worker.name[0] == "i" or paths == {"/v1/images/generations"}
        served = {f"r{number}" for status, _, number in results if status == 200}
        assert served <= set(begun)
        said = await all_up(client, admin)
        assert all(p["waiting"] == 0 for p in said.values())
        assert {0} == {w["in_flight"] for p in said.values() for w in p["workers"]}
        answers = await asyncio.gather(
            *(
                client.post("/generate", json={"prompt": f"after{n}", "size": "64x64"})
                for n in range(8)
            )
        )
        assert {200} == {answer.status_code for answer in answers}
