"""The autoregressive decoder against itself, and against transformers."""

import pytest

from tests.workers.support import pattern
from workers.engine import PictureRequest
from workers.errors import CallerLeft
from workers.rows import Row, Sampling


@pytest.fixture(scope="module")
def decoder(model):
    from workers.decode import Decoder

    return Decoder(model)


@pytest.fixture(scope="module")
def row_of(engine):
    """The row that the in-process encoder decodes for a request."""

    def build(prompt, width, height, *sources, seed=1):
        request = PictureRequest(prompt, width, height, 1, 1.5, seed, sources)
        return engine._encoder._scribe.row(request)[1]

    return build


@pytest.fixture(scope="module")
def mixed(row_of):
    """Rows of different lengths, grids, source counts and seeds."""
    return [
        row_of("a cat", 96, 64, seed=1),
        row_of("a much longer prompt about a dog", 64, 64, pattern(64, 64), seed=2),
        row_of("merge", 64, 96, pattern(96, 64), pattern(64, 128, 7), seed=3),
    ]


def test_batched_rows_equal_single_runs(decoder, mixed):
    """A row's tokens do not depend on its neighbours, whatever their lengths and grids."""
    assert decoder.decode(mixed) == [decoder.decode([row])[0] for row in mixed]
    assert [len(ids) for ids in decoder.decode(mixed)] == [row.max_new_tokens for row in mixed]


def test_seeds_belong_to_rows(decoder, row_of):
    """Same seed, same tokens, at any place in the batch; another seed or none, other tokens."""
    one, two = (row_of("a cat", 64, 64, pattern(64, 64), seed=seed) for seed in (1, 2))
    free = Row(one.input_ids, one.grids, one.max_new_tokens, None, Sampling())
    first, second, again, third, fourth = decoder.decode([one, two, one, free, free])
    assert first == again
    assert first != second
    assert third != fourth


@pytest.mark.parametrize("sources", [(), (pattern(64, 64),), (pattern(96, 64), pattern(64, 64))])
def test_greedy_equals_transformers(engine, model, decoder, sources):
    """Greedy tokens are those of transformers' own generate(), with pixels for the sources."""
    from workers.layout import lay_out

    encoder = engine._encoder
    request = PictureRequest("a red door", 96, 64, 1, 1.5, 0, sources)
    layout, row, _ = encoder._scribe.row(request)
    bias = dict.fromkeys(range(256, 272), -1e9)
    greedy = Row(row.input_ids, row.grids, row.max_new_tokens, 0, Sampling(0.0, logit_bias=bias))
    raw = lay_out(encoder._scribe._processor, request, 8192)
    expected = model.generate(
        input_ids=raw.input_ids[None],
        attention_mask=(raw.input_ids[None] >= 0).long(),
        image_grid_thw=raw.grids,
        pixel_values=raw.pixel_values,
        do_sample=False,
        temperature=None,
        top_p=None,
        max_new_tokens=layout.max_new_tokens,
    )[0, len(raw.input_ids) :]
    assert expected.tolist() == decoder.decode([greedy])[0]


def test_suppressed_ids_never_come(decoder, row_of):
    """Ids with the lowest bias are not drawn, at any temperature."""
    row = row_of("a cat", 64, 64, pattern(64, 64))
    bias = {token: -1e9 for token in range(272) if token not in (5, 6)}
    ids = [row.input_ids, row.grids, row.max_new_tokens, 1]
    for temperature in (0.0, 1.0, 5.0):
        (tokens,) = decoder.decode([Row(*ids, Sampling(temperature, logit_bias=bias))])
        assert set(tokens) <= {5, 6}


def test_top_k_1_and_tiny_top_p_are_greedy(decoder, row_of):
    """Keeping one candidate only is the same as greedy."""
    row = row_of("a cat", 64, 64, pattern(64, 64))
    ids = [row.input_ids, row.grids, row.max_new_tokens, 1]
    settings = [Sampling(0.0), Sampling(1.0, top_k=1), Sampling(1.0, top_p=1e-6)]
    greedy, top_k, top_p = decoder.decode([Row(*ids, setting) for setting in settings])
    assert greedy == top_k == top_p


def test_draws_follow_the_distribution():
    """Over many seeds, tokens come as often as their probabilities say."""
    import torch

    from workers.sampling import Sampler

    weights = torch.tensor([0.5, 0.3, 0.15, 0.05])
    rows = [Row([0], [[1, 1, 1]], 1, seed, Sampling(1.0, 0.9)) for seed in range(4000)]
    sampler = Sampler(rows, 1, 4, torch.device("cpu"))
    drawn = sampler.draw(weights.log().expand(4000, 4), 0).flatten()
    share = torch.bincount(drawn, minlength=4) / 4000
    assert share[3] == 0
    expected = torch.tensor([0.5, 0.3, 0.15]) / 0.95
    assert torch.allclose(share[:3], expected, atol=0.03)


def test_end_token_ends_a_row(decoder, row_of):
    """Without ignore_eos a row ends with its first end token, and its neighbours go on."""
    row = row_of("a cat", 64, 64, pattern(64, 64))
    ids = [row.input_ids, row.grids, row.max_new_tokens, 1]
    only_end = {token: -1e9 for token in range(272) if token != 257}
    first, second = decoder.decode(
        [Row(*ids, Sampling(logit_bias=only_end, ignore_eos=False)), Row(*ids, Sampling())]
    )
    assert first == [257]
    assert len(second) == row.max_new_tokens


def test_the_decoder_stops_before_the_next_step(decoder, row_of):
    """What is raised before a step ends the work; it is given the tokens so far."""
    row = row_of("a cat", 64, 64)
    (expected,) = decoder.decode([row])
    seen = []

    def before_step(done, tokens):
        seen.append(tokens.tolist())
        if done == 3:
            raise CallerLeft

    with pytest.raises(CallerLeft):
        decoder.decode([row], before_step)
    assert seen == [[expected[:done]] for done in range(4)]
