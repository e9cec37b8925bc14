"""Recorded shapes of clients that people really use, answered right."""

from __future__ import annotations

import asyncio
import base64

import huggingface_hub
import openai
import pytest

from tests.support.house import code_of
from tests.support.pictures import B64, DATA8, PNG8, facts, facts_of
from tests.support.scripted_worker import changed

pytestmark = pytest.mark.anyio

PICTURE = {"type": "image_url", "image_url": {"url": DATA8}}


async def test_open_webui(house):
    """Open WebUI generates by JSON and edits by a form with `image[]`, an api-version behind."""
    text, image = await house.two_tracks()
    generated = await house.client.post(
        "/v1/images/generations",
        json={
            "model": "glm-image",
            "prompt": "a fox",
            "n": 1,
            "size": "512x512",
            "response_format": "b64_json",
        },
        headers={"authorization": "Bearer sk-x", "x-openwebui-user-id": "u1"},
    )
    assert ("png", 512, 512) == facts_of(generated.json()["data"][0])
    edited = await house.client.post(
        "/v1/images/edits?api-version=2025-04-01-preview",
        data={"model": "glm-image", "prompt": "at night", "n": "1", "background": "auto"},
        files=[("image[]", ("image1.png", PNG8, "image/png")), ("image[]", ("b", PNG8, None))],
    )
    assert ("png", 32, 32) == facts_of(edited.json()["data"][0])
    assert (1, 1, 2) == (text.hits, image.hits, len(image.requests[0].files))


async def test_librechat(house):
    """LibreChat sends `auto` for size, quality and background, and the key as `api-key`."""
    text, image = await house.two_tracks()
    settings = {"quality": "auto", "size": "auto", "background": "auto", "output_format": "png"}
    generated = await house.client.post(
        "/v1/images/generations",
        json={"model": "glm-image", "prompt": "p", "n": 1, "output_compression": 100} | settings,
        headers={"api-key": "sk-x"},
    )
    assert ("png", 1024, 1024) == facts_of(generated.json()["data"][0])
    files = [(name, (None, value)) for name, value in settings.items()]
    files += [("model", (None, "glm-image")), ("prompt", (None, "p")), ("image[]", ("a", PNG8))]
    edited = await house.client.post("/v1/images/edits", files=files)
    assert 200 == edited.status_code
    assert {"size": "32x32", "n": "1"}.items() <= image.requests[0].texts.items()
    assert not {"quality", "background", "user"} & (
        image.requests[0].texts.keys() | text.requests[0].texts.keys()
    )


async def test_litellm(house):
    """LiteLLM names every picture `image[]`, with a whole path as its file name (B02, B41)."""
    _, image = await house.two_tracks()
    response = await house.client.post(
        "/v1/images/edits",
        data={"model": "glm-image", "prompt": "p"},
        files=[("image[]", ("/pictures/of mine/天狗 🚀.png", PNG8, "image/png"))],
    )
    assert 200 == response.status_code
    assert [("image", "image_0.png", "image/png", PNG8)] == image.requests[0].files


@pytest.mark.parametrize("stream", [False, True])
async def test_chat_by_the_sdk(house, stream):
    """The SDK's chat call gets the picture as a data URL in the message, streamed or whole."""
    text, image = await house.two_tracks()
    async with openai.AsyncOpenAI(base_url=house.url + "/v1", api_key="unused") as sdk:
        call = sdk.chat.completions.create(
            model="glm-image",
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "make it blue"}, PICTURE]}
            ],
            stream=stream,
            extra_body={"extra_body": {"height": 64, "width": 96, "seed": 7}},
        )
        if stream:
            chunks = [chunk async for chunk in await call]
            content = chunks[0].choices[0].delta.content
            assert "stop" == chunks[1].choices[0].finish_reason
        else:
            completion = await call
            content = completion.choices[0].message.content
            assert "stop" == completion.choices[0].finish_reason
    url = content[0]["image_url"]["url"]
    assert ("png", 96, 64) == facts(base64.b64decode(url.removeprefix("data:image/png;base64,")))
    assert (0, 1, "7") == (text.hits, image.hits, image.requests[0].texts["seed"])
    assert [PNG8] == [data for *_, data in image.requests[0].files]


async def test_chat_by_url(house):
    """A chat that asks for URLs gets a signed URL of ours in the message."""
    await house.two_tracks()
    body = {"messages": [{"role": "user", "content": "a fox"}], "response_format": "url"}
    answer = (await house.client.post("/v1/chat/completions", json=body)).json()
    [part] = answer["choices"][0]["message"]["content"]
    fetched = await house.client.get(part["image_url"]["url"])
    assert ("png", 1024, 1024) == facts(fetched.content)


async def test_chat_mistakes_and_usage(house):
    """A chat without words is a 400; token counts of the worker are passed on in chat's terms."""
    text, _ = await house.two_tracks()
    response = await house.client.post("/v1/chat/completions", json={"messages": []})
    assert (400, "missing_prompt", "prompt") == code_of(response)
    text.script = changed(
        usage={"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "image_count": 1}
    )
    body = {"messages": [{"role": "user", "content": "a fox"}]}
    answer = (await house.client.post("/v1/chat/completions", json=body)).json()
    assert {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14} == answer["usage"]


async def test_the_hugging_face_client(house):
    """The stock InferenceClient makes and edits pictures at `/hf/MODEL`."""
    text, image = await house.two_tracks()
    client = huggingface_hub.InferenceClient(model=house.url + "/hf/glm-image", token="unused")
    made = await asyncio.to_thread(
        client.text_to_image, "a fox", width=96, height=64, num_inference_steps=2, seed=4
    )
    assert ((96, 64), "PNG") == (made.size, made.format)
    edited = await asyncio.to_thread(
        client.image_to_image, PNG8, prompt="at night", guidance_scale=2.0
    )
    assert (32, 32) == edited.size
    assert (1, 1) == (text.hits, image.hits)
    assert {"seed": 4, "num_inference_steps": 2}.items() <= text.requests[0].texts.items()
    assert [PNG8] == [data for *_, data in image.requests[0].files]
    nobody = huggingface_hub.InferenceClient(model=house.url + "/hf/nope", token="unused")
    with pytest.raises(huggingface_hub.errors.HfHubHTTPError, match="404"):
        await asyncio.to_thread(nobody.text_to_image, "a fox")


async def test_the_hugging_face_answer_is_the_picture(house):
    """The answer is the picture in the accepted type; mistakes are still JSON."""
    await house.two_tracks()
    body = {"inputs": "a fox", "parameters": {"width": 64, "height": 64}}
    for accept, kind in (("image/webp", "webp"), ("*/*", "png"), ("image/png", "png")):
        response = await house.client.post(
            "/hf/zai-org/GLM-Image", json=body, headers={"accept": accept}
        )
        assert (kind, 64, 64) == facts(response.content)
    assert (400, "missing_prompt", "prompt") == code_of(
        await house.client.post("/hf/glm-image", json={"inputs": " "})
    )


async def test_messages_work_on_every_json_route(house):
    """Chat messages with a picture are an edit, wherever they are sent (B01)."""
    text, image = await house.two_tracks()
    messages = [{"role": "user", "content": [{"type": "text", "text": "blue"}, PICTURE]}]
    for path in ("/generate", "/v1/images/edits", "/v1/chat/completions"):
        response = await house.client.post(path, json={"messages": messages})
        assert (200, "i2i") == (response.status_code, response.headers["x-turnout-task"])
    assert (0, 3) == (text.hits, image.hits)


async def test_usage_in_openais_terms(house):
    """Worker's token counts become OpenAI's usage, image tokens apart; none counted, none told."""
    text, image = await house.two_tracks()
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "image_count": 1}
    image.script = changed(usage=usage)
    body = {"prompt": "p", "image": B64, "n": 2, "size": "64x64"}
    answer = (await house.client.post("/v1/images/edits", json=body)).json()
    assert {
        "input_tokens": 18,
        "input_tokens_details": {"image_tokens": 2, "text_tokens": 16},
        "output_tokens": 10,
        "total_tokens": 28,
    } == answer["usage"]
    answer = (await house.client.post("/v1/images/generations", json={"prompt": "p"})).json()
    assert "usage" not in answer
    assert 1 == text.hits
