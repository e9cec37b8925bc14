"""The caller's request in canonical form, and the raw payload it is made from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum


class Task(Enum):
    """Names what the caller asks for; the values are the words of our wire."""

    T2I = "t2i"
    I2I = "i2i"


@dataclass(frozen=True, slots=True)
class Upload:
    """Is one file part of a form; its name and type are claims and decide nothing."""

    data: bytes
    filename: str = ""

    @property
    def is_blank(self) -> bool:
        """Tells whether it is what a browser sends for "no file chosen"."""
        return not self.data and not self.filename


@dataclass(frozen=True, slots=True)
class Payload:
    """Is a request body as it came: named values in order, a name may appear twice.

    JSON values keep their types; in a form every value is a `str` or an `Upload`.
    """

    entries: tuple[tuple[str, object], ...]
    is_form: bool = False


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Is an input image as the caller wrote it: uploaded bytes, or text that stands for them."""

    field: str
    value: bytes | str


@dataclass(frozen=True, slots=True)
class InputImage:
    """Is a checked input picture: its bytes, its true type, and its upright size in pixels."""

    data: bytes
    format: str
    width: int
    height: int
    digest: str = field(default="", compare=False)
    """Hash of the bytes."""


@dataclass(frozen=True, slots=True)
class Size:
    """Is a picture's size in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """Is what the caller wants; behind the inspector nobody sees the raw body.

    `sources` are the input images as written, `images` the same ones checked.
    `evidence` says what decided the task. Size, seed and format are None while nobody chose them.
    """

    task: Task
    prompt: str
    seed: int | None = None
    n: int = 1
    size: Size | None = None
    model: str | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    negative_prompt: str | None = None
    output_format: str | None = None
    output_compression: int | None = None
    response_format: str = "b64_json"
    stream: bool = False
    sources: tuple[ImageSource, ...] = ()
    images: tuple[InputImage, ...] = ()
    evidence: str = "no input image"
    ignored: tuple[str, ...] = ()


def digest_of(request: ImageRequest) -> str:
    """Returns a hash that is equal for requests with the same content, pictures included."""
    content = (
        request.prompt,
        request.negative_prompt,
        request.model,
        str(request.size),
        request.seed,
        request.num_inference_steps,
        request.guidance_scale,
        *(image.digest for image in request.images),
    )
    return hashlib.sha256(repr(content).encode("utf-8", "replace")).hexdigest()
