"""Every example of the document works on a live gateway, and answers are as it says."""

from __future__ import annotations

import jsonschema
import pytest

from gateway.api.answers import PICTURE_TYPES
from tests.support.pictures import PNG8, facts

pytestmark = pytest.mark.anyio


def schema_of(doc, schema):
    """Returns a schema that can follow the document's references."""
    return jsonschema.Draft202012Validator(schema | {"components": doc["components"]})


def operations(doc):
    """Lists every operation as (method, path, description of it)."""
    return [(m, path, op) for path, entry in doc["paths"].items() for m, op in entry.items()]


def form_of(example):
    """Returns an example as form parts."""
    return [(name, (None, str(value))) for name, value in example.items()]


def checked(doc, operation, response):
    """Checks an answer against the document, and returns it."""
    described = operation["responses"][str(response.status_code)]
    kind = response.headers["content-type"].partition(";")[0]
    content = described["content"][kind]["schema"]
    if kind == "application/json":
        schema_of(doc, content).validate(response.json())
    needed = [name for name, each in described["headers"].items() if each.get("required")]
    assert [] == [name for name in needed if name not in response.headers]
    return response


async def test_every_example_works(house):
    """Every example fits its schema, is served as it stands, and its answer fits too."""
    await house.two_tracks()
    doc = (await house.client.get("/openapi.json")).json()
    served = 0
    for method, path, operation in operations(doc):
        url = path.replace("{model}", "glm-image").replace("{name}", "glm-image")
        contents = operation.get("requestBody", {}).get("content", {})
        for kind, content in contents.items():
            schema = doc["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
            examples = schema["examples"] if "Form" not in str(content) else schema.get("examples")
            for example in examples or []:
                schema_of(doc, schema).validate(example)
                body = {"files": form_of(example)} if "form" in kind else {"json": example}
                answer = checked(doc, operation, await house.client.post(url, **body))
                assert 200 == answer.status_code, answer.text
                served += 1
        if method == "get" and "artifacts" not in path:
            assert 200 == checked(doc, operation, await house.client.get(url)).status_code
    assert 11 == served


async def test_pictures_and_forms_are_answered_as_described(house):
    """A picture for `Accept`, a form with a file, and a link are what the document says."""
    await house.two_tracks()
    doc = (await house.client.get("/openapi.json")).json()
    paths = doc["paths"]
    for kind in PICTURE_TYPES:
        response = await house.generate({"accept": kind}, prompt="p", size="64x64")
        checked(doc, paths["/generate"]["post"], response)
        assert kind == response.headers["content-type"]
    for path in ("/generate", "/v1/images/generations", "/v1/images/edits"):
        files = {"image": ("a.png", PNG8), "image[]": ("b.png", PNG8)}
        form = {"prompt": "p", "n": "2", "response_format": "url"}
        response = await house.client.post(path, data=form, files=files)
        checked(doc, paths[path]["post"], response)
        links = [datum["url"] for datum in response.json()["data"]]
    picture = await house.client.get(links[0])
    checked(doc, paths["/artifacts/{name}"]["get"], picture)
    assert ("png", 32, 32) == facts(picture.content)
    gone = await house.client.get(links[0] + "x")
    assert 404 == checked(doc, paths["/artifacts/{name}"]["get"], gone).status_code


async def test_the_admin_port_has_its_own_document(house):
    """The operators' routes answer as their own document says, and are not in the clients'."""
    await house.two_tracks()
    doc = (await house.admin.get("/openapi.json")).json()
    names = {"{name}": "glm-image", "{pool}": "t2i", "{worker}": "t2i-0"}
    for method, path, operation in operations(doc):
        for part, name in names.items():
            path = path.replace(part, name)
        body = {"url": "http://127.0.0.1:9"} if method == "post" else None
        checked(doc, operation, await house.admin.request(method, path, json=body))
    assert "/admin/pools" not in (await house.client.get("/openapi.json")).json()["paths"]
