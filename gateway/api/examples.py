"""Writes the examples of the document: requests that work under this configuration as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.api.schemas import Schema

if TYPE_CHECKING:
    from gateway.runtime import Runtime

PICTURE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAFElEQVR4nGM8ISfHgA0wYRUdtBIA0MoBFD5jqJkAAAAA"
    "SUVORK5CYII="
)
"""An 8×8 PNG in base64."""


def add_examples(schemas: dict[str, Schema], runtime: Runtime) -> dict[str, Schema]:
    """Returns the schemas of request bodies with their examples."""
    examples = _examples(runtime)
    return {
        name: schema | ({"examples": examples[name]} if name in examples else {})
        for name, schema in schemas.items()
    }


def _examples(runtime: Runtime) -> dict[str, list[dict[str, Any]]]:
    name, model = next(iter(runtime.config.models.items()))
    width, height = map(int, model.default_size.split("x"))
    text = {"model": name, "prompt": "a red fox in the snow", "size": model.default_size, "seed": 7}
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    edit = {"model": name, "prompt": "make it night", "image": PICTURE, "seed": 7}
    talk = [{"type": "text", "text": "make it night"}, url]
    parameters = {"width": width, "height": height, "seed": 7}
    return {
        "GenerateRequest": [text, edit],
        "EditRequest": [edit],
        "GenerateForm": [text],
        "ChatRequest": [
            {"model": name, "messages": [{"role": "user", "content": "a red fox in the snow"}]},
            {"model": name, "messages": [{"role": "user", "content": talk}], "stream": True},
        ],
        "HubRequest": [
            {"inputs": "a red fox in the snow", "parameters": parameters},
            {"inputs": PICTURE, "parameters": {"prompt": "make it night"}},
        ],
    }
