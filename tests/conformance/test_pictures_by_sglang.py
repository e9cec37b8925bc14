"""What SGLang's picture routes answer, good and bad, in both modes."""

from __future__ import annotations

import base64

import pytest

from tests.conformance.asking import FIELDS, edit, first, generate, get, post, shape
from tests.support.pictures import picture

ANSWER = {"id", "created", "data", "peak_memory_mb", "inference_time_s", "usage"}
DATUM = {"b64_json", "url", "revised_prompt", "file_path", "resize"}


def test_the_shape_of_a_picture(server, seen):
    """A T2I answer has the members that our gateway reads, and names no file."""
    diffusion, name = server
    answer = generate(diffusion)
    body = answer.json()
    assert (ANSWER, DATUM) == (set(body), set(body["data"][0]))
    assert (None, None, "64x64") == tuple(
        body["data"][0][key] for key in ("url", "file_path", "resize")
    )
    seen(name, "T2I", shape(answer))


def test_usage_tells_the_modes_apart(fleet, seen):
    """`usage` is null with the encoder in process, and counts tokens with an external one."""
    assert generate(fleet.in_process).json()["usage"] is None
    usage = generate(fleet.external).json()["usage"]
    # 64x64: a preview grid of 16x16, the target's grid of 2x2 and one more.
    assert (261, 1) == (usage["completion_tokens"], usage["image_count"])
    seen("in process (mended)", "`usage` of T2I", "null")
    seen("external", "`usage` of T2I", "token counts, 261 completion tokens for 64x64")


def test_a_seed(fleet, seen):
    """A seed decides the picture in process only: a stock encoder server does not heed it."""
    again, other = ({"seed": seed} for seed in (7, 8))
    same = b64(generate(fleet.in_process))
    assert same == b64(generate(fleet.in_process, **again))
    assert same != b64(generate(fleet.in_process, **other))
    seen("in process (mended)", "T2I, the same seed twice", "the same picture")
    assert b64(generate(fleet.external)) != b64(generate(fleet.external, **again))
    seen("external", "T2I, the same seed twice", "two pictures: its encoder does not heed it")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"size": "100x70"}, ("png", 100, 70)),
        ({"size": "16x16"}, ("png", 16, 16)),
        ({"size": None, "width": 96, "height": 64}, ("png", 96, 64)),
        ({"output_format": None}, ("jpeg", 64, 64)),
        ({"output_format": "webp"}, ("webp", 64, 64)),
    ],
    ids=["off the step", "tiny", "width and height", "default format", "webp"],
)
def test_sizes_and_formats(server, seen, fields, expected):
    """Sizes are exact, also off the step; the default format is JPEG."""
    diffusion, name = server
    assert expected == first(generate(diffusion, **fields))
    asked = ", ".join(f"{key} {value or 'missing'}" for key, value in fields.items())
    seen(name, f"T2I, {asked}", "200, {} {}x{}".format(*expected))


BAD = {
    "no prompt": ({"prompt": None}, 422),
    "size `abc`": ({"size": "abc"}, 400),
    "size `auto`": ({"size": "auto"}, 400),
    "no response_format": ({"response_format": None}, 400),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_fields(server, seen, what):
    """What is wrong with a field is a 400 or a 422 with `detail`, before any work."""
    diffusion, name = server
    fields, status = BAD[what]
    answer = generate(diffusion, **fields)
    assert (status, {"detail"}) == (answer.status_code, set(answer.json()))
    seen(name, f"T2I, {what}", shape(answer))


def test_bodies_and_routes_that_are_none(server, seen):
    """Broken JSON is 422, an unknown route 404, a wrong method 405, each with `detail`."""
    diffusion, name = server
    head = {"content-type": "application/json"}
    broken = post(diffusion, "/v1/images/generations", content=b"{", headers=head)
    assert 422 == broken.status_code
    seen(name, "T2I, broken JSON", shape(broken))
    unknown = post(diffusion, "/v1/images/variations")
    assert (404, {"detail": "Not Found"}) == (unknown.status_code, unknown.json())
    seen(name, "an unknown route", shape(unknown))
    wrong = get(diffusion, "/v1/images/generations")
    assert (405, {"detail": "Method Not Allowed"}) == (wrong.status_code, wrong.json())
    seen(name, "a wrong method", shape(wrong))


def test_an_edit_without_a_picture(server, seen):
    """An edit that has no picture is 422, as a form of either kind."""
    diffusion, name = server
    fields = {key: str(value) for key, value in FIELDS.items()}
    file = {"other": ("a.png", picture(), "image/png")}
    for call in ({"data": fields}, {"data": fields, "files": file}):
        answer = post(diffusion, "/v1/images/edits", **call)
        assert (422, {"detail"}) == (answer.status_code, set(answer.json()))
        seen(name, "an edit without a picture", shape(answer))
    wrong = edit(diffusion, size="abc")
    assert 400 == wrong.status_code
    seen(name, "an edit, size `abc`", shape(wrong))


def test_a_picture_that_is_none(server, seen):
    """A picture that cannot be decoded is the same plain 500 as every failure of the pipeline."""
    diffusion, name = server
    answer = edit(diffusion, b"no picture")
    assert (500, "Internal Server Error") == (answer.status_code, answer.text)
    seen(name, "an edit, picture undecodable", shape(answer))


def test_edits_in_process(fleet, seen):
    """Mended, SGLang in process edits one picture and two, by default in the first one's size."""
    assert ("png", 64, 64) == first(edit(fleet.in_process))
    two = picture(64, 64), picture(96, 64)
    assert ("png", 64, 64) == first(edit(fleet.in_process, *two, name="image[]"))
    assert ("png", 96, 64) == first(edit(fleet.in_process, picture(96, 64), size=None))
    name = "in process (mended)"
    seen(name, "an edit of one picture, of two as `image[]`", "200, a PNG of the size asked")
    seen(name, "an edit without size", "200, the size of the first picture")
    edited = edit(fleet.in_process, picture(64, 64, (0, 0, 255)))
    assert edited.json()["data"][0]["b64_json"] != b64(edit(fleet.in_process))
    seen(name, "`usage` of an edit", "null")
    assert edited.json()["usage"] is None


def b64(answer):
    """Returns the first picture of an answer, after a look that it is base64."""
    data = answer.json()["data"][0]["b64_json"]
    assert base64.b64decode(data, validate=True)
    return data
