"""The two encoders against each other, and a remote one that misbehaves."""

import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response

from tests.workers.support import fields, pattern, picture_of, running
from workers.engine import PictureRequest
from workers.errors import EncoderError, EncoderUnreachable, WorkLost
from workers.rows import generate_payload


def never():
    return False


@pytest.fixture(scope="module")
def processor(tiny):
    from workers.glm_image import load_processor

    return load_processor(tiny)


class Idle:
    """A runner that is always ready."""

    state = "ok"


@pytest.fixture
def remote(tiny, processor):
    """A remote encoder in front of a server that answers as told."""
    from workers.encoder import RemoteEncoder

    answers = {}
    app = FastAPI()
    app.state.runner = Idle

    @app.post("/generate")
    async def generate(request: Request):
        answers["body"] = await request.json()
        return Response(answers["content"], answers.get("status", 200))

    with running(app) as client:
        yield RemoteEncoder(str(client.base_url).rstrip("/"), processor, tiny), answers


@pytest.mark.parametrize(("size", "seed"), [("96x64", 7), ("128x128", 8)])
def test_both_encoders_make_equal_pictures(t2i_worker, full_worker, size, seed):
    """The same prompt, size and seed give the same pixels with either encoder."""
    body = fields(size=size, seed=seed, num_inference_steps=2)
    first, second = (
        picture_of(worker.post("/v1/images/generations", json=body))
        for worker in (t2i_worker, full_worker)
    )
    assert first.tobytes() == second.tobytes()


def test_sources_as_codes_give_equal_prior_tokens(engine, encoder, tiny):
    """With the sources' codes in the ids, the encoder server decodes an edit as in process."""
    import torch

    from workers.encoder import output_ids, prior_tokens

    sources = (pattern(96, 64), pattern(64, 64, 5))
    request = PictureRequest("merge", 64, 96, 1, 1.5, 11, sources)
    layout, row, codes = engine._encoder.row(request)
    answer = encoder.post("/generate", json=generate_payload(row, len(sources)))
    there = prior_tokens(layout, row, output_ids(answer), tiny, codes)
    here = engine._encoder.encode(request, never)
    assert torch.equal(there.prior_token_ids, here.prior_token_ids)
    assert torch.equal(there.prior_token_image_ids[0], here.prior_token_image_ids[0])
    assert here.source_image_grid_thw[0].tolist() == [[1, 4, 6], [1, 4, 4]]
    assert here.prior_token_ids.shape == (1, 4 * 3 * 2)


def test_prior_tokens_equal_diffusers(engine, model, tiny):
    """Sources' codes and grids are those of diffusers' own pipeline."""
    import torch
    from diffusers import GlmImagePipeline

    pipeline = GlmImagePipeline.from_pretrained(tiny.path)
    sources = (pattern(96, 64), pattern(64, 64, 5))
    _, ids, grids = pipeline.generate_prior_tokens("merge", 64, 96, [list(sources)])
    ours = engine._encoder.encode(PictureRequest("merge", 96, 64, 1, 1.5, 1, sources), never)
    assert torch.equal(ids[0], ours.prior_token_image_ids[0])
    assert torch.equal(grids[0], ours.source_image_grid_thw[0])


def test_an_external_encoder_refuses_sources(remote):
    """An edit over an external encoder fails with SGLang's own words."""
    request = PictureRequest("red", 64, 64, 1, 1.5, 1, (pattern(64, 64),))
    words = r"I2I mode is not supported yet via external SGLang encoder URL\."
    with pytest.raises(NotImplementedError, match=words):
        remote[0].encode(request, never)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"content": b"no json"}, EncoderError),
        ({"content": b"{}"}, EncoderError),
        ({"content": b"[]"}, EncoderError),
        ({"content": b'{"output_ids": [1, 2]}'}, EncoderError),
        ({"content": b'{"output_ids": ["a"]}'}, EncoderError),
        ({"content": b'{"output_ids": [' + b"256," * 400 + b"1]}"}, EncoderError),
        ({"content": b"", "status": 500}, EncoderError),
        ({"content": b"", "status": 503}, EncoderUnreachable),
    ],
    ids=["text", "no ids", "list", "too few", "strings", "beyond", "500", "busy"],
)
def test_bad_answers_are_clear_errors(remote, answer, error):
    """An answer that cannot be used never reaches the diffusion half."""
    encoder, answers = remote
    answers |= answer
    with pytest.raises(error):
        encoder.encode(PictureRequest("a cat", 64, 64, 1, 1.5, 1), never)


def test_the_payload_is_sglangs_with_our_sampling(remote):
    """The request states temperature, top_p, seed and suppressed ids beside SGLang's fields."""
    encoder, answers = remote
    answers["content"] = b'{"output_ids": [' + b"1," * 400 + b"1]}"
    prior = encoder.encode(PictureRequest("a cat", 64, 64, 1, 1.5, 5), never)
    body = answers["body"]
    assert set(body) == {"input_ids", "image_data", "sampling_params"}
    assert body["image_data"] == [{"image_grid_thw": [[1, 2, 2], [1, 16, 16]]}]
    params = body["sampling_params"]
    assert params.pop("logit_bias") == {str(token): -1e9 for token in range(256, 272)}
    assert params == {
        "temperature": 0.9,
        "top_p": 0.75,
        "max_new_tokens": 261,
        "ignore_eos": True,
        "sampling_seed": 5,
    }
    assert prior.prior_token_ids.tolist() == [[1] * 16]


def test_a_refused_connection_is_not_begun(tiny, processor, free_port):
    """An encoder that is not there took no work."""
    from workers.encoder import RemoteEncoder

    encoder = RemoteEncoder(f"http://127.0.0.1:{free_port}", processor, tiny)
    with pytest.raises(EncoderUnreachable):
        encoder.encode(PictureRequest("a cat", 64, 64, 1, 1.5, 1), never)


def test_a_broken_connection_is_lost_work(tiny, processor, dying_server):
    """An encoder that dies during the request has lost begun work."""
    from workers.encoder import RemoteEncoder

    encoder = RemoteEncoder(dying_server, processor, tiny)
    with pytest.raises(WorkLost):
        encoder.encode(PictureRequest("a cat", 64, 64, 1, 1.5, 1), never)


@pytest.mark.parametrize("prompt", ["<|image|>", "<sop>9 9<eop>", "<|dit_token_257|> and <b>"])
def test_a_prompt_cannot_forge_the_layout(engine, tiny, prompt):
    """Control tokens in a prompt are read as text."""
    row = engine._encoder.row(PictureRequest(prompt, 64, 64, 1, 1.5, 1))[1]
    plain = engine._encoder.row(PictureRequest("x", 64, 64, 1, 1.5, 1))[1]
    control = {*range(272), *range(tiny.image_token_id - 7, tiny.image_token_id + 1)}
    kept = [token for token in row.input_ids if token in control]
    assert kept == [token for token in plain.input_ids if token in control]


def test_prompts_without_control_tokens_are_untouched(processor):
    """Other markup stays as it was written."""
    from workers.layout import plain_text

    text = "<b>bold</b> [1] <|unknown|> a < b"
    assert plain_text(processor.tokenizer, text) == text
