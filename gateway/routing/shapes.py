"""Brings the shapes of other clients into ours: chat messages, and Hugging Face's inputs.

Only names and places change here; what the values mean is the inspector's work.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import InvalidRequest
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

PARAMETERS_DROPPED: Final = frozenset({"scheduler"})
"""Hugging Face parameters that choose what workers fix."""


def unfold(payload: Payload) -> Payload:
    """Returns the payload with chat messages and Hugging Face inputs taken apart."""
    names = [name for name, _ in payload.entries]
    if payload.is_form:
        return payload
    if "messages" in names:
        return Payload(tuple(_from_chat(payload)))
    if "inputs" in names:
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
        elif name not in CHAT_SETTINGS:
            entries.append((name, value))
    return entries


def _from_messages(messages: object) -> list[Entry]:
    """Reads every image of every message, and the text of the last message that has one."""
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
        images += [("messages", part) for part in parts if not _is_text(part)]
    return images if prompt is None else [*images, ("prompt", prompt)]


def _is_text(part: object) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text")


def _text_of(part: object) -> str | None:
    if isinstance(part, dict) and part.get("type") == "text":
        part = part.get("text")
    return part if isinstance(part, str) else None


def _from_inputs(payload: Payload) -> list[Entry]:
    """Tells a prompt from a picture: with a prompt among the parameters, the inputs are one."""
    settings = dict(payload.entries)
    inputs = settings.pop("inputs")
    parameters: list[Entry] = []
    for name, value in settings.items():
        if name == "parameters":
            parameters += _members(name, value)
        elif name != "options":  # of the hosted service: wait for a model, use its cache
            parameters.append((name, value))
    flat: list[Entry] = []
    for name, value in parameters:
        if name == "target_size" and value is not None:
            flat += _members(name, value)
        elif name not in PARAMETERS_DROPPED:
            flat.append((name, value))
    is_edit = any(name == "prompt" for name, _ in flat)
    return [("inputs" if is_edit else "prompt", inputs), *flat]


def _members(name: str, value: object) -> list[Entry]:
    if value is None:
        return []
    if not isinstance(value, dict):
        raise _wrong(name, "has to be an object")
    return list(value.items())


def _wrong(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"'{name}' {what}", param=name)
