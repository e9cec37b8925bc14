"""Brings the shapes of other clients into ours: chat messages, and Hugging Face's inputs.

Only names and places change here; what the values mean is the inspector's work.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import InvalidRequest, UnusableImage
from gateway.routing.places import image_field, is_blank, looks_like_picture
from gateway.routing.request import Payload

Entry = tuple[str, object]

CHAT_SETTINGS: Final = frozenset(
    {
        "frequency_penalty",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "service_tier",
        "stop",
        "store",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
    }
)
"""Settings of text models that chat clients send with everything; they mean nothing here."""

MESSAGE_KEYS: Final = frozenset({"role", "content", "name"})
"""What is read of a message; pictures may hang beside it."""

PARAMETERS_DROPPED: Final = frozenset({"scheduler"})
"""Hugging Face parameters that choose what workers fix."""


def unfold(payload: Payload) -> Payload:
    """Returns the payload with chat messages and Hugging Face inputs taken apart."""
    if payload.is_form:
        return payload
    if any(name == "messages" and value is not None for name, value in payload.entries):
        return Payload(tuple(_from_chat(payload)))
    if any(name == "inputs" and value is not None for name, value in payload.entries):
        return Payload(tuple(_from_inputs(payload)))
    return payload


def _from_chat(payload: Payload) -> list[Entry]:
    """Lists prompt and images of the messages where they stood, and the settings that count."""
    entries: list[Entry] = []
    for name, value in payload.entries:
        if name == "messages":
            entries += _from_messages(value)
        elif name == "extra_body":
            entries += _members(name, value)
        elif name == "response_format" and isinstance(value, dict):
            continue  # of a text model's answer: {"type": "text"}
        elif name not in CHAT_SETTINGS:
            entries.append((name, value))
    return entries


def _from_messages(messages: object) -> list[Entry]:
    """Reads every image of every message, and the text of the last user message that has one."""
    if not isinstance(messages, list):
        raise _wrong("messages", "has to be a list of messages")
    prompt: str | None = None
    images: list[Entry] = []
    for message in messages:
        if not isinstance(message, dict):
            raise _wrong("messages", "has to be a list of objects with 'role' and 'content'")
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        texts = [text for part in parts if (text := _text_of(part)) is not None]
        if message.get("role") == "user" and "".join(texts).strip():
            prompt = "\n".join(texts)
        # Some clients hang pictures beside the content, or into a part that calls itself text.
        beside = {key: value for key, value in message.items() if key not in MESSAGE_KEYS}
        held = [rest for part in parts if not is_blank(rest := _without_text(part))]
        images += [("messages", item) for item in held]
        images += [("messages", item) for key, item in beside.items() if image_field(key)]
        others = {key: item for key, item in beside.items() if not image_field(key)}
        if looks_like_picture(others):
            raise UnusableImage(
                "a message holds a picture where none is read; put it into the content",
                param="messages",
            )
    return images if prompt is None else [*images, ("prompt", prompt)]


def _without_text(part: object) -> object:
    """Returns what a content part holds beside its text."""
    if isinstance(part, str):
        return None
    if isinstance(part, dict) and part.get("type") == "text":
        return {key: value for key, value in part.items() if key not in ("type", "text")}
    return part


def _text_of(part: object) -> str | None:
    if isinstance(part, dict) and part.get("type") == "text":
        part = part.get("text")
    return part if isinstance(part, str) else None


def _from_inputs(payload: Payload) -> list[Entry]:
    """Tells a prompt from a picture: with a prompt among the parameters, the inputs are one."""
    inputs: object = None
    parameters: list[Entry] = []
    for name, value in payload.entries:
        if name == "inputs":
            inputs = value
        elif name == "parameters":
            parameters += _members(name, value)
        elif name != "options":  # of the hosted service: wait for a model, use its cache
            parameters.append((name, value))
    flat: list[Entry] = []
    for name, value in parameters:
        if name == "target_size" and value is not None:
            flat += _members(name, value)
        elif name not in PARAMETERS_DROPPED:
            flat.append((name, value))
    has_prompt = any(name == "prompt" and value is not None for name, value in flat)
    is_edit = has_prompt or looks_like_picture(inputs)
    return [("inputs" if is_edit else "prompt", inputs), *flat]


def _members(name: str, value: object) -> list[Entry]:
    if value is None:
        return []
    if not isinstance(value, dict):
        raise _wrong(name, "has to be an object")
    return list(value.items())


def _wrong(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"'{name}' {what}", param=name)
