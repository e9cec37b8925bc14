"""Where an input image may hide, what counts as none, and what is refused."""

from __future__ import annotations

import pytest

from gateway.errors import GatewayError, InvalidRequest, UnusableImage
from gateway.routing.inspection import IMAGE_FIELDS, Face
from gateway.routing.request import ImageSource, Payload, Task, Upload
from tests.routing.builders import LIMITS, inspect, read, read_form

B64 = "iVBORw0KGgo="
DATA = f"data:image/png;base64,{B64}"
PICTURE = Upload(b"picture", "a.png")
PROMPT = ("prompt", "make it blue")


@pytest.mark.parametrize("face", [Face.GENERATE, Face.GENERATIONS])
def test_without_an_image_the_task_is_text_to_image(face):
    """A request without an input image is T2I, and its evidence says so."""
    request = read(PROMPT, face=face)
    assert (Task.T2I, "no input image", ()) == (request.task, request.evidence, request.sources)


@pytest.mark.parametrize("field", IMAGE_FIELDS)
@pytest.mark.parametrize("face", list(Face))
@pytest.mark.parametrize("is_first", [True, False])
def test_an_image_counts_in_every_place_before_or_after_the_prompt(field, face, is_first):
    """An input image makes the request I2I wherever it stands, in every order (B01, B04)."""
    entries = [(field, DATA), PROMPT] if is_first else [PROMPT, (field, DATA)]
    request = read(*entries, face=face)
    assert (Task.I2I, (ImageSource(field, DATA),)) == (request.task, request.sources)
    assert f"1 input image in {field}" == request.evidence


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (["image[]", "image[]"], ["image", "image"]),
        (["image[]"], ["image"]),
        (["image[0]", "image[1]"], ["image", "image"]),
        (["image", "image[]"], ["image", "image"]),
        (["images[]", "url[]"], ["images", "url"]),
        (["input_references[12]"], ["input_references"]),
    ],
)
def test_bracketed_names_are_the_same_place(names, fields):
    """`image[]` and `image[0]` are read as `image`, each part once and in order (B02)."""
    parts = [Upload(b"%d" % number, "a.png") for number in range(len(names))]
    request = read_form(PROMPT, *zip(names, parts, strict=True), face=Face.EDITS)
    expected = tuple(
        ImageSource(field, part.data) for field, part in zip(fields, parts, strict=True)
    )
    assert (Task.I2I, expected) == (request.task, request.sources)


@pytest.mark.parametrize("name", ["image[a]", "image[][]", "image[", "[]", "Image", "image[-1]"])
def test_other_brackets_are_no_place_of_an_image(name):
    """A name that only resembles an image field is refused, not guessed."""
    with pytest.raises(InvalidRequest) as caught:
        read_form(PROMPT, (name, PICTURE))
    assert ("unsupported_parameter", name) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    ("field", "value", "count"),
    [
        ("images", [{"image_url": DATA}], 1),
        ("image", DATA, 1),
        ("image", B64, 1),
        ("image", [DATA, DATA], 2),
        ("images", [{"image_url": {"url": DATA}}], 1),
        ("images", [{"b64_json": B64}], 1),
        ("image", {"url": DATA}, 1),
        ("image_url", {"url": DATA, "detail": "high"}, 1),
        ("input_references", [{"type": "image_url", "image_url": {"url": DATA}}], 1),
        ("images", [[DATA], [[DATA, DATA]]], 3),
        ("images", [DATA, None, "", {"b64_json": DATA}], 2),
        ("image", {"image_url": DATA, "b64_json": B64}, 2),
        ("image", {"url": {"url": {"url": DATA}}}, 1),
    ],
)
@pytest.mark.parametrize("face", list(Face))
def test_every_json_shape_of_an_image_is_read(face, field, value, count):
    """Texts, objects and lists of both hold images in JSON (B03)."""
    request = read(PROMPT, (field, value), face=face)
    assert (Task.I2I, count) == (request.task, len(request.sources))
    assert {field} == {source.field for source in request.sources}


def test_all_places_are_joined_in_order_of_appearance():
    """Images of all fields are counted together, in the order they were sent (R3)."""
    request = read(("image_url", "b"), PROMPT, ("images", ["c", {"url": "d"}]), ("image", "a"))
    assert ["b", "c", "d", "a"] == [source.value for source in request.sources]
    assert "4 input images in image_url, images, image" == request.evidence


BLANKS = [None, "", "   ", "\n\t", [], [None], {}, {"url": ""}, [{}], [[], ""], {"b64_json": None}]


@pytest.mark.parametrize("field", IMAGE_FIELDS)
@pytest.mark.parametrize("value", BLANKS, ids=repr)
@pytest.mark.parametrize("face", [Face.GENERATE, Face.GENERATIONS])
def test_an_empty_value_is_no_image(field, value, face):
    """An empty image value leaves the request T2I, in every place (B05)."""
    assert Task.T2I is read((field, value), PROMPT, face=face).task


@pytest.mark.parametrize("value", BLANKS, ids=repr)
def test_an_edit_with_an_empty_image_misses_one(value):
    """An edit whose image is empty is told that an image is missing (B05)."""
    with pytest.raises(UnusableImage) as caught:
        read(PROMPT, ("image", value), face=Face.EDITS)
    assert ("missing_image", "image") == (caught.value.code, caught.value.param)


def test_no_file_chosen_is_no_image():
    """The empty part that a browser sends for no file chosen is no image (B05)."""
    assert Task.T2I is read_form(PROMPT, ("image", Upload(b"", ""))).task


def test_an_object_that_names_a_type_but_holds_nothing_is_no_image():
    """An image object with an empty image is no image, whatever else it says (B05)."""
    value = {"type": "image_url", "image_url": {"url": ""}}
    assert Task.T2I is read(PROMPT, ("image", value)).task


@pytest.mark.parametrize("inspecting", [read, read_form])
def test_an_edit_without_an_image_is_a_mistake_of_the_caller(inspecting):
    """An edit that holds no image is a 400 that says what is missing (B06)."""
    with pytest.raises(UnusableImage) as caught:
        inspecting(PROMPT, face=Face.EDITS)
    assert (400, "missing_image", "image") == (
        caught.value.status,
        caught.value.code,
        caught.value.param,
    )


@pytest.mark.parametrize("value", [None, "", "  "])
@pytest.mark.parametrize("face", list(Face))
def test_an_image_without_a_prompt_is_a_mistake_of_the_caller(value, face):
    """A missing or blank prompt is a 400 (B06)."""
    with pytest.raises(InvalidRequest) as caught:
        read(("image", DATA), ("prompt", value), face=face)
    assert ("missing_prompt", "prompt") == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    "value", [True, False, 0, 7, 1.5, {"foo": "bar"}, [7], [DATA, 7], {"url": 7}, [{"a": 1}]]
)
@pytest.mark.parametrize("face", list(Face))
def test_an_image_that_is_present_but_unusable_is_an_error(value, face):
    """What is neither empty nor an image is refused, never downgraded to T2I (R2)."""
    with pytest.raises(UnusableImage) as caught:
        read(PROMPT, ("image", value), face=face)
    assert ("invalid_image", "image") == (caught.value.code, caught.value.param)


def task_or_status(*entries):
    """Returns the task of a request, or the status of its refusal."""
    try:
        return read(*entries).task
    except GatewayError as error:
        return error.status


@pytest.mark.parametrize("depth", [10, 200, 400, 600, 900])
@pytest.mark.parametrize("inner", ["x", None])
def test_deep_nesting_is_read_or_refused(depth, inner):
    """However deep a caller nests lists, the answer is never an error of ours (R5)."""
    value = inner
    for _ in range(depth):
        value = [value]
    expected = Task.T2I if inner is None else Task.I2I
    assert task_or_status(PROMPT, ("image", value)) in (expected, 400)


def test_an_empty_file_with_a_name_is_an_image():
    """A named file part without bytes is present, so it is not dropped (R2)."""
    assert (ImageSource("image", b""),) == read_form(PROMPT, ("image", Upload(b"", "a"))).sources


@pytest.mark.parametrize(
    "value", ["http://h.test/a.png", "https://h.test/a", " HTTPS://h.test/a.png ", "Http://h"]
)
@pytest.mark.parametrize("field", ["image", "image_url", "url"])
def test_an_image_url_is_refused_by_name(value, field):
    """An address of the web is refused as such, since nothing is fetched (B12)."""
    with pytest.raises(UnusableImage) as caught:
        read(PROMPT, (field, value))
    assert ("image_url_forbidden", field) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    "value",
    [
        "/etc/hostname",
        "/tmp/x.png",
        "file:///tmp/x.png",
        "../../x.jpg",
        "ftp://h/x.png",
        "s3://b/x",
    ],
)
def test_a_path_stays_a_text_that_stands_for_an_image(value):
    """A path or another scheme makes the request I2I and is opened by nobody (B12)."""
    request = read(PROMPT, ("image", value))
    assert (Task.I2I, (ImageSource("image", value),)) == (request.task, request.sources)


def test_too_many_images_name_the_limit_and_the_place():
    """More images than the limit, all places together, are refused with the limit (B13)."""
    with pytest.raises(UnusableImage) as caught:
        read(PROMPT, ("images", [B64] * 3), ("ref_images", [B64] * 2), max_images=4)
    assert ("too_many_images", "ref_images") == (caught.value.code, caught.value.param)
    assert "the limit is 4" in caught.value.message


def test_a_list_of_one_is_one_image():
    """A list of one image serves a model that takes one (B13)."""
    assert 1 == len(read(PROMPT, ("image", [DATA]), max_images=1).sources)


def test_the_payload_is_left_as_it_was():
    """Inspecting changes nothing, so that it can be done twice."""
    payload = Payload((PROMPT, ("images", [DATA, {"url": DATA}])))
    assert inspect(payload, Face.EDITS, LIMITS) == inspect(payload, Face.EDITS, LIMITS)
