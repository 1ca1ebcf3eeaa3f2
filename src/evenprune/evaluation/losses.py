"""Losses of every token of many rows, in batches of similar length."""

from collections.abc import Sequence

import torch

from ..base.progress import Progress
from .causal_model import CausalModel


def nll_rows(
    lm: CausalModel,
    rows: Sequence[Sequence[int]],
    batch_size: int,
    label: str,
    names: Sequence[object] | None = None,
) -> list[torch.Tensor]:
    """Return -ln p of every token but the first of each row, in nats, float64 on the CPU.

    Finished batches go to the model's journal under ``label`` and are taken from there.
    ``names`` say what a row belongs to (its number by default), for the UserError that is raised
    when a loss is not a finite number.
    """
    losses: list[torch.Tensor | None] = [None] * len(rows)
    progress = Progress(len(rows), label)
    order = sorted(range(len(rows)), key=lambda k: (-len(rows[k]), k))
    start = number = 0
    while start < len(order):
        count = lm.batches_at_once * lm.rows_at_once(len(rows[order[start]]), batch_size)
        batch = order[start : start + count]
        kept = lm.journal.get(label, number)
        if kept is None:
            kept = lm.row_losses([rows[k] for k in batch])
            named = [names[k] if names else k for k in batch]
            lm.keep(label, number, kept, zip(named, kept, strict=True))
        for k, values in zip(batch, kept, strict=True):
            losses[k] = torch.tensor(values, dtype=torch.float64)
        progress.update(len(batch))
        start, number = start + len(batch), number + 1
    return losses  # type: ignore[return-value]
