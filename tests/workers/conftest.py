"""Fixtures of the worker tests: the tiny checkpoint and the servers on top of it."""

import os
import socket
import threading

import pytest

from tests.workers.support import running, running_split
from workers.app import create_app


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The tiny checkpoint, written once per test process."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    from workers.checkpoint import read_checkpoint
    from workers.tiny import write_tiny

    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("model") / "glm-image-tiny"
    write_tiny(directory)
    return read_checkpoint(directory)


@pytest.fixture(scope="session")
def engine(tiny):
    """The whole model in this process."""
    from workers.glm_image import load_engine

    return load_engine(tiny, (), "cpu")


@pytest.fixture(scope="session")
def model(engine):
    """The language model inside the engine, as transformers knows it."""
    return engine._encoder._scribe._vision


@pytest.fixture(scope="session")
def encoder(tiny):
    """A client of the running encoder server."""
    from workers.encoder_app import create_encoder_app

    with running(create_encoder_app(tiny, "cpu")) as client:
        yield client


@pytest.fixture(scope="session")
def encoder_url(encoder):
    """Where the encoder server listens."""
    return str(encoder.base_url).rstrip("/")


@pytest.fixture(scope="session")
def t2i_worker(tiny, encoder_url):
    """A client of a text worker with the encoder server behind it."""
    with running_split(tiny, encoder_url, tasks=("t2i",)) as client:
        yield client


@pytest.fixture(scope="session")
def split_engine(tiny, encoder_url):
    """The engine of the third kind: it encodes sources, the encoder server decodes."""
    from workers.glm_image import load_engine

    return load_engine(tiny, (encoder_url,), "cpu")


@pytest.fixture(scope="session")
def split_worker(tiny, encoder_url, split_engine):
    """A client of a worker of the third kind."""
    with running_split(tiny, encoder_url, engine=split_engine) as client:
        yield client


@pytest.fixture(scope="session")
def full_worker(tiny, engine):
    """A client of a worker with the encoder in process."""
    from workers.engine import WorkerInfo

    with running(create_app(WorkerInfo(tiny.name, limits=tiny.limits), lambda: engine)) as client:
        yield client


@pytest.fixture
def taken_port():
    """A port that someone else listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


@pytest.fixture
def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def dying_server():
    """The URL of a server that reads one request and hangs up."""

    def hang_up(listener):
        connection, _ = listener.accept()
        connection.recv(1 << 20)
        connection.close()

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        thread = threading.Thread(target=hang_up, args=(sock,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        thread.join(5)
