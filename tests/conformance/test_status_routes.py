"""What SGLang says of itself: the routes that our gateway and our fakes rely on."""

from __future__ import annotations

from tests.conformance.asking import get, shape

MODEL = {"task_type": "TI2I", "supported_task_types": ["TI2I"]}


def test_health_of_a_diffusion_server(server, seen):
    """`/health` and `/health_generate` are a bare `ok`; `/liveness` too; metrics are off."""
    diffusion, name = server
    for path in ("/health", "/health_generate", "/liveness"):
        answer = get(diffusion, path)
        assert (200, {"status": "ok"}) == (answer.status_code, answer.json())
    seen(name, "`/health`, `/health_generate`, `/liveness`", '200, `{"status": "ok"}`')
    assert 404 == get(diffusion, "/metrics").status_code
    seen(name, "`/metrics` without `--enable-metrics`", "404")


def test_model_info_of_a_diffusion_server(server, seen):
    """`/model_info` says TI2I in both modes: the API does not tell what an edit will meet."""
    diffusion, name = server
    answer = get(diffusion, "/model_info")
    said = answer.json()
    assert MODEL == {key: said[key] for key in MODEL}
    assert {"model_path", "is_generation", "model_type", "architectures"} <= said.keys()
    assert said["has_image_understanding"] is True
    seen(name, "`/model_info`", shape(answer))
    seen(name, "`task_type` in `/model_info`", said["task_type"])


def test_models_of_a_diffusion_server(server, seen):
    """`/v1/models` lists one model with its task type and its native pipeline."""
    diffusion, name = server
    answer = get(diffusion, "/v1/models")
    [model] = answer.json()["data"]
    assert MODEL | {"pipeline_name": "GlmImagePipeline"} == {
        key: model[key] for key in (*MODEL, "pipeline_name")
    }
    seen(name, "`/v1/models`", shape(answer))


def test_server_info_of_a_diffusion_server(server, seen):
    """`/server_info` holds the version, and no word of the encoder."""
    diffusion, name = server
    answer = get(diffusion, "/server_info")
    assert {"model_path", "served_model_name", "tp_size", "dp_size", "version"} == set(
        answer.json()
    )
    assert answer.json()["version"] == "0.5.23"
    seen(name, "`/server_info`", shape(answer))


def test_health_of_the_encoder(fleet, seen):
    """The encoder's `/health` decodes a token each time, and its answer is empty."""
    before = fleet.encoder.text().count("Prefill batch")
    for path in ("/health", "/health_generate"):
        answer = get(fleet.encoder, path)
        assert (200, "") == (answer.status_code, answer.text)
    assert before + 2 <= fleet.encoder.text().count("Prefill batch")
    seen("encoder", "`/health`, `/health_generate`", "200, empty; each decodes one token")
    for path in ("/liveness", "/metrics"):
        assert 404 == get(fleet.encoder, path).status_code
    seen("encoder", "`/liveness`; `/metrics` without a flag", "404")


def test_what_the_encoder_says_of_itself(fleet, seen):
    """The encoder's `/model_info`, `/server_info`, `/v1/models` and `/v1/loads` answer."""
    info = get(fleet.encoder, "/model_info").json()
    assert ("glm_image", True) == (info["model_type"], info["has_image_understanding"])
    seen("encoder", "`/model_info`", f"200; `model_type` {info['model_type']}, no `task_type`")
    assert "task_type" not in info
    server = get(fleet.encoder, "/server_info").json()
    assert server["version"] == "0.5.23"
    seen("encoder", "`/server_info`", f"200; `version` and all its arguments ({len(server)} keys)")
    seen("encoder", "`/v1/models`", shape(get(fleet.encoder, "/v1/models")))
    load = get(fleet.encoder, "/v1/loads").json()["loads"][0]
    assert {"num_running_reqs", "num_waiting_reqs"} <= load.keys()
    seen("encoder", "`/v1/loads`", "200; per rank `num_running_reqs`, `num_waiting_reqs`, …")
