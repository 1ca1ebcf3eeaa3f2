"""The model's own head after the decoder blocks: log-probabilities of sentences, and gradients.

The blocks run one at a time; what follows them (final norm, scaling, soft-capping, the output
embeddings) is the model's own code, which is run with the blocks' output put in its place.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .standin import Form, replaced

ELEMENTS = 1 << 24  # of the logits of one call: 64 MiB in float32


def logits_of(
    model: PreTrainedModel, blocks: nn.ModuleList, hidden: Tensor, ids: Tensor, form: Form
) -> Tensor:
    """Return the logits (r, l, v) for the last block's output ``hidden`` (r, l, h) of ``ids``."""
    last = len(blocks) - 1

    def take(index: int, args: tuple, kwargs: dict) -> Any:
        if index == last:
            return form.fill(hidden)
        return form.fill(args[0] if args else kwargs["hidden_states"])

    with replaced(blocks, take):
        return model(input_ids=ids, use_cache=False).logits


def log_probabilities(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probability (r,) of each row of ``ids`` (r, l) after its first token.

    logits: (r, l, v). In nats, float32.
    """
    values = torch.log_softmax(logits[:, :-1].float(), dim=-1)
    return values.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1).sum(dim=1)


class Head:
    """The head of a model whose outside and output embeddings are loaded."""

    def __init__(self, model: PreTrainedModel, blocks: nn.ModuleList, form: Form) -> None:
        self.model = model
        self.blocks = blocks
        self.form = form
        self.width = model.get_output_embeddings().weight.shape[0]

    def _pieces(self, ids: Tensor) -> list[slice]:
        """Return the rows of each call."""
        rows = max(1, ELEMENTS // (ids.shape[1] * self.width))
        return [slice(start, start + rows) for start in range(0, len(ids), rows)]

    def _log_probabilities(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return log_probabilities(logits_of(self.model, self.blocks, hidden, ids, self.form), ids)

    @torch.no_grad()
    def scores(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """Return the log-probability (r,) of each sentence, in float64 on the CPU."""
        parts = [self._log_probabilities(hidden[piece], ids[piece]) for piece in self._pieces(ids)]
        return torch.cat([part.double().cpu() for part in parts])

    def gradient(self, hidden: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        """Return the gradient (r, l, h) of ``Σ_r weights_r log p(row r)`` for ``hidden``.

        weights: (r,), on the CPU: rows that do not count are left out.
        """
        result = torch.zeros_like(hidden)
        for piece in self._pieces(ids):
            if not weights[piece].any():
                continue
            leaf = hidden[piece].detach().requires_grad_(True)
            with torch.enable_grad():
                values = self._log_probabilities(leaf, ids[piece])
                total = (values * weights[piece].to(leaf)).sum()
            result[piece] = torch.autograd.grad(total, leaf)[0]
        return result
