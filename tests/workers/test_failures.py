"""What a worker does when memory, encoder or model fail: it says so, and goes on."""

import gc
import signal
import subprocess
import sys
import threading
import weakref

import httpx
import pytest

from tests.workers.support import (
    error_of,
    fields,
    pattern,
    picture_of,
    png,
    running,
    running_split,
    wait_until,
)
from workers import PictureRequest, create_encoder_app
from workers.decoding import LoadedDecoder, load_decoder
from workers.errors import OutOfMemory
from workers.runner import Runner

TEXT = fields(size="64x64", num_inference_steps=2, seed=9)


def generate(client):
    return client.post("/v1/images/generations", json=TEXT)


def edit(client, **more):
    return client.post(
        "/v1/images/edits",
        data=TEXT | more,
        files={"image": ("a.png", png(pattern(64, 64)))},
        timeout=60,
    )


def fail_once(module, error):
    """Lets a module raise at its next call: the only way to a full memory on any machine."""

    def hook(*_):
        handle.remove()
        raise error

    handle = module.register_forward_pre_hook(hook)


@pytest.fixture
def memory_errors():
    """What a full memory looks like: of a GPU, of the host, and of Python."""
    import torch

    return [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ]


def test_a_full_memory_is_told_and_the_next_request_works(full_worker, engine, memory_errors):
    """503 with its own code and the mark of begun work; then the same picture as before."""
    expected = picture_of(edit(full_worker)).tobytes()
    parts = (engine._pipeline.transformer, engine._pipeline.vae.decoder, engine._pipeline.vae)
    for part, error in zip(parts, memory_errors, strict=True):
        if part is engine._pipeline.vae:
            part = engine._pipeline.vae.encoder
        fail_once(part, error)
        answer = edit(full_worker)
        assert (answer.status_code, error_of(answer)["code"]) == (503, "worker_out_of_memory")
        assert answer.headers["x-turnout-started"] == "true"
        assert int(answer.headers["retry-after"]) >= 1
        assert full_worker.get("/health").status_code == 200
        assert picture_of(edit(full_worker)).tobytes() == expected


def test_a_full_memory_is_given_back(engine, memory_errors):
    """No tensor of the failed call outlives it, even while its answer is not yet written."""
    held = []

    def hook(_, __, kwargs):
        handle.remove()
        held.append(weakref.ref(kwargs["hidden_states"]))
        raise memory_errors.pop(0)

    handle = engine._pipeline.transformer.register_forward_pre_hook(hook, with_kwargs=True)
    runner = Runner(lambda: lambda jobs, watches: [engine.generate(jobs, watches[0])])
    runner.start()
    wait_until(lambda: runner.state == "ok")
    ticket = runner.submit(PictureRequest("a cat", 64, 64, 2, 1.5, 1))
    assert isinstance(ticket.future.exception(30), OutOfMemory)
    runner.stop()
    assert runner.join(5)
    gc.collect()
    assert [each() for each in held] == [None]


def test_another_failure_is_500_and_hides_its_reason(full_worker, engine):
    """What the pipeline raises is in the log only; the mark says that work had begun."""
    fail_once(engine._pipeline.transformer, ValueError("shapes of a secret"))
    answer = generate(full_worker)
    assert (answer.status_code, error_of(answer)["code"]) == (500, "internal_error")
    assert answer.headers["x-turnout-started"] == "true"
    assert "secret" not in answer.text
    assert generate(full_worker).status_code == 200


def test_an_encoder_out_of_memory_is_lost_work_and_goes_on(tiny):
    """The encoder server frees its memory and serves; the worker says that work was lost."""
    import torch

    from workers.device import guarded

    fails = [torch.OutOfMemoryError("CUDA out of memory.")]

    def load():
        loaded = load_decoder(tiny, "cpu")

        @guarded()
        def decode(rows, before_step):
            if fails:
                raise fails.pop()
            return loaded.decode(rows, before_step)

        return LoadedDecoder(decode, loaded.peak_memory_mb)

    with (
        running(create_encoder_app(tiny, "cpu", load=load)) as encoder,
        running_split(tiny, str(encoder.base_url).rstrip("/")) as worker,
    ):
        answer = edit(worker)
        assert (answer.status_code, answer.headers["x-turnout-started"]) == (503, "true")
        assert edit(worker).status_code == 200


@pytest.fixture
def encoder_process(tiny, free_port, tmp_path):
    """Our encoder server as a process of its own, and its URL."""
    words = ["encoder", "--model", str(tiny.path), "--port", str(free_port), "--device", "cpu"]
    url = f"http://127.0.0.1:{free_port}"
    with open(tmp_path / "log", "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "workers", *words], stdout=out, stderr=subprocess.STDOUT
        )
        try:
            wait_until(lambda: process.poll() is not None or is_up(url), 90)
            yield process, url
        finally:
            process.kill()
            process.wait()


def is_up(url):
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_an_encoder_killed_in_the_middle_is_lost_work(tiny, encoder_process):
    """The kill is noticed at once: 503 with the mark and a time to retry; then not begun."""
    process, url = encoder_process
    with running_split(tiny, url) as worker:
        assert edit(worker).status_code == 200
        answers = []
        sender = threading.Thread(target=lambda: answers.append(edit(worker, size="512x512")))
        sender.start()
        wait_until(lambda: httpx.get(f"{url}/health").json()["in_flight"] == 1, 20)
        process.send_signal(signal.SIGKILL)
        sender.join(5)
        (answer,) = answers
        assert (answer.status_code, error_of(answer)["code"]) == (503, "encoder_lost")
        assert answer.headers["x-turnout-started"] == "true"
        assert int(answer.headers["retry-after"]) >= 1
        again = edit(worker)
        assert (again.status_code, error_of(again)["code"]) == (503, "encoder_unreachable")
        assert "x-turnout-started" not in again.headers
        wait_until(lambda: worker.get("/health").status_code == 503, 5)
