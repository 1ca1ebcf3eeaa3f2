"""Losses of every token of many rows, in batches of similar length."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import torch

from ..io.errors import UserError
from ..models.token_trees import merged
from .language_model import LanguageModel
from .prefix_sharing import Rows

# Tokens of the sentences of one tree; with more, attention costs more than is shared.
TREE = 512


def nll_rows(
    lm: LanguageModel,
    rows: Rows,
    batch_size: int,
    label: str,
    names: Sequence[object] | None = None,
) -> list[torch.Tensor]:
    """Return -ln p of every token but the first of each row, in nats, float64 on the CPU.

    Finished batches go to the model's journal under ``label`` and are taken from there.
    ``names`` say what a row belongs to (its number by default), for the UserError that is raised
    when a loss is not a finite number.
    """

    owners, sizes = names or range(len(rows)), [len(row) for row in rows]
    losses = _by_size(lm, rows, sizes, batch_size, label, owners, lm.row_losses)
    return [torch.tensor(values, dtype=torch.float64) for values in losses]


def _by_size(
    lm: LanguageModel, items: Sequence[Any], sizes: Sequence[int], batch_size: int, label: str,
    names: Sequence[object], compute: Callable[[list[Any]], Sequence[Any]],
) -> list[Any]:  # fmt: skip
    """Return what ``compute`` gives for each item, in batches of similar size, largest first."""
    batches, rest = [], sorted(range(len(items)), key=lambda k: (-sizes[k], k))
    while rest:
        count = lm.rows_at_once(sizes[rest[0]], batch_size)
        batches.append((rest[:count], partial(compute, [items[k] for k in rest[:count]])))
        rest = rest[count:]
    found = lm.batched(label, names, batches)
    return [found[k] for k in range(len(items))]


def _parts(rows: Rows) -> Iterator[Rows]:
    """Yield the rows of each tree: of neighbours with at most ``TREE`` tokens."""
    start = tokens = 0
    for end, row in enumerate(rows):
        tokens += len(row)
        if tokens > TREE and end > start:
            yield rows[start:end]
            start, tokens = end, len(row)
    yield rows[start:]


def sentence_losses(
    lm: LanguageModel,
    task: str,
    groups: Sequence[Sequence[str]],
    batch_size: int,
    names: Sequence[object],
    cut: bool = False,
) -> tuple[list[list[list[int]]], list[list[torch.Tensor]]]:
    """Return the tokens of each sentence of each group, and -ln p of each, in nats, float64.

    A sentence stands behind the prefix token. There is no prompt, so a chat template has nothing
    to do. The sentences of a group are those of an item, by its name in ``names``; what they begin
    with is computed once. A sentence longer than the context loses its beginning with ``cut``.
    Finished batches are kept in the model's journal. Raises UserError without ``cut``, for a
    tokenizer without BOS and EOS, and for scores that are not finite.
    """
    prefix = lm.prefix(task)
    rest = iter(lm.with_bos("auto").encode(list(chain(*groups)), special=False))
    rows = [list(islice(rest, len(group))) for group in groups]
    for name, group in zip(names, rows, strict=True):
        longest = max(map(len, group))
        if longest >= lm.max_length and not cut:
            raise UserError(
                f"a sentence of item {name} has {longest} tokens, but the model takes at most "
                f"{lm.max_length - 1}; shorten or remove that item"
            )
    windows = [[[prefix, *row][-lm.max_length :] for row in group] for group in rows]
    parts = [(k, part) for k, group in enumerate(windows) for part in _parts(group)]
    sizes, owners = [len(merged(part).tokens) for _, part in parts], [names[k] for k, _ in parts]
    trees, label = [part for _, part in parts], f"{task} sentences"
    found = _by_size(lm, trees, sizes, batch_size, label, owners, lm.group_losses)
    losses: list[list[torch.Tensor]] = [[] for _ in groups]
    for (k, _), several in zip(parts, found, strict=True):
        losses[k] += [torch.tensor(values, dtype=torch.float64) for values in several]
    return rows, losses
