"""The document says what the code does: its tables, its limits, its errors, its headers."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from gateway import Config, Runtime
from gateway.api import admin, artifacts, chat, generate, huggingface, images, status
from gateway.api.answers import PICTURE_TYPES
from gateway.api.headers import HEADERS
from gateway.api.openapi import describe
from gateway.api.responses import PICTURE_TYPES as KINDS
from gateway.api.schemas import FIELDS
from gateway.errors import LEAVES, InvalidRequest, MethodNotAllowed, NotFound
from gateway.record import RequestRecord, Trace
from gateway.routing.fields import ACCEPTED, PARSERS, QUALITY_STEPS, REFUSED
from gateway.routing.inspection import Face
from gateway.routing.places import IMAGE_FIELDS

FACES = (generate, images, chat, huggingface, artifacts, status)
FLAT = ("GenerateRequest", "EditRequest", "GenerateForm", "EditForm")


def document(faces=FACES, **config):
    """Builds the document of a configuration."""
    runtime = Runtime(Config.model_validate(config))
    return describe([face.router for face in faces], runtime, version="0")


def schema_of(doc, schema):
    """Returns a schema that can follow the document's references."""
    return jsonschema.Draft202012Validator(schema | {"components": doc["components"]})


def operations(doc):
    """Lists every operation as (method, path, description of it)."""
    return [(m, path, op) for path, entry in doc["paths"].items() for m, op in entry.items()]


def codes_of(operation):
    """Lists the error codes of an operation by status."""
    found = {}
    for status_, answer in operation["responses"].items():
        schema = answer["content"].get("application/json", {}).get("schema", {})
        for part in schema.get("allOf", ()):
            if "properties" in part:
                found[int(status_)] = part["properties"]["error"]["properties"]["code"]["enum"]
    return found


def probes(schema):
    """Lists values at and beyond the borders of a field."""
    if "minimum" in schema:
        low, high = schema["minimum"], schema["maximum"]
        return [low - 1, low, high, high + 1, "x", True, [low]]
    if "enum" in schema:
        return [*schema["enum"], "nope", 7, [], not schema["enum"][0]]
    return ["a", 7, True, ["a"], {}]


def takes(name, value):
    """Tells whether the reader takes a value of a field."""
    if value is None or value == "":
        return True
    try:
        PARSERS[name].read(name, value, is_form=False)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize("faces", [FACES, (admin, status)])
def test_the_document_is_valid(faces):
    """The document and every schema in it hold to OpenAPI 3.1 and its dialect."""
    doc = document(faces)
    jsonschema.Draft202012Validator(OPENAPI_31).validate(doc)
    for schema in doc["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(doc)))
    assert names == set(doc["components"]["schemas"])
    ids = [operation["operationId"] for *_, operation in operations(doc)]
    assert len(ids) == len(set(ids))


def test_every_route_is_described():
    """Every route in the schema says what it answers, and every face that makes pictures is one."""
    described = {path: operation for _, path, operation in operations(document())}
    assert {face.value for face in Face} <= described.keys()
    others = {"/artifacts/{name}", "/livez", "/readyz", "/v1/models", "/v1/models/{name}"}
    assert {face.value for face in Face} | others == described.keys()
    assert [] == [path for path, operation in described.items() if "responses" not in operation]
    assert {"/metrics", "/admin/pools"} < document((admin, status))["paths"].keys()


@pytest.mark.parametrize("name", [*FLAT, "ChatRequest"])
def test_every_field_of_the_tables_is_described(name):
    """Bodies have the fields of the tables and the places of images, and no others."""
    found = document()["components"]["schemas"][name]["properties"].keys()
    tables = {*PARSERS, *ACCEPTED, *REFUSED, *IMAGE_FIELDS, "image[]"}
    assert (tables if name in FLAT else tables - {"prompt"}) <= found
    assert name not in FLAT or tables == found
    assert {*PARSERS, *ACCEPTED} == FIELDS.keys()


@pytest.mark.parametrize("name", [name for name in PARSERS if name not in ("width", "height")])
def test_a_field_takes_what_the_document_says(name):
    """At the borders of its range, a field's schema and its parser agree."""
    doc = document()
    schema = doc["components"]["schemas"]["GenerateRequest"]["properties"][name]
    if name == "stream":
        schema = doc["components"]["schemas"]["ChatRequest"]["properties"][name]
    check = schema_of(doc, {key: schema[key] for key in schema if key not in ("pattern",)})
    for value in probes(schema):
        if name == "model" and value == "nope":
            continue  # another layer's refusal, a 404
        assert takes(name, value) == check.is_valid(value), (name, value)


def test_words_and_defaults_come_from_the_code():
    """Choices and defaults are the code's own."""
    fields = document()["components"]["schemas"]["GenerateRequest"]["properties"]
    assert ["auto", *QUALITY_STEPS, None] == fields["quality"]["enum"]
    assert (1, "b64_json", False) == tuple(
        fields[name]["default"] for name in ("n", "response_format", "stream")
    )
    assert [f"image/{kind}" for kind in KINDS] == list(PICTURE_TYPES)
    assert {"refused"} == {fields[name]["x-turnout"] for name in REFUSED}


def test_limits_are_those_of_the_configuration():
    """Another configuration has other limits in its document."""
    schemas = document(
        limits={"max_prompt_chars": 77, "max_images": 3, "unknown_fields": "ignore"},
        models={
            "one": {"max_side": 512, "default_size": "256x128", "max_input_images": 2},
            "two": {"max_side": 256, "default_size": "64x64", "aliases": ["zwei"]},
        },
    )["components"]["schemas"]
    body = schemas["GenerateRequest"]
    fields = body["properties"]
    assert 77 == fields["prompt"]["maxLength"]
    assert (8, 512) == (fields["width"]["minimum"], fields["width"]["maximum"])
    assert ["one", "two", "zwei"] == schemas["ModelName"]["enum"]
    assert ["prompt", "model"] == body["required"]
    assert body["additionalProperties"]
    assert [3] == [each["maxItems"] for each in schemas["Pictures"]["anyOf"] if "maxItems" in each]
    default = document()["components"]["schemas"]
    assert (["prompt"], False) == (
        default["GenerateRequest"]["required"],
        default["GenerateRequest"]["additionalProperties"],
    )


def test_every_error_stands_where_it_can_occur():
    """Picture routes name every code but those of other routes; no status is made up."""
    by_path = {path: codes_of(operation) for _, path, operation in operations(document())}
    elsewhere = {*NotFound.codes, *MethodNotAllowed.codes, "missing_image", "model_required"}
    own = {face: {"model_not_found", "model_required"} for face in Face}
    own[Face.EDITS] |= {"missing_image"}
    own[Face.HUGGING_FACE] = {"model_not_found", "not_found"}  # the path ends in any words
    for face in Face:
        expected = {code for leaf in LEAVES for code in leaf.codes if code not in elsewhere} | own[
            face
        ]
        found = by_path[face.value]
        named = {code for codes in found.values() for code in codes}
        assert expected == named, face
        for leaf in LEAVES:
            assert set(leaf.codes) & named <= set(found.get(leaf.status, ()))
    assert {404: ["not_found", "model_not_found"], 500: ["internal_error"]} == by_path[
        "/v1/models/{name}"
    ]
    assert {404: [NotFound.codes[0]], 500: ["internal_error"]} == by_path["/artifacts/{name}"]
    assert {500: ["internal_error"]} == by_path["/livez"]


def test_every_header_is_described():
    """Every header that a record sends is described, with the pattern of its values."""
    record = RequestRecord("r-1", "POST", "/generate", 0.0, task="t2i", pool="t2i", seed=7)
    record.traces = [Trace("t2i-0", 1), Trace("t2i-1", 1)]
    record.ignored, record.warnings = ("a", "b"), ("the first frame was taken",)
    operation = document()["paths"]["/generate"]["post"]
    for name, value in record.headers():
        assert re.search(HEADERS[name.decode()][0], value.decode()), name
        for answer in operation["responses"].values():
            assert name.decode() in answer["headers"]
