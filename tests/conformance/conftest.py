"""The fleet that these tests look at: stock SGLang servers beside our own processes.

`make conformance` names SGLang's Python in TURNOUT_SGLANG; without it there is nothing to collect,
so that no other run needs SGLang.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conformance.report import Report
from tests.conformance.servers import Sglang, own
from tests.support.process import free_ports, wait_for

PYTHON = os.environ.get("TURNOUT_SGLANG")
HERE = Path(__file__).parent
REPORT = HERE.parents[1] / "docs" / "conformance.md"
MODES = {"external": "external", "in_process": "in process (mended)"}
collect_ignore_glob = [] if PYTHON else ["test_*.py"]

GATEWAY = """
[server]
port = {port}
admin_port = {admin_port}

[artifacts]
directory = "{directory}/artifacts"

[models.glm-image]
default_size = "64x64"
max_side = 512
"""


def pytest_configure(config):
    """Collects what the tests see."""
    config.conformance = Report()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Notes how each test ended, under the rule that it states."""
    outcome = yield
    if item.path.parent == HERE:
        item.config.conformance.note(item, outcome)
    return outcome


def pytest_deselected(items):
    """A run of a part says nothing about the whole."""
    if items:
        items[0].config.conformance.is_whole = False


def pytest_sessionfinish(session):
    """Writes the page, if every test of this folder was asked for and has run."""
    report = session.config.conformance
    ran = {path.name for path in report.files}
    if report.is_whole and report.versions and ran == {path.name for path in HERE.glob("test_*")}:
        REPORT.write_text(report.page(), encoding="utf-8")


@pytest.fixture
def seen(request):
    """Notes a fact for the page: `seen(server, question, answer)`."""
    return request.config.conformance.seen


@pytest.fixture(scope="session")
def sglang(tmp_path_factory, request):
    """Offers the SGLang installation with a tiny checkpoint."""
    directory = tmp_path_factory.mktemp("conformance")
    model = directory / "glm-image-tiny"
    command = [sys.executable, "-m", "workers", "tiny", str(model)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    installed = Sglang(PYTHON, model, directory)
    request.config.conformance.versions = installed.versions()
    return installed


@pytest.fixture(scope="session")
def fleet(sglang):
    """Offers the running servers: SGLang's encoder, SGLang in both modes, and our own worker.

    `in_process` is mended (stub/sitecustomize.py); as it comes, SGLang 0.5.23 fails every edit.
    """
    with ExitStack() as stack:
        encoder = stack.enter_context(sglang.encoder())
        in_process = stack.enter_context(sglang.diffusion("sglang-in-process", mended=True))
        worker = stack.enter_context(own_worker(sglang, "in-process", "t2i,i2i"))
        encoder.wait()
        external = stack.enter_context(sglang.diffusion("sglang-external", encoder_url=encoder.url))
        for server in (in_process, worker, external):
            server.wait()
        yield SimpleNamespace(
            encoder=encoder, in_process=in_process, worker=worker, external=external
        )


@pytest.fixture(params=MODES)
def server(request, fleet):
    """Offers the diffusion server in each mode, with the name that the page has for it."""
    return getattr(fleet, request.param), MODES[request.param]


def own_worker(sglang, encoder, tasks):
    """Starts one of our workers; it is not ready yet."""
    [port] = free_ports(1)
    arguments = ["serve", "--model", sglang.model, "--encoder", encoder, "--tasks", tasks]
    arguments += ["--port", port, "--device", "cpu"]
    name = f"worker-{'in-process' if encoder == 'in-process' else 'external'}"
    return own("workers", *arguments, name=name, port=port, directory=sglang.directory)


@pytest.fixture(scope="session")
def split(sglang, fleet):
    """Offers our worker for both tasks with SGLang's encoder server behind it."""
    with own_worker(sglang, fleet.encoder.url, "t2i,i2i") as worker:
        yield worker.wait()


@contextmanager
def open_gateway(sglang, name, pools):
    """Starts `turnout serve` over pools, given as TOML, and waits until every pool is ready."""
    port, admin_port = free_ports(2)
    directory = sglang.directory / name
    directory.mkdir()
    config = directory / "turnout.toml"
    head = GATEWAY.format(port=port, admin_port=admin_port, directory=directory)
    config.write_text(head + pools)
    arguments = ("serve", "--config", config)
    with own("gateway", *arguments, name=name, port=port, directory=directory) as gateway:
        gateway.wait(120, path="/livez")
        with gateway.client() as client:
            wait_for(lambda: all(pool["ready"] for pool in pools_of(client)), 120)
            yield client


def pools_of(client):
    """Lists what the gateway says of its pools."""
    return client.get("/readyz").json()["pools"].values()


@pytest.fixture(scope="module")
def gateway(sglang, fleet):
    """Offers a client of the gateway: text goes to stock SGLang, pictures to our worker."""
    pools = f"""
[pools.t2i]
tasks = ["t2i"]
encoder_url = "{fleet.encoder.url}"
workers = [{{ url = "{fleet.external.url}" }}]

[pools.i2i]
tasks = ["i2i"]
workers = [{{ url = "{fleet.worker.url}" }}]
"""
    with open_gateway(sglang, "gateway", pools) as client:
        yield client
