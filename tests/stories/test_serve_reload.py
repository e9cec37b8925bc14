"""A running gateway process takes in its configuration file when it changes, and on SIGHUP."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.stories.test_serve import gateway
from tests.support.scripted_worker import ScriptedWorker
from tests.support.serve import until

pytestmark = pytest.mark.anyio


async def limit(client):
    """Returns the limit of the line, as the admin port shows it."""
    return (await client.get(f"{client.admin_url}/admin/pools")).json()["i2i"]["queue_limit"]


async def test_a_changed_file_and_a_signal_are_taken_in(tmp_path):
    """The file holds soon after it changes, a broken one never, and SIGHUP reads it at once."""
    worker = ScriptedWorker()
    await worker.start()
    config = tmp_path / "turnout.toml"
    async with gateway(tmp_path, worker.url) as (process, client, log):
        good = config.read_text()
        config.write_text(f"{good}queue_limit = 7\n")
        await until(lambda: b'"reloaded"' in log.read_bytes(), 20)
        assert 7 == await limit(client)
        config.write_text(f"{good}queue_limt = 9\n")
        await until(lambda: b"did you mean 'queue_limit'" in log.read_bytes(), 20)
        assert 7 == await limit(client)
        config.write_text(f"{good}queue_limit = 3\n")
        process.send_signal(signal.SIGHUP)
        await until(lambda: log.read_bytes().count(b'"reloaded"') >= 2, 20)
        assert 3 == await limit(client)
        added = {"url": "http://127.0.0.1:9"}
        await client.post(f"{client.admin_url}/admin/pools/i2i/workers", json=added)
        await asyncio.sleep(2.5)
        pools = (await client.get(f"{client.admin_url}/admin/pools")).json()
        assert 2 == len(pools["i2i"]["workers"]), "what was read already is not read again"
        config.write_text(f"{good}queue_limit = {'9' * 5000}\n")
        await until(lambda: log.read_bytes().count(b"reload refused") >= 2, 20)
        assert 200 == (await client.post("/generate", json={"prompt": "p"})).status_code
    await worker.stop()
