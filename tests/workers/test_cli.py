"""The command line, as processes."""

import os
import signal
import subprocess
import sys

import httpx
import pytest

from tests.support.process import free_ports
from tests.workers.support import fields, pattern, picture_of, png, wait_until

WORKER = [sys.executable, "-m", "workers"]


def start(*words, out=subprocess.PIPE):
    return subprocess.Popen([*WORKER, *map(str, words)], stdout=out, stderr=subprocess.PIPE)


def finish(*words):
    return subprocess.run([*WORKER, *map(str, words)], capture_output=True, text=True, timeout=60)


def status(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code
    except httpx.TransportError:
        return None


@pytest.mark.parametrize("kind", ["serve", "encoder"])
def test_a_port_in_use_is_one_sentence(tiny, taken_port, kind):
    """A taken port is found before the model is loaded."""
    more = ["--encoder", "in-process"] if kind == "serve" else []
    done = finish(kind, "--model", tiny.path, "--port", taken_port, *more)
    assert done.returncode == 1
    assert str(taken_port) in done.stderr
    assert done.stderr.count("\n") == 1
    assert "loaded" not in done.stdout


def test_a_missing_model_is_one_sentence(tmp_path, free_port):
    """A directory without a checkpoint ends the command with 1."""
    done = finish("encoder", "--model", tmp_path, "--port", free_port)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    "words",
    [
        ["--encoder", "http://127.0.0.1:9", "--tasks", "i2i"],
        ["--encoder", "http://127.0.0.1:9,in-process"],
        ["--encoder", "elsewhere"],
        ["--encoder", "in-process", "--tasks", "i2i"],
        ["--encoder", "in-process", "--device", "abacus"],
        [],
    ],
)
def test_wrong_usage_is_2(tiny, words):
    """What cannot be meant ends the command with 2."""
    done = finish("serve", "--model", tiny.path, *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_worker_from_start_to_end(tiny, free_port, tmp_path):
    """The process answers while it loads, serves once warm, and ends with 0 on SIGTERM."""
    words = ["--encoder", "in-process", "--port", free_port, "--device", "cpu"]
    with open(tmp_path / "log", "wb") as out:
        process = start("serve", "--model", tiny.path, *words, out=out)
        try:
            wait_until(lambda: status(free_port) is not None)
            assert status(free_port) == 503
            wait_until(lambda: status(free_port) == 200, 60)
            answer = httpx.post(
                f"http://127.0.0.1:{free_port}/v1/images/generations",
                json=fields(size="64x64", num_inference_steps=1),
                timeout=60,
            )
            assert picture_of(answer).size == (64, 64)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.communicate()
    log = (tmp_path / "log").read_text()
    for part in ("processor", "vision_language_encoder", "text_encoder", "vae", "transformer"):
        assert f'"part": "{part}"' in log
    assert "a cat" not in log


def test_a_worker_of_the_third_kind_as_processes(tiny, tmp_path):
    """Several encoders, the first of them dead: edits are served, and no language model is read."""
    dead, encoder_port, port = free_ports(3)
    urls = [f"http://127.0.0.1:{each}" for each in (dead, encoder_port)]
    commands = [
        ["encoder", "--model", tiny.path, "--port", encoder_port, "--device", "cpu"],
        ["serve", "--model", tiny.path, "--port", port, "--device", "cpu", "--tasks", "t2i,i2i"],
    ]
    commands[1] += ["--encoder", ",".join(urls), "--encoder", urls[0]]
    processes = []
    try:
        for number, command in enumerate(commands):
            with open(tmp_path / f"log{number}", "wb") as out:
                processes.append(start(*command, out=out))
        wait_until(lambda: status(encoder_port) == status(port) == 200, 120)
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/images/edits",
            data=fields(num_inference_steps=1),
            files={"image": ("a.png", png(pattern(64, 64)))},
            timeout=60,
        )
        assert picture_of(answer).size == (64, 64)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    log = (tmp_path / "log1").read_text()
    assert '"part": "vision"' in log
    assert '"part": "vision_language_encoder"' not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_loading_ends_it_cleanly(tiny, free_port, number):
    """A process that is still loading ends with 0 and at once."""
    process = start("encoder", "--model", tiny.path, "--port", free_port, out=subprocess.DEVNULL)
    try:
        wait_until(lambda: status(free_port) is not None)
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.communicate()


CRASH = """
import sys
from workers import FakeEngine, create_app
from workers.serving import listen, serve

class Crashing(FakeEngine):
    def generate(self, requests, watch):
        raise SystemExit("the engine thread ends")

engine = Crashing()
serve(create_app(engine.info, lambda: engine), listen("127.0.0.1", int(sys.argv[1])))
"""


def test_a_crash_of_the_engine_thread_ends_the_process(free_port):
    """If the engine thread ends, the caller learns that work was lost, and the process exits 1."""
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH, str(free_port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )
    try:
        wait_until(lambda: status(free_port) == 200)
        url = f"http://127.0.0.1:{free_port}/v1/images/generations"
        answer = httpx.post(url, json=fields(), timeout=10)
        assert (answer.status_code, answer.headers["x-turnout-started"]) == (503, "true")
        assert process.wait(10) == 1
    finally:
        process.kill()
        process.wait()


FAILED_LOAD = """
import sys
from workers import FakeEngine, create_app
from workers.serving import listen, serve

def load():
    raise RuntimeError("no weights")

serve(create_app(FakeEngine().info, load), listen("127.0.0.1", int(sys.argv[1])))
"""


def test_a_failed_load_ends_the_process(free_port):
    """A model that cannot be loaded is logged, and the process ends with 1."""
    done = subprocess.run(
        [sys.executable, "-c", FAILED_LOAD, str(free_port)],
        capture_output=True,
        text=True,
        timeout=20,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )
    assert done.returncode == 1
    assert "no weights" in done.stdout


def test_tiny_leaves_a_checkpoint_as_it_is(tiny):
    """A complete checkpoint is not written again, and the command says so."""
    index = tiny.path / "model_index.json"
    before = index.stat().st_mtime_ns
    done = finish("tiny", tiny.path)
    assert (done.returncode, index.stat().st_mtime_ns) == (0, before)
    assert "already holds a checkpoint" in done.stdout


def test_tiny_does_not_write_over_other_files(tmp_path):
    """A directory with anything else in it is left alone; the name is warned about."""
    (tmp_path / "note").write_text("mine")
    done = finish("tiny", tmp_path)
    assert done.returncode == 1
    assert "glm-image" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
