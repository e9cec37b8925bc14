"""The worker's HTTP face, with an engine that has no model."""

import socket

import pytest

from tests.workers.support import colours, error_of, fields, picture_of, running_fake
from workers import FakeEngine, ImageLimits, PictureRequest, fake_colours


@pytest.fixture(scope="module")
def client():
    """A worker for both tasks."""
    with running_fake(FakeEngine(limits=ImageLimits(64, 512))) as client:
        yield client


def generate(client, **more):
    return client.post("/v1/images/generations", json=fields(**more))


def test_prompt_and_seed_arrive(client):
    """The picture is that of the prompt and the seed sent."""
    image = picture_of(generate(client, size="96x64", seed=5))
    assert colours(image) == fake_colours(PictureRequest("a cat", 96, 64, 30, 1.5, 5))
    assert (image.size, image.format) == ((96, 64), "PNG")


def test_answer_has_the_shape_of_sglang(client):
    """The answer has SGLang's keys, and no usage with the encoder in process."""
    answer = generate(client, size="64x64").json()
    keys = {"id", "created", "data", "peak_memory_mb", "inference_time_s", "usage"}
    assert set(answer) == keys
    assert answer["usage"] is None
    (item,) = answer["data"]
    assert set(item) == {"b64_json", "url", "revised_prompt", "file_path", "resize"}


def test_n_counts_seeds_up(client):
    """`n` pictures have the seeds s, s+1, …, in this order."""
    answer = generate(client, size="96x64", seed=5, n=3)
    seen = [colours(picture_of(answer, number)) for number in range(3)]
    expected = [
        fake_colours(PictureRequest("a cat", 96, 64, 30, 1.5, 5 + number)) for number in range(3)
    ]
    assert seen == expected


def test_without_seed_pictures_differ(client):
    """Two requests without a seed give two pictures."""
    first, second = (picture_of(generate(client, size="96x64")) for _ in range(2))
    assert colours(first)[1] != colours(second)[1]


@pytest.mark.parametrize(
    ("sent", "size"),
    [
        ({"size": "100x75"}, (100, 75)),
        ({"size": "1x1"}, (1, 1)),
        ({"width": 70, "height": 65}, (70, 65)),
        ({"size": "64x64", "width": 96, "height": 32}, (96, 32)),
        ({}, (512, 512)),
    ],
)
def test_sizes_are_exact(client, sent, size):
    """The picture has exactly the size asked for; none asked: 1024 or the model's largest."""
    assert picture_of(generate(client, **sent)).size == size


@pytest.mark.parametrize(
    "sent",
    [
        {"size": "0x64"},
        {"size": "64"},
        {"size": "auto"},
        {"size": "513x64"},
        {"size": "-1x5"},
        {"width": 64},
        {"width": 10**30, "height": 5},
        {"response_format": "url"},
        {"response_format": None},
    ],
)
def test_bad_requests_are_400_with_a_sentence(client, sent):
    """A size or response format that cannot be served is 400 with a sentence."""
    answer = generate(client, **sent)
    assert answer.status_code == 400
    assert error_of(answer)["type"] == "invalid_request_error"
    assert error_of(answer)["param"] in ("size", *sent)


@pytest.mark.parametrize(
    "sent",
    [
        {"prompt": None},
        {"n": 0},
        {"n": 11},
        {"seed": -1},
        {"num_inference_steps": 0},
        {"output_format": "gif"},
        {"output_compression": 101},
    ],
)
def test_bad_fields_are_422_and_not_echoed(client, sent):
    """A field outside its bounds is 422, and the answer does not repeat what was sent."""
    answer = generate(client, **({"prompt": "secret words"} | sent))
    assert answer.status_code == 422
    assert "secret words" not in answer.text
    assert [error_of(answer)["param"]] == list(sent)


def test_a_lone_surrogate_is_the_callers_fault(client):
    """A prompt that is no text is refused and does not break the answer."""
    body = b'{"prompt": "\\ud800", "response_format": "b64_json"}'
    headers = {"content-type": "application/json"}
    answer = client.post("/v1/images/generations", content=body, headers=headers)
    assert answer.status_code == 422


def test_unknown_fields_are_ignored(client):
    """SGLang's other fields do no harm."""
    assert generate(client, size="64x64", enable_teacache=True).status_code == 200


@pytest.mark.parametrize(("asked", "kind"), [(None, "JPEG"), ("jpg", "JPEG"), ("webp", "WEBP")])
def test_output_formats(client, asked, kind):
    """The format asked for is the format answered; JPEG without a word, as SGLang."""
    assert picture_of(generate(client, size="64x48", output_format=asked)).format == kind


@pytest.mark.parametrize("asked", [{"output_compression": 1}, {"output_quality": "low"}])
def test_quality_is_heard(client, asked):
    """Both of SGLang's names for the quality make the JPEG smaller."""
    bodies = [
        generate(client, size="512x512", seed=1, output_format="jpeg", **more)
        for more in (asked, {"output_compression": 100})
    ]
    small, large = (len(body.json()["data"][0]["b64_json"]) for body in bodies)
    assert small < large


def test_a_negative_prompt_is_ignored_and_said(client):
    """GLM-Image has no negative prompt: the answer names it as ignored."""
    answer = generate(client, size="64x64", negative_prompt="dogs")
    assert answer.headers["x-turnout-ignored"] == "negative_prompt"
    assert "x-turnout-ignored" not in generate(client, size="64x64").headers


def test_status_routes_tell_what_the_worker_can(client):
    """Tasks, capacity, encoder and limits are told, and never a path."""
    info = client.get("/model_info").json()
    assert info["task_type"] == "TI2I"
    assert (info["tasks"], info["encoder"], info["capacity"]) == (["t2i", "i2i"], "in-process", 1)
    assert info["image_limits"]["max_side"] == 512
    health = client.get("/health").json()
    assert health | {"in_flight": 0} == {
        "status": "ok",
        "tasks": ["t2i", "i2i"],
        "capacity": 1,
        "in_flight": 0,
        "waiting": 0,
        "predicted_seconds": 0,
        "encoder": "in-process",
    }
    for path in ("/liveness", "/health_generate", "/v1/models", "/server_info"):
        assert client.get(path).status_code == 200
    names = [line for line in client.get("/metrics").text.splitlines() if line[0] != "#"]
    assert names
    assert all(name.startswith("turnout_") for name in names)


def test_unknown_routes_and_methods_have_the_envelope(client):
    """Even what is no route of ours is answered in OpenAI's envelope."""
    assert error_of(client.get("/v1/nowhere"))["code"] == "not_found"
    assert error_of(client.get("/v1/images/edits"))["code"] == "method_not_allowed"


def test_half_a_body_is_nobodys_error(client, caplog):
    """A caller that leaves in the middle of its body leaves no traceback behind."""
    head = (
        "POST /v1/images/edits HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n"
        "content-type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
    )
    with socket.create_connection((client.base_url.host, client.base_url.port)) as sock:
        sock.sendall(head.encode())
    assert generate(client, size="64x64").status_code == 200
    assert "Traceback" not in caplog.text
