"""Losses of every token of many rows, in batches of similar length."""

from collections.abc import Sequence

import torch

from ..progress import Progress
from .causal_model import CausalModel

# Tokens of one forward pass: a batch holds as many rows as fit, at least one.
BATCH_TOKENS = 16384


def nll_rows(
    lm: CausalModel, rows: Sequence[Sequence[int]], batch_size: int, label: str
) -> list[torch.Tensor]:
    """Return -ln p of every token but the first of each row, in nats, float64 on the CPU.

    Finished batches go to the model's journal under ``label`` and are taken from there.
    """
    losses: list[torch.Tensor | None] = [None] * len(rows)
    progress = Progress(len(rows), label)
    order = sorted(range(len(rows)), key=lambda k: (-len(rows[k]), k))
    start = number = 0
    while start < len(order):
        longest = len(rows[order[start]])
        count = lm.batches_at_once * max(1, min(batch_size, BATCH_TOKENS // max(longest, 1)))
        batch = order[start : start + count]
        kept = lm.journal.get(label, number)
        if kept is None:
            kept = lm.row_losses([rows[k] for k in batch])
            lm.journal.put(label, number, kept)
        for k, values in zip(batch, kept, strict=True):
            losses[k] = torch.tensor(values, dtype=torch.float64)
        progress.update(len(batch))
        start, number = start + len(batch), number + 1
    return losses  # type: ignore[return-value]
