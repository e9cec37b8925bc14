"""Draws the next token of every row from its own stream of random numbers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from workers.rows import Row

GREEDY_BELOW = 1e-6


class Sampler:
    """Temperature, top-k, top-p and logit bias for a batch of rows, one seed each.

    A row's random numbers are drawn on the CPU before it begins, one per token: they depend on
    its seed alone, never on the device or on its neighbours. Rows without a seed get one.
    """

    def __init__(self, rows: Sequence[Row], steps: int, vocabulary: int, device: torch.device):
        settings = [row.sampling for row in rows]
        self._is_greedy = torch.tensor([s.temperature < GREEDY_BELOW for s in settings])[:, None]
        self._is_greedy = self._is_greedy.to(device)
        self._all_greedy = bool(self._is_greedy.all())
        temperatures = [[max(s.temperature, GREEDY_BELOW)] for s in settings]
        self._temperature = torch.tensor(temperatures, device=device, dtype=torch.float64)
        self._top_p = torch.tensor([[s.top_p] for s in settings], device=device).double()
        limits = [[s.top_k if s.top_k > 0 else vocabulary] for s in settings]
        self._top_k = torch.tensor(limits, device=device)
        self._bias = torch.zeros(len(rows), vocabulary)
        for number, setting in enumerate(settings):
            for token, bias in setting.logit_bias.items():
                if token < vocabulary:
                    self._bias[number, token] = bias
        self._bias = self._bias.to(device)
        self._draws = torch.ones(len(rows), steps, dtype=torch.float64)
        for number, row in enumerate(rows):
            generator = torch.Generator()
            generator.seed() if row.seed is None else generator.manual_seed(row.seed)
            draws = torch.rand(row.max_new_tokens, generator=generator, dtype=torch.float64)
            self._draws[number, : len(draws)] = draws
        self._draws = self._draws.to(device)

    def draw(self, logits: Tensor, step: int) -> Tensor:
        """Logits (rows, vocabulary) to token ids (rows, 1)."""
        logits = logits.float() + self._bias
        best = logits.argmax(-1, keepdim=True)
        if self._all_greedy:
            return best
        # Sorted probabilities; those past top-k or past the top-p mass fall away.
        probabilities = (logits.double() / self._temperature).softmax(-1)
        ranked, ids = probabilities.sort(dim=-1, descending=True, stable=True)
        before = ranked.cumsum(-1) - ranked
        rank = torch.arange(ranked.shape[-1], device=ranked.device)[None]
        ranked = ranked * ((before < self._top_p) & (rank < self._top_k))
        mass = ranked.cumsum(-1)
        # Inverse of the distribution function: the first rank whose mass exceeds the draw.
        drawn = self._draws[:, step : step + 1] * mass[:, -1:]
        last = (ranked > 0).sum(-1, keepdim=True) - 1
        index = torch.minimum((mass <= drawn).sum(-1, keepdim=True), last)
        return torch.where(self._is_greedy, best, ids.gather(-1, index))
