"""The line in front of an engine, seen from outside: loading, waiting, leaving, breaking."""

import threading

import httpx
import pytest

from tests.workers.support import fields, running_fake, wait_until
from workers import FakeEngine
from workers.errors import EngineBroken


def generate(client, **more):
    return client.post("/v1/images/generations", json=fields(**more))


def test_health_is_503_until_warm():
    """While the model loads, /health is 503, requests are not begun, and liveness is 200."""
    gate = threading.Event()
    engine = FakeEngine()
    engine.warm_up = lambda: gate.wait(10)
    with running_fake(engine, warm=False) as client:
        health, answer = client.get("/health"), generate(client)
        assert (health.status_code, health.json()["status"]) == (503, "loading")
        assert answer.status_code == 503
        assert "x-turnout-started" not in answer.headers
        assert client.get("/liveness").status_code == 200
        gate.set()
        wait_until(lambda: client.get("/health").status_code == 200)


class SlowEngine(FakeEngine):
    """A fake whose steps go on until it is told to finish."""

    def __init__(self):
        super().__init__()
        self.finish = threading.Event()

    def generate(self, requests, watch):
        self.prompts.append(requests[0].prompt)
        while not self.finish.wait(0.005):
            watch.at("denoising", 0, 1)
        self.prompts.pop()
        return super().generate(requests, watch)


def test_full_line_is_busy_and_not_begun():
    """Beyond the waiting places the answer is 503 without the mark of begun work."""
    engine = SlowEngine()
    with running_fake(engine, waiting_limit=1) as client:
        threads = []
        for number in range(2):
            send = threading.Thread(target=generate, args=(client,), kwargs={"seed": number})
            send.start()
            threads.append(send)
            want = {"in_flight": 1, "waiting": number}
            wait_until(lambda want=want: want.items() <= client.get("/health").json().items())
        answer = generate(client)
        assert answer.status_code == 503
        assert "x-turnout-started" not in answer.headers
        engine.finish.set()
        for send in threads:
            send.join(10)


def test_a_caller_who_left_is_skipped():
    """Who leaves while waiting is never run; who leaves while running is stopped."""
    engine = SlowEngine()
    with running_fake(engine) as client:

        def impatient(prompt, seconds):
            with (
                httpx.Client(base_url=client.base_url, timeout=seconds) as own,
                pytest.raises(httpx.ReadTimeout),
            ):
                own.post("/v1/images/generations", json=fields(prompt=prompt))

        first = threading.Thread(target=impatient, args=("runs", 1.0))
        first.start()
        wait_until(lambda: engine.prompts == ["runs"])
        impatient("waits", 0.3)
        first.join(5)
        wait_until(lambda: client.get("/health").json()["in_flight"] == 0)
        engine.finish.set()
        assert generate(client, prompt="stays", size="64x64").status_code == 200
        assert engine.prompts == ["runs", "stays"]


def test_a_broken_engine_marks_the_running_request():
    """If the engine breaks during a request, the answer says that work had begun."""
    engine = FakeEngine()

    def break_down(requests, watch):
        raise EngineBroken("lost")

    engine.generate = break_down
    with running_fake(engine) as client:
        answer = generate(client)
        assert (answer.status_code, answer.headers["x-turnout-started"]) == (503, "true")
        assert client.get("/health").status_code == 503
