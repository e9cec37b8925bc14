"""What any worker must answer, as a table: our workers, the scripted one, a stock SGLang server.

The cases know a base URL and nothing else, so that a suite elsewhere can run them on any server:

    from tests.contract.cases import CASES, perform

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_a_stock_server_keeps_the_contract(case, sglang_url):
        "…"
        perform(case, sglang_url)

`case.task` says whether a server needs edits for it, `case.kind` whether the case asks for a
picture, expects a refusal, or asks for the status. Or start `test_contract.py` itself on a server:

    TURNOUT_CONTRACT_URL=http://127.0.0.1:30010 TURNOUT_CONTRACT_TASKS=t2i pytest tests/contract

Sides are multiples of 32 and sources at least 64 pixels high and wide: what stock SGLang, too,
serves with the tiny checkpoint.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import httpx
from PIL import Image

from tests.support.pictures import picture

if TYPE_CHECKING:
    from collections.abc import Mapping

GENERATIONS, EDITS = "/v1/images/generations", "/v1/images/edits"
LEAST = MappingProxyType(
    {"prompt": "a cat", "response_format": "b64_json", "n": 1, "num_inference_steps": 2}
)
PATIENCE_SECONDS = 300

SQUARE = picture(64, 64, (200, 30, 30))
WIDE = picture(96, 64, (30, 200, 30))


@dataclass(frozen=True)
class Case:
    """One request, and what must come back."""

    name: str
    task: Literal["t2i", "i2i"] = "t2i"
    sent: Mapping[str, object] = field(default_factory=dict)
    images: tuple[bytes, ...] = ()
    image_field: str = "image"
    status: int = 200
    size: tuple[int, int] | None = None
    image_format: str = "PNG"

    def __str__(self):
        return self.name

    @property
    def kind(self):
        """`picture` or `refusal`."""
        return "picture" if self.status == 200 else "refusal"


CASES = (
    Case("text", sent={"size": "64x64"}, size=(64, 64)),
    Case("text, wide", sent={"size": "96x64"}, size=(96, 64)),
    Case("text, jpeg", sent={"size": "64x64", "output_format": "jpeg"}, size=(64, 64),
         image_format="JPEG"),
    Case("text, webp", sent={"size": "64x64", "output_format": "webp"}, size=(64, 64),
         image_format="WEBP"),
    Case("text, guidance", sent={"size": "64x64", "guidance_scale": 1.0}, size=(64, 64)),
    Case("text, model and user", sent={"size": "64x64", "model": "m", "user": "u"}, size=(64, 64)),
    Case("edit", "i2i", {"size": "64x64"}, (SQUARE,), size=(64, 64)),
    Case("edit, image[]", "i2i", {"size": "64x64"}, (SQUARE,), "image[]", size=(64, 64)),
    Case("edit, other size", "i2i", {"size": "64x96"}, (SQUARE,), size=(64, 96)),
    Case("edit, two pictures", "i2i", {"size": "64x64"}, (SQUARE, WIDE), size=(64, 64)),
    Case("edit, three pictures", "i2i", {"size": "96x64"}, (SQUARE, WIDE, SQUARE), size=(96, 64)),
    Case("no prompt", sent={"prompt": None, "size": "64x64"}, status=422),
    Case("size is no size", sent={"size": "nonsense"}, status=400),
    Case("url without storage", sent={"size": "64x64", "response_format": "url"}, status=400),
    Case("edit without a picture", "i2i", {"size": "64x64"}, status=422),
)  # fmt: skip


def send(base_url, case, **changes):
    """Sends the case's request, with changes, as a gateway would."""
    texts = {"output_format": "png"} | dict(LEAST) | dict(case.sent) | changes
    texts = {name: value for name, value in texts.items() if value is not None}
    options = {"timeout": PATIENCE_SECONDS, "trust_env": False}
    if case.task == "t2i":
        return httpx.post(base_url + GENERATIONS, json=texts, **options)
    files = [
        (case.image_field, (f"image_{at}.png", data, "image/png"))
        for at, data in enumerate(case.images)
    ]
    # A form without a file must be multipart as well.
    files = files or [("unknown", ("x.txt", b"x", "text/plain"))]
    data = {name: str(value) for name, value in texts.items()}
    return httpx.post(base_url + EDITS, data=data, files=files, **options)


def perform(case, base_url):
    """Sends the case and checks the answer; returns the picture, if one must come."""
    answer = send(base_url, case, seed=7)
    assert answer.status_code == case.status, answer.text
    if case.kind == "refusal":
        assert isinstance(answer.json(), dict)
        return None
    return checked(answer, case)


def checked(answer, case):
    """The picture in an answer that must be as SGLang's: one item, its bytes in base64."""
    body = answer.json()
    assert {"id", "created", "data"} <= set(body)
    (item,) = body["data"]
    assert item.get("url") is None
    with Image.open(io.BytesIO(base64.b64decode(item["b64_json"], validate=True))) as image:
        image.load()
    assert (image.format, image.size) == (case.image_format, case.size)
    return image
