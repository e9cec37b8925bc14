"""The gateway as a process: it starts without workers, drains, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.support.process import free_ports, running
from tests.support.scripted_worker import ScriptedWorker, after
from tests.support.serve import until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def gateway(tmp_path, worker_url, **options):
    """Runs `turnout serve` over one I2I worker; yields process, client and log file."""
    port, admin_port = free_ports(2)
    config, log = tmp_path / "turnout.toml", tmp_path / "log"
    config.write_text(
        f"[server]\nport = {port}\nadmin_port = {admin_port}\n"
        f'[pools.i2i]\ntasks = ["i2i", "t2i"]\nworkers = [{{ url = "{worker_url}" }}]\n'
        "probe_seconds = 0.2\n"
    )
    env = {f"TURNOUT__SERVER__{name.upper()}": str(value) for name, value in options.items()}
    with running("gateway", "serve", "--config", str(config), log=log, env=env) as process:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            await until(lambda: b"serving" in log.read_bytes(), 20)
            await until_status(client, "/livez", 200)
            client.admin_url = f"http://127.0.0.1:{admin_port}"
            yield process, client, log


async def until_waiting(client, count):
    """Asks until so many requests wait in line."""
    async with asyncio.timeout(20):
        while True:
            pools = (await client.get(f"{client.admin_url}/admin/pools")).json()
            if pools["i2i"]["waiting"] == count:
                return
            await asyncio.sleep(0.02)


async def until_status(client, path, status):
    """Asks until a path answers with a status."""
    async with asyncio.timeout(20):
        while True:
            try:
                if (await client.get(path)).status_code == status:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.02)


async def ended(process):
    """Waits for a process and returns its exit code."""
    return await asyncio.to_thread(process.wait, 20)


async def test_workers_may_come_late_and_come_back(tmp_path):
    """The gateway starts alone, and uses a worker soon after it comes, each time (B51)."""
    worker = ScriptedWorker()
    [worker.port] = free_ports(1)
    async with gateway(tmp_path, worker.url) as (_, client, _):
        assert 200 == (await client.get("/livez")).status_code
        ready = await client.get("/readyz")
        assert 503 == ready.status_code
        assert "no worker of pool 'i2i' is up" == ready.json()["pools"]["i2i"]["missing"]
        for _ in range(2):
            await worker.start()
            await until_status(client, "/readyz", 200)
            answer = await client.post("/generate", json={"prompt": "p"})
            assert 200 == answer.status_code
            await worker.stop()
            await until_status(client, "/readyz", 503)
        assert 2 == worker.hits


async def test_sigterm_drains(tmp_path):
    """SIGTERM: not ready at once, nothing new, running and waiting work ends with 200 (B55)."""
    worker, gate = ScriptedWorker(), asyncio.Event()
    worker.script = after(gate)
    await worker.start()
    async with gateway(tmp_path, worker.url) as (process, client, log):
        await until_status(client, "/readyz", 200)
        calls = [
            asyncio.create_task(client.post("/generate", json={"prompt": f"canary-{n}", "n": 2}))
            for n in range(3)
        ]
        await until(lambda: worker.running == 1)
        await until_waiting(client, 3)
        process.send_signal(signal.SIGTERM)
        await until_status(client, "/readyz", 503)
        assert 200 == (await client.get("/livez")).status_code
        refused = await client.post("/generate", json={"prompt": "p"})
        assert (503, "draining") == (refused.status_code, refused.json()["error"]["code"])
        assert "1" == refused.headers["retry-after"]
        gate.set()
        assert [200] * 3 == [(await call).status_code for call in calls]
        assert 0 == await ended(process)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    await worker.stop()
    assert 6 == worker.hits
    requests = [line for line in lines if line["event"] == "request" and "worker" in line]
    requests = [line for line in requests if line["status"] == 200]
    assert 3 == len(requests)
    assert {
        "event", "level", "timestamp", "id", "method", "path", "status", "seconds", "task",
        "evidence", "ar_tokens", "pixel_steps", "pool", "worker", "attempts", "queue_seconds",
        "worker_seconds",
    } == requests[0].keys()  # fmt: skip
    assert "canary" not in log.read_text()


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_drain_ends_at_its_limit(tmp_path, signals):
    """What outlasts `drain_seconds`, or a second signal, is cut with an answer; the exit is 0."""
    worker = ScriptedWorker()
    worker.script = after(asyncio.Event())
    await worker.start()
    seconds = 0.5 if signals == 1 else 600
    async with gateway(tmp_path, worker.url, drain_seconds=seconds) as (process, client, _):
        await until_status(client, "/readyz", 200)
        calls = []
        for _ in range(2):
            calls.append(asyncio.create_task(client.post("/generate", json={"prompt": "p"})))
            await until(lambda: worker.running == 1)
        await until_waiting(client, 1)
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            await until_status(client, "/readyz", 503)
        at_work, in_line = [await call for call in calls]
        assert 0 == await ended(process)
    await worker.stop()
    assert (502, "worker_error") == (at_work.status_code, at_work.json()["error"]["code"])
    assert "false" == at_work.headers["x-should-retry"]
    assert (503, "draining") == (in_line.status_code, in_line.json()["error"]["code"])


@pytest.mark.parametrize("which", ["port", "admin_port"])
async def test_a_port_in_use_is_one_sentence(tmp_path, which):
    """A port in use ends the start with one clear sentence and exit code 1."""
    config, log = tmp_path / "turnout.toml", tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = "admin_port" if which == "port" else "port"
        config.write_text(f"[server]\n{which} = {port}\n{other} = 0\n")
        with running("gateway", "serve", "--config", str(config), log=log) as process:
            assert 1 == await ended(process)
    [line] = log.read_text().splitlines()
    assert line.startswith(f"turnout: cannot listen on 127.0.0.1 port {port}: ")


async def test_a_wrong_configuration_is_named(tmp_path):
    """A typing error ends the start with file, key and the nearest key, and exit code 2."""
    config, log = tmp_path / "turnout.toml", tmp_path / "log"
    config.write_text('[pools.i2i]\ntasks = ["i2i"]\nqueue_limt = 3\n')
    with running("gateway", "serve", "--config", str(config), log=log) as process:
        assert 2 == await ended(process)
    want = f"turnout: {config}: pools.i2i.queue_limt: unknown key; did you mean 'queue_limit'?"
    assert [want] == log.read_text().splitlines()


@pytest.mark.parametrize(
    ("task_type", "health", "code", "says"),
    [
        ("TI2I", 200, 0, "ok"),
        ("T2I", 200, 1, "cannot do i2i"),
        ("TI2I", 503, 1, "/health answers 503"),
        (None, 200, 1, "refuses the connection"),
    ],
)
async def test_check_probes_every_worker(tmp_path, task_type, health, code, says):
    """`turnout check` prints the configuration and each worker's state; 1 when one is no good."""
    worker = ScriptedWorker(task_type)
    worker.health_status = health
    await worker.start()
    if task_type is None:
        await worker.stop()
    config, log = tmp_path / "turnout.toml", tmp_path / "log"
    config.write_text(
        f'[pools.i2i]\ntasks = ["i2i"]\nworkers = [{{ url = "{worker.url}", name = "w" }}]\n'
        "queue_limit = 7\n"
    )
    with running("gateway", "check", "--config", str(config), log=log) as process:
        assert code == await ended(process)
    text = log.read_text()
    assert '"queue_limit": 7' in text
    assert says in next(line for line in text.splitlines() if worker.url in line and "│" in line)
    await worker.stop()
