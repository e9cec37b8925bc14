"""The tiny checkpoint and what is read from a checkpoint."""

import json
import shutil

import pytest

from workers.checkpoint import NEVER, read_checkpoint
from workers.errors import CheckpointError


def contents(directory):
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def test_equal_seeds_give_equal_bytes(tiny, tmp_path):
    """The checkpoint is byte-identical for a seed, and another seed gives other weights."""
    from workers.tiny import write_tiny

    write_tiny(tmp_path / "again")
    write_tiny(tmp_path / "other", seed=1)
    expected = contents(tiny.path)
    assert contents(tmp_path / "again") == expected
    other = contents(tmp_path / "other")
    assert {name for name in expected if other[name] != expected[name]} == {
        name for name in expected if name.endswith(".safetensors")
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "other"]


def test_facts_of_the_checkpoint(tiny):
    """Limits, ids and sampling are read from the JSON files."""
    assert (tiny.name, tiny.limits.min_side, tiny.limits.max_side) == ("glm-image-tiny", 64, 512)
    assert (tiny.codebook_size, tiny.start_token_id, tiny.end_token_id) == (256, 256, 257)
    assert (tiny.sampling.temperature, tiny.sampling.top_p) == (0.9, 0.75)
    assert tiny.sampling.logit_bias == dict.fromkeys(range(256, 272), NEVER)


def test_sglang_knows_the_libraries(tiny):
    """The index names transformers for the two parts that SGLang loads from it."""
    index = json.loads((tiny.path / "model_index.json").read_text())
    assert {index["processor"][0], index["vision_language_encoder"][0]} == {"transformers"}


def test_real_files_have_defaults(tiny, tmp_path):
    """Facts that a checkpoint leaves out are those of the real model."""
    shutil.copytree(tiny.path, tmp_path / "bare")
    (tmp_path / "bare/processor/processor_config.json").write_text("{}")
    (tmp_path / "bare/vision_language_encoder/config.json").write_text("{}")
    (tmp_path / "bare/vision_language_encoder/generation_config.json").write_text("{}")
    bare = read_checkpoint(tmp_path / "bare")
    assert (bare.limits.min_side, bare.limits.max_side) == (512, 2048)
    assert (bare.codebook_size, bare.vocabulary_size) == (16384, 168064)
    assert set(bare.sampling.logit_bias) == set(range(16384, 16512))


def missing(path):
    shutil.rmtree(path)


def no_index(path):
    (path / "model_index.json").unlink()


def other_model(path):
    (path / "model_index.json").write_text('{"_class_name": "FluxPipeline"}')


def no_vae(path):
    shutil.rmtree(path / "vae")


def broken_json(path):
    (path / "vision_language_encoder" / "config.json").write_text("{")


@pytest.mark.parametrize("harm", [missing, no_index, other_model, no_vae, broken_json])
def test_broken_checkpoints_are_named(tiny, tmp_path, harm):
    """What is no checkpoint is refused in one sentence."""
    path = tmp_path / "glm-image-broken"
    shutil.copytree(tiny.path, path)
    harm(path)
    with pytest.raises(CheckpointError, match=r"^[^\n]+\.$"):
        read_checkpoint(path)
