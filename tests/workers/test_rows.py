"""The form of a row on the wire."""

from workers.rows import Row, Sampling, generate_payload


def test_what_is_not_set_is_not_sent():
    """Seed, top-k and biases are sent only if there are any, and the cache key only for edits."""
    body = generate_payload(Row([1, 2], [[1, 2, 3]], 7))
    assert body == {
        "input_ids": [1, 2],
        "image_data": [{"image_grid_thw": [[1, 2, 3]]}],
        "sampling_params": {
            "temperature": 1.0,
            "top_p": 1.0,
            "max_new_tokens": 7,
            "ignore_eos": True,
        },
    }


def test_everything_set_is_sent():
    """The cache key of an edit is its sources' grids, in order."""
    sampling = Sampling(0.9, 0.75, 50, {3: -1e9})
    body = generate_payload(Row([1], [[1, 2, 3], [1, 4, 5], [1, 6, 7]], 7, 9, sampling), 2)
    params = body["sampling_params"]
    assert (params["top_k"], params["sampling_seed"]) == (50, 9)
    assert params["logit_bias"] == {"3": -1e9}
    assert body["extra_key"] == "1x2x3,1x4x5"
