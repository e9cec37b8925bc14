"""The line in front of an engine, seen from outside: loading, waiting, leaving, breaking."""

import threading

import httpx
import pytest

from tests.workers.support import fields, running_fake, wait_until
from workers import FakeEngine
from workers.errors import EncoderUnreachable, EngineBroken


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
    """A fake that works until it is told to finish."""

    def __init__(self):
        super().__init__()
        self.finish = threading.Event()

    def generate(self, request, has_left):
        self.seconds = 0 if self.finish.is_set() else 20
        return super().generate(request, lambda: has_left() or self.finish.is_set())


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


@pytest.mark.parametrize(("fails_at", "mark"), [(1, None), (2, "true")])
def test_an_unreachable_encoder_is_marked_once_work_began(fails_at, mark):
    """An encoder that is gone at the first picture lost nothing; at a later one, begun work."""

    class Unlucky(FakeEngine):
        def generate(self, request, has_left):
            if len(self.prompts) + 1 == fails_at:
                raise EncoderUnreachable
            return super().generate(request, has_left)

    with running_fake(Unlucky()) as client:
        answer = generate(client, n=3, size="64x64")
    assert (answer.status_code, answer.headers.get("x-turnout-started")) == (503, mark)


def test_a_broken_engine_marks_the_running_request():
    """If the engine breaks during a request, the answer says that work had begun."""
    engine = FakeEngine()

    def break_down(request, has_left):
        raise EngineBroken("lost")

    engine.generate = break_down
    with running_fake(engine) as client:
        answer = generate(client)
        assert (answer.status_code, answer.headers["x-turnout-started"]) == (503, "true")
        assert client.get("/health").status_code == 503
