"""The autoregressive decoder: rows of different lengths, grids and seeds in one batch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from workers.rows import Row
from workers.sampling import Sampler

BeforeStep = Callable[[int, Tensor], None]


class Decoder:
    """Left-padded batched decoding with a key-value cache; a row's tokens are those it gets alone.

    Positions are computed ahead, per row, by the model's own `get_rope_index`: 1D for text, 2D
    for source grids (closed by an end token) and for the remaining grids, which are targets.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.eval()
        self._language: Any = model.model.language_model
        self._device: torch.device = model.device
        self._end_token = int(model.config.image_end_token_id)
        self._vocabulary = int(model.config.text_config.vision_vocab_size)

    @torch.inference_mode()
    def decode(
        self, rows: Sequence[Row], before_step: BeforeStep = lambda _, __: None
    ) -> list[list[int]]:
        """The new tokens of each row, in order.

        `before_step` is given the number of steps done and their tokens (rows, steps); what it
        raises ends the work. One call at a time: the model keeps position state on itself.
        """
        # 1. Prompts, left-padded; positions of every token to come
        steps = max(row.max_new_tokens for row in rows)
        tokens, positions, ahead, mask = self._lay_out(rows, steps)
        width = tokens.shape[1]
        sampler = Sampler(rows, steps, self._vocabulary, self._device)
        cache: Any = DynamicCache(config=self._language.config)
        new_tokens = torch.zeros(len(rows), steps, dtype=torch.long, device=self._device)
        # 2. One step per token: the prompt first, then each token drawn
        for step in range(steps):
            before_step(step, new_tokens[:, :step])
            hidden = self._language(
                inputs_embeds=self._language.embed_tokens(tokens),
                position_ids=positions,
                attention_mask=mask[:, : width + step],
                past_key_values=cache,
                use_cache=True,
            ).last_hidden_state[:, -1]
            tokens = sampler.draw(self._model.lm_head(hidden), step)
            new_tokens[:, step] = tokens[:, 0]
            positions = ahead[:, :, step : step + 1]
            if self._is_over(rows, new_tokens, step):
                break
        # 3. Each row's own length
        return [self._cut(row, ids) for row, ids in zip(rows, new_tokens.tolist(), strict=True)]

    def _lay_out(self, rows: Sequence[Row], steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids (rows, width), positions (3, rows, width) and (3, rows, steps), mask."""
        width = max(len(row.input_ids) for row in rows)
        tokens = torch.full((len(rows), width), int(self._language.padding_idx or 0))
        mask = torch.zeros(len(rows), width + steps, dtype=torch.long)
        positions = torch.ones(3, len(rows), width, dtype=torch.long)
        ahead = torch.zeros(3, len(rows), steps, dtype=torch.long)
        for number, row in enumerate(rows):
            start = width - len(row.input_ids)
            ids = torch.tensor(list(row.input_ids))
            grids = torch.tensor([list(grid) for grid in row.grids])
            prompt, _ = self._model.model.get_rope_index(ids[None], image_grid_thw=grids)
            targets = self._model.model._cached_decode_position_ids[0]
            tokens[number, start:] = ids
            mask[number, start:] = 1
            positions[:, number, start:] = prompt[:, 0]
            # Past its last grid a row stays at the end marker's position.
            steps_ahead = torch.arange(steps).clamp(max=targets.shape[1] - 1)
            ahead[:, number] = targets[:, steps_ahead]
        on_device = [part.to(self._device) for part in (tokens, positions, ahead, mask)]
        return on_device[0], on_device[1], on_device[2], on_device[3]

    def _is_over(self, rows: Sequence[Row], new_tokens: Tensor, step: int) -> bool:
        if all(row.sampling.ignore_eos for row in rows):
            return False  # lengths are known ahead; looking at the ids would stall a GPU
        done = new_tokens[:, : step + 1].tolist()
        return all(
            step + 1 >= row.max_new_tokens
            or (not row.sampling.ignore_eos and self._end_token in ids)
            for row, ids in zip(rows, done, strict=True)
        )

    def _cut(self, row: Row, ids: list[int]) -> list[int]:
        ids = ids[: row.max_new_tokens]
        if not row.sampling.ignore_eos and self._end_token in ids:
            return ids[: ids.index(self._end_token) + 1]
        return ids
