"""The third kind of worker: sources are encoded here, tokens decoded elsewhere."""

import shutil

import pytest

from tests.workers.support import fields, pattern, picture_of, png, running_split, wait_until

# Everything a worker of the third kind may hold, by part and by the tensor's first names.
ALLOWED = {
    "text_encoder": ("shared", "encoder"),
    "transformer": (
        "image_projector",
        "glyph_projector",
        "prior_token_embedding",
        "prior_projector",
        "time_condition_embed",
        "transformer_blocks",
        "norm_out",
        "proj_out",
    ),
    "vae": ("encoder", "decoder"),
    "vision": ("visual", "vqmodel"),
}


def modules_in(root):
    """Every torch module that can be reached from an object of ours, by identity."""
    import torch

    found, open_objects, seen = {}, [root], set()
    while open_objects:
        each = open_objects.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.nn.Module):
            found[id(each)] = each
        elif type(each).__module__.partition(".")[0] in ("workers", "diffusers"):
            slots = getattr(type(each), "__slots__", ())
            values = [getattr(each, name) for name in slots] if slots else vars(each).values()
            open_objects += [value for value in values if value is not None]
    return list(found.values())


def parts_of(engine):
    """The loaded modules by the name of their part, and the names of their tensors."""
    names = {
        "T5EncoderModel": "text_encoder",
        "GlmImageTransformer2DModel": "transformer",
        "AutoencoderKL": "vae",
        "SourceEncoder": "vision",
    }
    return {names[type(each).__name__]: list(each.state_dict()) for each in modules_in(engine)}


def test_only_the_allowed_tensors_are_loaded(split_engine):
    """Tower, quantiser, glyph encoder, transformer and VAE are loaded, and nothing else."""
    parts = parts_of(split_engine)
    assert set(parts) == set(ALLOWED)
    for part, names in parts.items():
        assert names
        assert [name for name in names if name.split(".")[0] not in ALLOWED[part]] == []
        assert [name for name in names if "language_model" in name or "lm_head" in name] == []


def test_the_loaded_tensors_are_the_checkpoints(split_engine, model):
    """Tower and quantiser have the very values that the whole model has."""
    import torch

    (vision,) = [each for each in modules_in(split_engine) if hasattr(each, "vqmodel")]
    whole = model.state_dict()
    loaded = vision.state_dict()
    assert {f"model.{name}" for name in loaded} == {
        name for name in whole if name.startswith(("model.visual.", "model.vqmodel."))
    }
    assert all(torch.equal(tensor, whole[f"model.{name}"]) for name, tensor in loaded.items())


@pytest.fixture
def stripped(tiny, tmp_path):
    """The checkpoint without a single tensor of the language model in its files."""
    from safetensors.torch import load_file, save_file

    from workers.checkpoint import read_checkpoint

    path = tmp_path / "glm-image-stripped"
    shutil.copytree(tiny.path, path)
    file = path / "vision_language_encoder" / "model.safetensors"
    kept = {
        name: tensor
        for name, tensor in load_file(file).items()
        if name.startswith(("model.visual.", "model.vqmodel."))
    }
    save_file(kept, file, metadata={"format": "pt"})
    return read_checkpoint(path)


def test_edits_work_without_the_language_models_weights(stripped, encoder_url, full_worker):
    """A worker whose files hold no language model makes the same edit as one with all of it."""
    call = {
        "data": fields(seed=4, num_inference_steps=1),
        "files": {"image": ("a.png", png(pattern(64, 64)))},
    }
    with running_split(stripped, encoder_url) as worker:
        split = picture_of(worker.post("/v1/images/edits", **call))
    assert split.tobytes() == picture_of(full_worker.post("/v1/images/edits", **call)).tobytes()


def test_a_missing_tensor_of_the_tower_is_not_made_up(stripped):
    """A tower that is not all there does not load: random weights would look like a bad model."""
    from safetensors.torch import load_file, save_file

    from workers.glm_image import load_engine

    file = stripped.path / "vision_language_encoder" / "model.safetensors"
    tensors = load_file(file)
    tensors.pop(next(name for name in tensors if "visual.blocks" in name))
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(RuntimeError, match="lacks 1 tensors"):
        load_engine(stripped, ("http://127.0.0.1:9",), "cpu")


def test_a_text_worker_needs_no_file_of_the_autoregressive_half(tiny, tmp_path):
    """With a URL and text alone, the weights of tower and language model may even be missing."""
    from workers.checkpoint import read_checkpoint
    from workers.glm_image import load_engine

    path = tmp_path / "glm-image-half"
    shutil.copytree(tiny.path, path)
    (path / "vision_language_encoder" / "model.safetensors").unlink()
    engine = load_engine(read_checkpoint(path), ("http://127.0.0.1:9",), "cpu", ("t2i",))
    engine.warm_up()
    assert set(parts_of(engine)) == set(ALLOWED) - {"vision"}


def test_the_worker_declares_what_it_serves(split_worker):
    """Both tasks are told, and that the encoder is elsewhere and answers."""
    info = split_worker.get("/model_info").json()
    assert (info["task_type"], info["tasks"], info["encoder"]) == (
        "TI2I",
        ["t2i", "i2i"],
        "external",
    )
    wait_until(lambda: split_worker.get("/health").json()["encoder"] == "ok", 5)


def test_text_works_as_well(split_worker, full_worker):
    """A worker of the third kind makes the same picture from text."""
    body = fields(size="64x64", seed=5, num_inference_steps=1)
    first, second = (
        picture_of(worker.post("/v1/images/generations", json=body))
        for worker in (split_worker, full_worker)
    )
    assert first.tobytes() == second.tobytes()
