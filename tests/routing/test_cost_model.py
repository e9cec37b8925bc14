"""How long a picture takes: learned from a few, not misled by odd ones, sane before the first."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.cost import Cost
from gateway.routing.cost_model import ENOUGH, PRIOR, WINDOW, CostModel

SMALL, LARGE = Cost(257, 512 * 512 * 8), Cost(4353, 2048 * 2048 * 50)
USUAL = Cost(1281, 1024 * 1024 * 30)
COSTS = st.builds(Cost, st.integers(2, 6000), st.integers(32 * 32, 2048 * 2048 * 100))


def truth(a, b, c):
    """Returns the true seconds of a cost."""
    return lambda cost: a + b * cost.ar_tokens + c * cost.pixel_steps


def mixed(rng):
    """Draws the cost of one of the pictures that people ask for."""
    side = rng.choice([512, 768, 1024, 1536, 2048])
    tokens = (side // 32) ** 2 + 1 + rng.choice([0, 256])
    return Cost(tokens, side * side * rng.choice([8, 20, 30, 50]))


def taught(seconds, rng, *, samples=WINDOW, noise=0.05, outliers=0.0, model=None):
    """Lets a model see pictures with noise, a share of which took ten times as long."""
    model = model or CostModel()
    for number in range(samples):
        cost = mixed(rng)
        odd = 10.0 if number < outliers * samples else 1.0
        model.learn(cost, seconds(cost) * odd * (1 + rng.uniform(-noise, noise)))
    return model


def test_before_the_first_sample_the_published_shape_holds():
    """A model that has seen nothing predicts what one large GPU needs, and refuses nothing."""
    model = CostModel()
    a, b, c = PRIOR
    assert pytest.approx(a + 100 * b + 1e6 * c) == model.seconds(Cost(100, 1_000_000))
    assert 20 < model.seconds(USUAL) < 60
    assert (0.0, False) == (model.least_seconds(USUAL), model.is_trained)
    assert "<CostModel 2 s + 0.0156 per token + 3.9e-07 per pixel and step>" == repr(model)


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 4.0, 100.0])
def test_one_sample_sets_the_scale(scale):
    """After a single picture the others are predicted in proportion to it."""
    model, before = CostModel(), CostModel()
    model.learn(USUAL, scale * before.seconds(USUAL))
    for cost in (SMALL, USUAL, LARGE):
        assert pytest.approx(scale * before.seconds(cost), rel=0.01) == model.seconds(cost)


TRUTHS = [
    (2.0, 0.0156, 3.9e-7),
    (0.5, 0.002, 1e-7),
    (5.0, 0.03, 2e-7),
    (1.0, 0.05, 1e-6),
    (10.0, 0.01, 4e-7),
    (0.02, 1e-5, 2e-9),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("true", TRUTHS)
def test_the_truth_is_recovered_from_noise_and_odd_ones(true, seed):
    """With noise, and a tenth of the pictures ten times as slow, predictions are within 10 %."""
    rng = random.Random(seed)
    model = taught(truth(*true), rng, outliers=0.1)
    for cost in (mixed(rng) for _ in range(30)):
        assert pytest.approx(truth(*true)(cost), rel=0.1) == model.seconds(cost)


@pytest.mark.parametrize("true", TRUTHS)
def test_the_coefficients_themselves_are_recovered(true):
    """Pictures that differ in one thing only are predicted within 10 % too."""
    rng = random.Random(1)
    model = CostModel()
    for number in range(WINDOW):
        cost = rng.choice([Cost(2, 1024), Cost(4000, 1024), Cost(2, 100_000_000)])
        odd = 10.0 if number < 0.1 * WINDOW else 1.0
        model.learn(cost, truth(*true)(cost) * odd * rng.uniform(0.95, 1.05))
    for cost in (Cost(0, 0), Cost(4000, 0), Cost(0, 100_000_000), Cost(4000, 100_000_000)):
        assert pytest.approx(truth(*true)(cost), rel=0.1) == model.seconds(cost)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(COSTS, st.floats(0, 1e5)), max_size=20), COSTS)
def test_every_prediction_is_positive_and_finite(samples, cost):
    """Whatever was seen, zeros and equal sizes included, a prediction is a number above 0."""
    model = CostModel()
    for seen, seconds in samples:
        model.learn(seen, seconds)
    assert 0 < model.seconds(cost) < 1e12
    assert 0 <= model.least_seconds(cost) <= model.seconds(cost) * 1e6


@settings(deadline=None, max_examples=50)
@given(st.floats(0.01, 1e4), st.integers(1, WINDOW), COSTS)
def test_equal_pictures_are_predicted_as_they_are(seconds, count, cost):
    """Samples of one size, of which no slope can be known, still predict that size."""
    model = CostModel()
    for _ in range(count):
        model.learn(cost, seconds)
    assert pytest.approx(seconds, rel=0.01) == model.seconds(cost)


def test_a_size_never_seen_is_predicted_in_proportion():
    """Where all samples are of one size, others follow the published shape at its scale."""
    model, before = CostModel(), CostModel()
    for _ in range(WINDOW):
        model.learn(USUAL, 3 * before.seconds(USUAL))
    for cost in (SMALL, LARGE):
        assert pytest.approx(3 * before.seconds(cost), rel=0.02) == model.seconds(cost)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(COSTS, st.floats(0.1, 1e3)), max_size=20), COSTS, st.data())
def test_more_work_is_never_predicted_to_take_less(samples, cost, data):
    """More tokens, or more pixels and steps, take at least as long."""
    model = CostModel()
    for seen, seconds in samples:
        model.learn(seen, seconds)
    more = Cost(
        cost.ar_tokens + data.draw(st.integers(0, 999)),
        cost.pixel_steps + data.draw(st.integers(0, 10**7)),
    )
    assert model.seconds(cost) <= model.seconds(more)


@pytest.mark.parametrize("factor", [0.2, 0.5, 2.0, 5.0])
def test_a_change_of_speed_is_followed(factor):
    """When all workers become faster or slower, as many samples as are remembered tell so."""
    rng = random.Random(2)
    before = truth(2.0, 0.0156, 3.9e-7)
    model = taught(before, rng)
    taught(lambda cost: factor * before(cost), rng, model=model)
    for cost in (SMALL, USUAL, LARGE):
        assert pytest.approx(factor * before(cost), rel=0.15) == model.seconds(cost)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(COSTS, st.floats(0.1, 1e3)), min_size=ENOUGH, max_size=80))
def test_the_least_is_never_above_what_was_seen(samples):
    """Every picture that is remembered took at least what is now taken to be the least."""
    model = CostModel()
    for cost, seconds in samples:
        model.learn(cost, seconds)
    assert model.is_trained
    for cost, seconds in samples[-WINDOW:]:
        assert model.least_seconds(cost) <= seconds * (1 + 1e-9)
