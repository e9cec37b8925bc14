"""JSON and multipart are two spellings of one request."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.inspection import IMAGE_FIELDS, Face
from gateway.routing.request import Task, Upload
from tests.routing.builders import read, read_form

TEXTS = st.text(min_size=1, max_size=20).filter(str.strip)
SCALARS = st.fixed_dictionaries(
    {"prompt": TEXTS},
    optional={
        "negative_prompt": TEXTS,
        "model": TEXTS,
        "n": st.integers(1, 10),
        "seed": st.integers(0, 2**32 - 1),
        "num_inference_steps": st.integers(1, 200),
        "guidance_scale": st.floats(0, 20, allow_nan=False),
        "output_compression": st.integers(0, 100),
        "output_format": st.sampled_from(["png", "jpeg", "webp"]),
        "response_format": st.just("b64_json"),
        "size": st.sampled_from(["auto", "512x512", " 1024 X 768 "]),
        "user": TEXTS,
    },
)
BASE64 = st.binary(min_size=1, max_size=6).map(lambda data: data.hex())
IMAGES = st.lists(st.tuples(st.sampled_from(IMAGE_FIELDS), BASE64), max_size=4)


@settings(deadline=None)
@given(SCALARS, IMAGES, st.randoms(use_true_random=False), st.sampled_from(["", "[]", "[0]"]))
def test_json_and_form_give_the_same_request(scalars, images, random, brackets):
    """The same request as JSON and as a form has the same task, scalars and images."""
    in_json = [*scalars.items(), *images]
    in_form = [(name, str(value)) for name, value in scalars.items()]
    in_form += [(field + brackets, text) for field, text in images]
    order = list(range(len(in_json)))
    random.shuffle(order)
    as_json = read(*(in_json[at] for at in order))
    as_form = read_form(*(in_form[at] for at in order))
    assert as_json == as_form
    assert (Task.I2I if images else Task.T2I) is as_json.task


@settings(deadline=None)
@given(SCALARS, IMAGES)
def test_a_file_counts_as_the_text_that_stands_for_it(scalars, images):
    """A picture sent as a file part leads to the same task and count as one sent as text."""
    as_text = read(*scalars.items(), *images)
    parts = [(field, Upload(text.encode(), "a.png")) for field, text in images]
    as_file = read_form(*((name, str(v)) for name, v in scalars.items()), *parts)
    without = {"sources": ()}
    assert dataclasses.replace(as_text, **without) == dataclasses.replace(as_file, **without)
    assert len(as_text.sources) == len(as_file.sources)


@settings(deadline=None)
@given(SCALARS, IMAGES.filter(bool))
def test_the_route_does_not_change_what_is_asked_for(scalars, images):
    """One request is read alike on every route that takes it."""
    entries = (*scalars.items(), *images)
    simple = read(*entries, face=Face.GENERATE)
    assert simple == read(*entries, face=Face.GENERATIONS) == read(*entries, face=Face.EDITS)
