"""SGLang's `/generate` request, checked: JSON to rows. An id that slips through ends a process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workers.checkpoint import Checkpoint
from workers.engine import Task
from workers.errors import InvalidRequest
from workers.rows import Row, Sampling

MAX_ROWS = 64
DEFAULT_NEW_TOKENS = 128


class SamplingParams(BaseModel):
    """SGLang's sampling parameters; what this server lacks is taken at its neutral value only."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(-1, ge=-1)
    max_new_tokens: int = Field(DEFAULT_NEW_TOKENS, ge=1)
    ignore_eos: bool = False
    sampling_seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    logit_bias: dict[str, Annotated[float, Field(ge=-1e9, le=1e9)]] | None = None
    n: Literal[1] = 1
    min_new_tokens: Literal[0] = 0
    min_p: float = Field(0, ge=0, le=0)
    frequency_penalty: float = Field(0, ge=0, le=0)
    presence_penalty: float = Field(0, ge=0, le=0)
    repetition_penalty: float = Field(1, ge=1, le=1)
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = Field(None, max_length=0)
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False

    def sampling(self, vocabulary_size: int) -> Sampling:
        """The decoder's form; raises InvalidRequest for biases outside the vocabulary."""
        bias = {}
        for key, value in (self.logit_bias or {}).items():
            if not (key.isascii() and key.isdigit() and int(key) < vocabulary_size):
                raise InvalidRequest("logit_bias names a token outside the vocabulary.")
            bias[int(key)] = value
        return Sampling(self.temperature, self.top_p, max(0, self.top_k), bias, self.ignore_eos)


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """The rows of one call, what each is for, and whether the answer is a list."""

    rows: list[Row]
    tasks: list[Task]
    is_list: bool


def read_generate(body: Any, checkpoint: Checkpoint) -> GenerateRequest:
    """Checks everything that could crash a decoder; raises InvalidRequest."""
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.")
    ids = body.get("input_ids")
    if not isinstance(ids, list) or not ids:
        raise InvalidRequest("input_ids must be a list of token ids, or a list of such lists.")
    is_list = isinstance(ids[0], list)
    if not is_list:
        params = body.get("sampling_params")
        row = _row(ids, body.get("image_data"), params, checkpoint)
        return GenerateRequest([row], [_task(row, checkpoint)], False)
    if len(ids) > MAX_ROWS:
        raise InvalidRequest(f"At most {MAX_ROWS} rows.")
    images = _per_row(body.get("image_data"), len(ids), "image_data")
    params = body.get("sampling_params")
    shared = params is None or isinstance(params, dict)
    listed = [params] * len(ids) if shared else _per_row(params, len(ids), "sampling_params")
    rows = [_row(*parts, checkpoint) for parts in zip(ids, images, listed, strict=True)]
    return GenerateRequest(rows, [_task(row, checkpoint) for row in rows], True)


def _per_row(value: Any, count: int, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != count:
        raise InvalidRequest(f"{name} must be a list of {count} items, one per row of input_ids.")
    return value


def _task(row: Row, checkpoint: Checkpoint) -> Task:
    return "i2i" if checkpoint.end_token_id in row.input_ids else "t2i"


def _row(ids: Any, image_data: Any, params: Any, checkpoint: Checkpoint) -> Row:
    grids = _grids(image_data)
    target_tokens = check_row(ids, grids, checkpoint)
    try:
        parsed = SamplingParams.model_validate({} if params is None else params)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, ("sampling_params", *first["loc"])))
        raise InvalidRequest(f"{where}: {first['msg']}") from error
    length = len(ids) + max(parsed.max_new_tokens, target_tokens)
    if length > checkpoint.context_length:
        raise InvalidRequest(
            f"The row needs {length} tokens, the context length is {checkpoint.context_length}."
        )
    sampling = parsed.sampling(checkpoint.vocabulary_size)
    return Row(ids, grids, parsed.max_new_tokens, parsed.sampling_seed, sampling)


def check_row(ids: Any, grids: list[list[int]], checkpoint: Checkpoint) -> int:
    """Checks ids against vocabulary, codebook and grids; returns the tokens of the targets."""
    _check_ids(ids, checkpoint)
    return _check_spans(ids, grids, checkpoint)


def _check_ids(ids: Any, checkpoint: Checkpoint) -> None:
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise InvalidRequest("input_ids must be non-empty lists of integers.")
    if not all(0 <= token < checkpoint.vocabulary_size for token in ids):
        raise InvalidRequest("input_ids holds a token id outside the vocabulary.")
    if checkpoint.image_token_id in ids:
        raise InvalidRequest("input_ids holds an image placeholder; send the image's codes.")


def _grids(image_data: Any) -> list[list[int]]:
    item = image_data[0] if isinstance(image_data, list) and len(image_data) == 1 else image_data
    if not isinstance(item, dict) or "image_grid_thw" not in item:
        raise InvalidRequest("image_data must be one object with image_grid_thw per row.")
    if unknown := sorted(set(item) - {"image_grid_thw"}):
        raise InvalidRequest(f"image_data has an unknown field {unknown[0][:40]!r}.")
    grids = item["image_grid_thw"]
    if not isinstance(grids, list) or not grids or not all(map(_is_grid, grids)):
        raise InvalidRequest("image_grid_thw must be a list of [1, rows, columns].")
    return grids


def _is_grid(grid: Any) -> bool:
    return (
        isinstance(grid, list)
        and len(grid) == 3
        and all(type(side) is int and side > 0 for side in grid)
        and grid[0] == 1
    )


def _check_spans(ids: Sequence[int], grids: list[list[int]], checkpoint: Checkpoint) -> int:
    """Every closed image span must be as long as its grid; returns the tokens of the targets."""
    starts = [at for at, token in enumerate(ids) if token == checkpoint.start_token_id]
    ends = [at for at, token in enumerate(ids) if token == checkpoint.end_token_id]
    if len(grids) <= len(ends):
        raise InvalidRequest("image_grid_thw must hold every source's grid and a target's.")
    if len(starts) < len(ends):
        raise InvalidRequest("input_ids closes an image that was not opened.")
    last_end = -1
    for start, end, grid in zip(starts, ends, grids, strict=False):
        if start <= last_end or end - start - 1 != grid[1] * grid[2]:
            raise InvalidRequest("An image in input_ids is not as long as its grid says.")
        if not all(code < checkpoint.codebook_size for code in ids[start + 1 : end]):
            raise InvalidRequest("An image in input_ids holds an id outside the codebook.")
        last_end = end
    return sum(grid[1] * grid[2] for grid in grids[len(ends) :])
