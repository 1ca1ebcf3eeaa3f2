"""Computing what many token rows have in common only once.

Benchmark prompts repeat their beginnings: an instruction, a context with many questions, a
question in several option orders. Rows are therefore cut into a *stem* shared with other rows
and the rest, its *tail*. Each stem goes through the model once. Tails of one stem stand in one row
on top of its keys and values, each of its tokens seeing the stem and its own tail.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import torch

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
# What each token sees, bool (rows, length, keys), and its position (rows, length).
View = tuple[torch.Tensor, torch.Tensor]


def choose_stems(rows: Rows, keep: Sequence[int]) -> list[int]:
    """Return for each row the length of its stem (0: none), to save computation.

    The last ``keep[i]`` tokens of row i never belong to a stem. Rows with equal stems form a
    group; a group of n rows with a stem of p tokens saves p (n - 1) tokens. Groups are chosen
    on the tree of common prefixes, from its leaves upwards: each node may give its own
    prefix to a pool of rows below it, those of a child if that saves more than the child's best.
    """
    count = len(rows)
    stems = [0] * count
    if count < 2:
        return stems
    order = sorted(range(count), key=lambda k: tuple(rows[k]))
    free = [len(rows[k]) - keep[k] for k in order]
    shared = np.array(
        [
            min(common_prefix(rows[order[k]], rows[order[k + 1]]), free[k], free[k + 1])
            for k in range(count - 1)
        ]
    )
    # Nodes are intervals [start, end) of the sorted rows, parents before their children.
    nodes = [(0, count)]
    children: list[list[int]] = []
    depth: list[int] = []
    for start, end in nodes:
        inner = shared[start : end - 1]
        depth.append(int(inner.min()))
        cuts = [start, *(start + 1 + np.flatnonzero(inner == depth[-1])).tolist(), end]
        below = []
        for left, right in pairwise(cuts):
            if right - left > 1:
                below.append(len(nodes))
                nodes.append((left, right))
        children.append(below)
    size = [end - start for start, end in nodes]
    best = [0] * len(nodes)
    # Of each node: does it give its prefix to a pool of rows, and which children join the pool?
    joining: list[list[int]] = [[] for _ in nodes]
    pooled = [False] * len(nodes)
    for node in reversed(range(len(nodes))):
        prefix, below = depth[node], children[node]
        best[node] = sum(best[child] for child in below)
        if prefix >= MIN_STEM:
            joining[node] = [child for child in below if prefix * size[child] > best[child]]
            apart = [child for child in below if child not in joining[node]]
            pool = size[node] - sum(size[child] for child in apart)
            saved = prefix * (pool - 1) + sum(best[child] for child in apart)
            if pool and saved > best[node]:
                best[node], pooled[node] = saved, True
    todo = [0]
    while todo:
        node = todo.pop()
        apart = children[node]
        if pooled[node]:
            apart = [child for child in apart if child not in joining[node]]
            for k in range(*nodes[node]):
                stems[order[k]] = depth[node]
        # Children come after their parent and overwrite what it gave to the rows of their pools.
        todo += apart
    return stems


def right_padded(rows: Rows) -> torch.Tensor:
    """Return token rows as one (rows, longest) tensor, filled up at the right with zeros."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])


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
    tail = torch.tensor([[*row, *[-1] * (size - len(row))] for row in tails])
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
    lm: Any, rows: Rows, counts: Sequence[int], batch_size: int
) -> Iterator[tuple[list[int], Callable[[], torch.Tensor]]]:
    """Yield (row indices, what computes hidden states of a ``LanguageModel``) by batch.

    The hidden states are those of each row's last ``counts[i]`` tokens, one row behind the
    other: (sum of the batch's counts, hidden). Rows are at least ``counts[i]`` tokens long and
    come once. Nothing is computed for a batch whose function is not called.
    """
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
