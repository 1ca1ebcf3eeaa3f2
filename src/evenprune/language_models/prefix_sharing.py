"""Computing what many token rows have in common only once.

Benchmark prompts repeat their beginnings: an instruction, a context with many questions, a
question in several option orders. Rows are therefore cut into a *stem* shared with other rows
and the rest, its *tail*. Each stem goes through the model once. Tails of one stem stand in one row
on top of its keys and values, each of its tokens seeing the stem and its own tail.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, chain
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from ..models.token_trees import common_prefix

# Tokens of one forward pass: a batch holds as many rows as fit, at least one. On a CPU it is as
# many as leave the results of single operations in its caches and in memory that is used again.
BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}
# A shorter stem saves less than handing its keys and values around costs.
MIN_STEM = 8
# Calling the model takes about as long as this part of a full batch.
CALLS = 16
# Tokens of the tails in one row; with more, what they do not see of each other costs too much.
TAILS = 256
Rows = Sequence[Sequence[int]]  # of tokens
Part = tuple[int, list[int]]  # rows that are sorted: tokens that are saved, and their stems
# What each token sees, bool (rows, length, keys), and its position (rows, length).
View = tuple[torch.Tensor, torch.Tensor]


def _joined(prefix: int, parts: list[Part]) -> Part:
    """Return neighbouring rows as one part; ``prefix`` tokens are all that they have in common.

    It is the stem of a pool of rows, those of each part that saves less by itself, where that
    saves more; and then of rows without one.
    """
    saved = sum(own for own, _ in parts)
    pooled = [prefix >= MIN_STEM and prefix * len(stems) > own for own, stems in parts]
    lost = sum(own for (own, _), joins in zip(parts, pooled) if joins)
    pool = sum(len(stems) for (_, stems), joins in zip(parts, pooled) if joins)
    gained = prefix * (pool - 1) - lost
    if not pool or gained <= 0:
        return saved, [stem for _, stems in parts for stem in stems]
    return saved + gained, [
        prefix if joins else stem or prefix
        for (_, stems), joins in zip(parts, pooled)
        for stem in stems
    ]


def choose_stems(rows: Rows, keep: Sequence[int]) -> list[int]:
    """Return for each row the length of its stem (0: none), to save computation.

    The last ``keep[i]`` tokens of row i never belong to a stem. Rows with equal stems form a
    group; a group of n rows with a stem of p tokens saves p (n - 1) tokens. Groups are chosen
    on the tree of common prefixes, from its leaves upwards: each node may give its own
    prefix to a pool of rows below it, those of a child if that saves more than the child's best.
    """
    order = sorted(range(len(rows)), key=lambda k: tuple(rows[k]))
    free = [len(rows[k]) - keep[k] for k in order]
    shared = [
        min(common_prefix(rows[order[k]], rows[order[k + 1]]), free[k], free[k + 1])
        for k in range(len(rows) - 1)
    ]
    # Nodes that are not finished, each with its prefix and what is below it so far.
    path: list[tuple[int, list[Part]]] = []
    part: Part = 0, []
    for prefix in [*shared, -1]:  # of each row with the next one in order
        part = 0, [0]
        while path and path[-1][0] > prefix:
            longer, parts = path.pop()
            part = _joined(longer, [*parts, part])
        if not path or path[-1][0] < prefix:
            path.append((prefix, []))
        path[-1][1].append(part)
    stems = dict(zip(order, part[1]))
    return [stems[k] for k in range(len(rows))]


def right_padded(rows: Rows) -> torch.Tensor:
    """Return token rows as one (rows, longest) tensor, filled up at the right with zeros."""
    return pad_sequence([*map(torch.LongTensor, rows)], batch_first=True)


def cache_device(cache: Any) -> torch.device | None:
    """Return where a key-value cache lies; None, the CPU, for one on several GPUs."""
    held = [getattr(layer, "keys", None) for layer in cache.layers]
    found = {keys.device for keys in held if keys is not None}
    return found.pop() if len(found) == 1 else None


def select_rows(cache: Any, index: torch.Tensor) -> Any:
    """Return a new key-value cache with the given rows of ``cache``, which stays as it is."""
    chosen = copy.copy(cache)
    chosen.layers = [copy.copy(layer) for layer in cache.layers]
    chosen.batch_select_indices(index)
    return chosen


def _handfuls(
    lm: Any, rows: Rows, stems: Sequence[int], batch_size: int
) -> Iterator[tuple[list[list[int]], list[tuple[int, list[int]]]]]:
    """Yield a handful of stems of similar length, and (number of its stem, rows) of each row of
    tails; rows without a stem come first, each by itself."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for k, length in enumerate(stems):
        groups.setdefault(tuple(rows[k][:length]), []).append(k)
    if whole := groups.pop((), None):
        yield [], [(0, [k]) for k in sorted(whole, key=lambda k: (len(rows[k]), k))]
    found = sorted(groups, key=lambda stem: (len(stem), stem))
    while found:
        count = lm.rows_at_once(len(found[0]), batch_size)
        part, found = found[:count], found[count:]
        packed: list[tuple[int, list[int]]] = []
        for number, stem in enumerate(part):
            free = 0
            for k in sorted(groups[stem], key=lambda k: (len(rows[k]), k)):
                free -= len(rows[k]) - len(stem)
                if free < 0:
                    packed.append((number, []))
                    free = TAILS - (len(rows[k]) - len(stem))
                packed[-1][1].append(k)
        yield [list(stem) for stem in part], packed


def tree(lengths: Sequence[Sequence[int]], before: Sequence[int], width: int) -> View:
    """Return which keys each token sees, bool (rows, l, width + l), and its position (rows, l).

    Row i has tails of ``lengths[i]`` tokens, on a stem whose ``before[i]`` tokens stand in
    ``width`` places. What fills a row up sees only itself and its like.
    """
    tails = [[number for number, n in enumerate(row) for _ in range(n)] for row in lengths]
    size = max(map(len, tails))
    tail = pad_sequence([*map(torch.LongTensor, tails)], batch_first=True, padding_value=-1)
    own = (tail[:, :, None] == tail[:, None, :]).tril()
    stem = torch.tensor(before)[:, None, None]
    seen = (torch.arange(width) < stem).expand(-1, size, -1)
    return torch.cat([seen, own], 2), stem[:, 0] + own.sum(2) - 1


def batch_sizes(lengths: Sequence[int], most: Callable[[int], int], tokens: int) -> list[int]:
    """Return how many rows each batch has, of rows whose ``lengths`` rise.

    Rows are filled up to the longest of their batch, and a call of the model costs as much as a
    ``CALLS``-th of ``tokens``, a full batch. The sizes are those with the lowest sum of both.
    ``most(length)`` is how many rows of a length may be in one batch.
    """
    call = tokens // CALLS
    costs, sizes = [0], [0]  # of the rows up to here, and of the last batch of these
    for end, length in enumerate(lengths, 1):
        cost, size = min(
            (costs[end - rows] + rows * length + call, rows)
            for rows in range(1, min(end, most(length)) + 1)
        )
        costs.append(cost)
        sizes.append(size)
    found = []
    end = len(lengths)
    while end:
        found.append(sizes[end])
        end -= sizes[end]
    return found[::-1]


def last_states(
    lm: Any, rows: Rows, counts: Sequence[int], batch_size: int, stems: Sequence[int] | None = None
) -> Iterator[tuple[list[int], Callable[[], torch.Tensor]]]:
    """Yield (row indices, what computes hidden states of a ``LanguageModel``) by batch.

    The hidden states are those of each row's last ``counts[i]`` tokens, one row behind the
    other: (sum of the batch's counts, hidden). Rows are at least ``counts[i]`` tokens long and
    come once. Nothing is computed for a batch whose function is not called. ``stems`` are chosen
    where they are not given.
    """
    if stems is None:
        stems = choose_stems(rows, counts) if lm.shares_prefixes else [0] * len(rows)
    # The tree mask stands in the place of a window's own.
    stems = [stem if len(row) <= lm.window else 0 for stem, row in zip(stems, rows)]
    fitting = partial(lm.rows_at_once, batch_size=batch_size)
    for heads, packed in _handfuls(lm, rows, stems, batch_size):
        held = cache(partial(lm.prefix_cache, right_padded(heads) if heads else None))

        @torch.inference_mode()
        def states(batch: list[tuple[int, list[int]]], cache: Any) -> torch.Tensor:
            tails = [[rows[k][stems[k] :] for k in members] for _, members in batch]
            tokens = right_padded([list(chain.from_iterable(parts)) for parts in tails])
            lengths = [[len(tail) for tail in parts] for parts in tails]
            if stems[batch[0][1][0]]:
                chosen = torch.tensor([number for number, _ in batch], device=cache_device(cache()))
                before = [stems[members[0]] for _, members in batch]
                past = select_rows(cache(), chosen)
                found = lm.hidden(tokens, past, tree(lengths, before, past.get_seq_length()))
            else:
                found = lm.hidden(tokens)
            pieces = []
            for row, (_, members), ends in zip(found, batch, map(accumulate, lengths)):
                pieces += [row[end - counts[k] : end] for k, end in zip(members, ends)]
            return torch.cat(pieces)

        start = 0
        sizes = [sum(len(rows[k]) - stems[k] for k in members) for _, members in packed]
        order = sorted(range(len(packed)), key=sizes.__getitem__)
        for count in batch_sizes(sorted(sizes), fitting, BATCH_TOKENS[lm.device_type]):
            batch = [packed[k] for k in order[start : start + count]]
            yield [k for _, members in batch for k in members], partial(states, batch, held)
            start += count
