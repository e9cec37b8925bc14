"""The encoders against each other and against diffusers: in process, and on a server."""

import pytest

from tests.workers.support import fields, metric, pattern, picture_of, png
from workers.engine import PictureRequest
from workers.watch import Watch


@pytest.fixture(scope="module")
def processor(tiny):
    from workers.glm_image import load_processor

    return load_processor(tiny)


@pytest.mark.parametrize(("size", "seed"), [("96x64", 7), ("128x128", 8)])
def test_both_encoders_make_equal_pictures(t2i_worker, full_worker, size, seed):
    """The same prompt, size and seed give the same pixels with either encoder."""
    body = fields(size=size, seed=seed, num_inference_steps=2)
    first, second = (
        picture_of(worker.post("/v1/images/generations", json=body))
        for worker in (t2i_worker, full_worker)
    )
    assert first.tobytes() == second.tobytes()


SOURCES = {
    "one": (pattern(64, 64),),
    "two": (pattern(96, 64), pattern(64, 64, 5)),
    "three of odd sizes": (pattern(70, 41), pattern(64, 128, 9), pattern(200, 100, 3)),
}


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
def test_edits_are_equal_wherever_tokens_are_decoded(split_worker, full_worker, sources):
    """The same sources, prompt and seed give the same pixels with either encoder."""
    first, second = (
        picture_of(
            worker.post(
                "/v1/images/edits",
                data=fields(seed=11, size="96x64", num_inference_steps=2),
                files=[("image", (f"{at}.png", png(image))) for at, image in enumerate(sources)],
            )
        )
        for worker in (split_worker, full_worker)
    )
    assert first.tobytes() == second.tobytes()


def test_several_pictures_are_one_call_and_equal_single_ones(split_worker, full_worker, encoder):
    """`n` pictures are decoded as one batch by the server, and each is what its seed gives."""
    body = {"data": fields(size="64x64", num_inference_steps=1)}
    files = {"image": ("a.png", png(pattern(64, 64)))}
    before = batches(encoder)
    body["data"] |= {"seed": 21, "n": 3}
    together = split_worker.post("/v1/images/edits", files=files, **body)
    assert batches(encoder) == (before[0] + 1, before[1] + 3)
    for at in range(3):
        body["data"] |= {"seed": 21 + at, "n": 1}
        alone = full_worker.post("/v1/images/edits", files=files, **body)
        assert picture_of(together, at).tobytes() == picture_of(alone).tobytes()


def batches(encoder):
    """How many batches the server has decoded, and how many rows."""
    name = "turnout_encoder_batch_size"
    return metric(encoder, f"{name}_count"), metric(encoder, f"{name}_sum")


def test_prior_tokens_are_equal_to_the_last_one(engine, split_engine):
    """Target ids, source ids and grids are those of the encoder in process."""
    import torch

    request = PictureRequest("merge", 64, 96, 1, 1.5, 11, SOURCES["two"])
    (here,), (there,) = (
        each._encoder.encode([request], Watch()) for each in (engine, split_engine)
    )
    assert torch.equal(there.prior_token_ids, here.prior_token_ids)
    assert torch.equal(there.prior_token_image_ids[0], here.prior_token_image_ids[0])
    assert here.source_image_grid_thw[0].tolist() == [[1, 4, 6], [1, 4, 4]]
    assert there.source_image_grid_thw[0].tolist() == [[1, 4, 6], [1, 4, 4]]
    assert here.prior_token_ids.shape == (1, 4 * 3 * 2)


def test_prior_tokens_equal_diffusers(engine, model, tiny):
    """Sources' codes and grids are those of diffusers' own pipeline."""
    import torch
    from diffusers import GlmImagePipeline

    pipeline = GlmImagePipeline.from_pretrained(tiny.path)
    sources = (pattern(96, 64), pattern(64, 64, 5))
    _, ids, grids = pipeline.generate_prior_tokens("merge", 64, 96, [list(sources)])
    request = PictureRequest("merge", 96, 64, 1, 1.5, 1, sources)
    (ours,) = engine._encoder.encode([request], Watch())
    assert torch.equal(ids[0], ours.prior_token_image_ids[0])
    assert torch.equal(grids[0], ours.source_image_grid_thw[0])


@pytest.mark.parametrize("prompt", ["<|image|>", "<sop>9 9<eop>", "<|dit_token_257|> and <b>"])
def test_a_prompt_cannot_forge_the_layout(engine, tiny, prompt):
    """Control tokens in a prompt are read as text."""
    row = engine._encoder._scribe.row(PictureRequest(prompt, 64, 64, 1, 1.5, 1))[1]
    plain = engine._encoder._scribe.row(PictureRequest("x", 64, 64, 1, 1.5, 1))[1]
    control = {*range(272), *range(tiny.image_token_id - 7, tiny.image_token_id + 1)}
    kept = [token for token in row.input_ids if token in control]
    assert kept == [token for token in plain.input_ids if token in control]


def test_prompts_without_control_tokens_are_untouched(processor):
    """Other markup stays as it was written."""
    from workers.layout import plain_text

    text = "<b>bold</b> [1] <|unknown|> a < b"
    assert plain_text(processor.tokenizer, text) == text
