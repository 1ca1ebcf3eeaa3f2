"""Losses of every token of many rows, in batches of similar length."""

from collections.abc import Sequence
from typing import Any

import torch

from ..base.errors import UserError
from ..base.progress import Progress
from .causal_model import CausalModel, Rows


def nll_rows(
    lm: CausalModel, rows: Rows, batch_size: int, label: str, names: Sequence[object] | None = None
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

        def compute(batch: list[int] = batch) -> tuple[list[list[float]], list[Any]]:
            values = lm.row_losses([rows[k] for k in batch])
            return values, [(names[k] if names else k, x) for k, x in zip(batch, values)]

        kept = lm.kept(label, number, compute)
        for k, values in zip(batch, kept, strict=True):
            losses[k] = torch.tensor(values, dtype=torch.float64)
        progress.update(len(batch))
        start, number = start + len(batch), number + 1
    return losses  # type: ignore[return-value]


def sentence_losses(
    lm: CausalModel,
    task: str,
    sentences: Sequence[str],
    batch_size: int,
    names: Sequence[object],
    cut: bool = False,
) -> tuple[list[list[int]], list[torch.Tensor]]:
    """Return each sentence's tokens, and -ln p of each, given the prefix token before the first.

    There is no prompt, so a chat template has nothing to do. ``names`` are the sentences' items.
    A sentence longer than the context loses its beginning with ``cut``. Raises UserError without
    it, for a tokenizer without BOS and EOS, and for scores that are not finite.
    """
    prefix = lm.prefix(task)
    rows = lm.tokenizer(list(sentences), add_special_tokens=False)["input_ids"]
    for name, row in zip(names, rows, strict=True):
        if len(row) >= lm.max_length and not cut:
            raise UserError(
                f"a sentence of item {name} has {len(row)} tokens, but the model takes at most "
                f"{lm.max_length - 1}; shorten or remove that item"
            )
    windows = [[prefix, *row][-lm.max_length :] for row in rows]
    return rows, nll_rows(lm, windows, batch_size, f"{task} sentences", names)
