"""What a worker tells about its load."""

import threading

import pytest

from tests.workers.support import fields, metric, pattern, png, running_fake, wait_until
from workers import FakeEngine, PictureRequest
from workers.load import Forecast


def request(width=64, height=64, steps=10, guidance=1.5, sources=()):
    return PictureRequest("a cat", width, height, steps, guidance, 1, sources)


def test_nothing_is_predicted_before_anything_is_known():
    """Without a picture made there is no forecast, rather than a wrong one."""
    assert Forecast().seconds(request()) is None


def test_a_forecast_repeats_what_was_seen():
    """The same request again is predicted to take as long as it did."""
    forecast = Forecast()
    forecast.learn(request(), {"encode": 1.0, "denoise": 2.0, "decode": 0.5})
    assert forecast.seconds(request()) == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("other", "seconds"),
    [
        (request(steps=20), 1 + 4 + 0.5),
        (request(guidance=1.0), 1 + 1 + 0.5),
        (request(width=128), 1 * 264 / 260 + 4 + 1.0),
        (request(sources=(pattern(8, 8),)), 1 * 4 / 260 + 2 + 0.5),
    ],
    ids=["steps", "guidance", "size", "sources"],
)
def test_a_forecast_follows_the_work(other, seconds):
    """Steps, guidance, size and sources change each stage by what they cost it."""
    forecast = Forecast()
    forecast.learn(request(), {"encode": 1.0, "denoise": 2.0, "decode": 0.5})
    assert forecast.seconds(other) == pytest.approx(seconds)


def test_newer_pictures_count_most():
    """A worker that has become slower is predicted to stay so."""
    forecast = Forecast()
    for seconds in [1.0] + [3.0] * 10:
        forecast.learn(request(), {"denoise": seconds})
    assert 2.9 < forecast.seconds(request()) < 3.0


def facts(text):
    """The facts in a load header."""
    return dict(part.split("=") for part in text.split(", "))


def test_the_load_is_told_in_health_and_in_every_answer():
    """In flight, waiting, capacity and predicted seconds, in JSON and as a header."""
    engine = FakeEngine(seconds=0.4)
    call = {"json": fields(size="64x64", num_inference_steps=10, n=2)}
    with running_fake(engine) as client:
        idle = client.get("/health")
        assert facts(idle.headers["x-turnout-load"]) == {
            "in_flight": "0",
            "waiting": "0",
            "capacity": "1",
            "predicted_seconds": "0.000",
        }
        first = client.post("/v1/images/generations", **call)
        assert facts(first.headers["x-turnout-load"])["in_flight"] == "0"
        threads = [
            threading.Thread(target=client.post, args=("/v1/images/generations",), kwargs=call)
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: client.get("/health").json()["waiting"] == 2, 5)
        busy = client.get("/health").json()
        assert (busy["in_flight"], busy["waiting"], busy["capacity"]) == (1, 2, 1)
        assert 1.6 < busy["predicted_seconds"] < 3.5
        assert metric(client, "turnout_worker_predicted_seconds") > 0
        refused = client.post("/v1/images/generations", json=fields(size="0x0"))
        assert facts(refused.headers["x-turnout-load"])["in_flight"] == "1"
        for thread in threads:
            thread.join(20)


def test_before_the_first_picture_the_seconds_are_left_out():
    """What is not known is null in the JSON and missing in the header."""
    engine = FakeEngine(seconds=1)
    with running_fake(engine) as client:
        call = {"json": fields(size="64x64")}
        thread = threading.Thread(target=client.post, args=("/v1/images/generations",), kwargs=call)
        thread.start()
        wait_until(lambda: client.get("/health").json()["in_flight"] == 1, 5)
        health = client.get("/health")
        assert health.json()["predicted_seconds"] is None
        assert "predicted_seconds" not in facts(health.headers["x-turnout-load"])
        thread.join(20)


def test_the_metrics_tell_stages_batches_speed_and_memory(split_worker, encoder):
    """After an edit, every number of the worker and of its encoder has a value."""
    call = {
        "data": fields(size="64x64", num_inference_steps=1, n=2),
        "files": {"image": ("a.png", png(pattern(64, 64)))},
    }
    assert split_worker.post("/v1/images/edits", **call).status_code == 200
    for stage in ("encode", "denoise", "decode"):
        name = f'turnout_worker_stage_seconds_count{{stage="{stage}",task="i2i"}}'
        assert metric(split_worker, name) >= 2
    assert metric(split_worker, "turnout_worker_batch_size_sum") >= 2
    for client, name in ((split_worker, "turnout_worker"), (encoder, "turnout_encoder")):
        assert metric(client, f"{name}_tokens_per_second") > 0
        assert metric(client, f"{name}_peak_memory_bytes") > 10**8
    assert metric(encoder, 'turnout_encoder_requests_total{task="i2i"}') >= 2
