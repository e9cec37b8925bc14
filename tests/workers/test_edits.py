"""Edits over HTTP, with an engine that has no model."""

import io

import pytest
from PIL import Image

from tests.workers.support import (
    colours,
    error_of,
    fields,
    pattern,
    picture_of,
    png,
    running_fake,
)
from workers import FakeEngine, ImageLimits, PictureRequest, fake_colours


@pytest.fixture(scope="module")
def client():
    """A worker for both tasks."""
    with running_fake(FakeEngine(limits=ImageLimits(64, 512))) as client:
        yield client


def edit(client, *images, name="image", **more):
    files = [(name, (f"image_{n}.png", data)) for n, data in enumerate(images)]
    return client.post("/v1/images/edits", data=fields(**more), files=files)


@pytest.mark.parametrize("name", ["image", "image[]"])
def test_edits_see_their_pictures(client, name):
    """The sources arrive, in order, under either field name."""
    first, second = pattern(96, 64), pattern(64, 64, 9)
    image = picture_of(edit(client, png(first), png(second), name=name, seed=3))
    request = PictureRequest("a cat", 96, 64, 30, 1.5, 3, (first, second))
    assert (image.size, colours(image)) == ((96, 64), fake_colours(request))


def test_edit_without_size_has_the_upright_size(client):
    """The size of an edit is that of its first picture, after its orientation is applied."""
    exif = Image.Exif()
    exif[0x0112] = 6
    out = io.BytesIO()
    pattern(100, 70).save(out, "PNG", exif=exif)
    assert picture_of(edit(client, out.getvalue())).size == (70, 100)
    assert picture_of(edit(client, out.getvalue(), size="64x40")).size == (64, 40)


def test_edit_without_picture_is_422(client):
    """An edit needs a picture."""
    answer = client.post("/v1/images/edits", data=fields(), files={"mask": b"x"})
    assert answer.status_code == 422
    assert (error_of(answer)["code"], error_of(answer)["param"]) == ("missing_image", "image")


def test_edit_names_every_bad_field(client):
    """A bad field and a missing picture are told together, without the values."""
    answer = client.post("/v1/images/edits", data=fields(n=99, image="no file"))
    assert answer.status_code == 422
    assert error_of(answer)["param"] == "n"
    assert [part.split(":")[0] for part in error_of(answer)["message"].split("; ")] == [
        "n",
        "image",
    ]
    assert edit(client, png(pattern(8, 8)), n=99).status_code == 422


def test_edit_takes_16_pictures_at_most(client):
    """Seventeen sources are refused."""
    assert edit(client, *[png(pattern(8, 8))] * 17).status_code == 400


@pytest.mark.parametrize("data", [b"no picture", png(Image.new("RGB", (10, 50)))])
def test_edit_with_a_bad_picture_is_400(client, data):
    """A source that cannot be used is 400 with a sentence."""
    answer = edit(client, data)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_image")


def test_a_text_only_worker_refuses_edits():
    """A worker that serves text only says so, before any work."""
    with running_fake(FakeEngine(tasks=("t2i",))) as client:
        assert edit(client, png(pattern(64, 64))).status_code == 400
        assert client.get("/model_info").json()["task_type"] == "T2I"
