"""The compose profile `split-cpu`, its own commands and configuration as processes here."""

from __future__ import annotations

import base64
import re
import shlex
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from tests.deploy.support import DEPLOY, ROLES, service
from tests.real.conftest import Demo
from tests.support.pictures import DATA8, facts
from tests.support.process import answers, free_ports, running, wait_for

pytestmark = pytest.mark.timeout(300)

PROFILE = "split-cpu"
PATIENCE_SECONDS = 240


class Split(Demo):
    """Is the running profile."""

    def __init__(self, ports, t2i_server):
        super().__init__(None, ports, None, None)
        self.t2i_server = t2i_server

    def ready(self):
        """Lists the pools that can serve."""
        pools = httpx.get(self.url("port") + "/readyz", timeout=20, trust_env=False).json()["pools"]
        return {name for name, pool in pools.items() if pool["ready"]}


@pytest.fixture
def split(tiny, tmp_path):
    """Offers the profile's processes, on free ports in place of the containers' names."""
    names = ["port", "admin-port", *(f"{role}-port" for role in ROLES[PROFILE])]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    hosts = {name: ports[f"{role}-port"] for role, name in ROLES[PROFILE].items()}

    def here(text):
        def local(match):
            return f"http://127.0.0.1:{hosts[urlsplit(match[0]).hostname]}"

        return re.sub(r"http://[\w-]+:\d+", local, text).replace("/models", str(tiny))

    config = tmp_path / "turnout.toml"
    config.write_text(here((DEPLOY / f"turnout.{PROFILE}.toml").read_text()))
    variables = {
        "TURNOUT__SERVER__PORT": str(ports["port"]),
        "TURNOUT__SERVER__ADMIN_HOST": "127.0.0.1",
        "TURNOUT__SERVER__ADMIN_PORT": str(ports["admin-port"]),
    }
    with ExitStack() as stack:

        def start(name, *arguments, env):
            log = tmp_path / f"{name}.log"
            return stack.enter_context(running(*arguments, log=log, env=env))

        servers = {}
        for role, name in ROLES[PROFILE].items():
            each = service(PROFILE, role)
            words = shlex.split(here(each["command"]))
            for option, value in (("--host", "127.0.0.1"), ("--port", str(hosts[name]))):
                words[words.index(option) + 1] = value
            servers[role] = start(name, "workers", *words, env=each["environment"])
        start("gateway", "gateway", "serve", "--config", str(config), env=variables)
        opened = Split(ports, servers["t2i"])
        wait_for(lambda: answers(opened.url("port") + "/readyz"), PATIENCE_SECONDS, every=0.5)
        wait_for(lambda: opened.ready() == {"t2i", "i2i"}, PATIENCE_SECONDS, every=0.5)
        yield opened


def test_one_encoder_serves_both_tasks_and_text_outlives_its_server(split):
    """Text and edit are decoded by the one encoder, and the split worker takes text left alone."""

    def made(expected, **fields):
        before = split.encoder_count("t2i"), split.encoder_count("i2i")
        body = fields | {"prompt": "a fox", "size": "64x64", "num_inference_steps": 2, "seed": 1}
        url = split.url("port") + "/generate"
        answer = httpx.post(url, json=body, timeout=PATIENCE_SECONDS, trust_env=False)
        assert answer.status_code == 200, answer.text
        task, pool = (answer.headers[f"x-turnout-{name}"] for name in ("task", "pool"))
        assert (task, pool) == expected
        after = split.encoder_count("t2i"), split.encoder_count("i2i")
        assert (before[0] + (task == "t2i"), before[1] + (task == "i2i")) == after
        picture = base64.b64decode(answer.json()["data"][0]["b64_json"])
        assert ("png", 64, 64) == facts(picture)
        return picture

    text = made(("t2i", "t2i"))
    made(("i2i", "i2i"), image=DATA8)
    split.t2i_server.kill()
    wait_for(lambda: split.ready() == {"i2i"}, 60)
    assert text == made(("t2i", "i2i"))
