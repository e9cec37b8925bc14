"""The worker protocol as pydantic models: SGLang's image routes, as far as a worker serves them."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from workers.engine import ImageLimits
from workers.errors import InvalidRequest
from workers.pictures import Size, rounded_up

QUALITY_NAMES = (("maximum", 100), ("high", 90), ("medium", 55), ("low", 35))
NO_STORAGE = "response_format='url' requires storage, and this worker has none: ask for 'b64_json'."


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode text") from None
    return value


def _jpeg(value: Any) -> Any:
    return {"": None, "jpg": "jpeg"}.get(value, value) if isinstance(value, str) else value


OptionalInt = Annotated[int | None, BeforeValidator(_none_if_empty)]
OptionalFloat = Annotated[float | None, BeforeValidator(_none_if_empty)]
OptionalText = Annotated[str | None, BeforeValidator(_none_if_empty)]


class ImagesRequest(BaseModel):
    """The fields of `/v1/images/generations`, and the form fields of `/v1/images/edits`."""

    model_config = ConfigDict(extra="ignore")

    prompt: Annotated[str, AfterValidator(_encodable)]
    model: OptionalText = None
    user: OptionalText = None
    n: Annotated[OptionalInt, Field(ge=1, le=10)] = None
    size: OptionalText = None
    width: OptionalInt = None
    height: OptionalInt = None
    seed: Annotated[OptionalInt, Field(ge=0, lt=2**63)] = None
    num_inference_steps: Annotated[OptionalInt, Field(ge=1, le=1000)] = None
    guidance_scale: Annotated[OptionalFloat, Field(ge=0, le=100, allow_inf_nan=False)] = None
    negative_prompt: OptionalText = None
    response_format: OptionalText = None
    output_format: Annotated[Literal["png", "jpeg", "webp"] | None, BeforeValidator(_jpeg)] = None
    output_compression: Annotated[OptionalInt, Field(ge=0, le=100)] = None
    output_quality: OptionalText = None

    @property
    def quality(self) -> int | None:
        """JPEG or WebP quality, 0 to 100; SGLang also takes words."""
        if self.output_compression is not None:
            return self.output_compression
        return dict(QUALITY_NAMES).get(self.output_quality or "")

    def check_response_format(self) -> None:
        """Refuses anything but `b64_json`; SGLang's default is `url`, so it must be said."""
        if self.response_format != "b64_json":
            raise InvalidRequest(NO_STORAGE, param="response_format")

    def target_size(self, limits: ImageLimits, fallback: Size) -> Size:
        """The size asked for in pixels, or the fallback; raises InvalidRequest."""
        if self.width is not None and self.height is not None:
            size = (self.width, self.height)
        elif self.width is not None or self.height is not None:
            raise InvalidRequest("width and height go together.", "invalid_size", "width")
        elif self.size is None:
            size = fallback
        elif match := re.fullmatch(r"(\d{1,5})x(\d{1,5})", self.size.strip().lower()):
            size = (int(match[1]), int(match[2]))
        else:
            raise InvalidRequest(
                f"Invalid size: {self.size[:40]!r}, must be 'WxH'.", "invalid_size", "size"
            )
        if min(size) < 1 or rounded_up(max(size), limits.step) > limits.max_side:
            raise InvalidRequest(
                f"Invalid size: {size[0]}x{size[1]}, sides must be 1 to {limits.max_side}.",
                "invalid_size",
                "size",
            )
        return size


class ImageItem(BaseModel):
    """One picture of an answer."""

    b64_json: str
    url: None = None
    revised_prompt: None = None
    file_path: None = None
    resize: None = None


class Usage(BaseModel):
    """Token counts of an external encoder; SGLang leaves them out with its own in process."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    image_count: int


class ImagesAnswer(BaseModel):
    """The answer of both image routes."""

    id: str
    created: int
    data: list[ImageItem]
    peak_memory_mb: float
    inference_time_s: float
    usage: Usage | None
