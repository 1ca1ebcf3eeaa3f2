"""Computing what many token rows have in common only once.

Benchmark prompts repeat their beginnings: an instruction, a context with many questions, a
question in several option orders. Rows are therefore cut into a *stem* shared with other rows
and the rest. Each stem goes through the model once; its keys and values are handed to all rows
that begin with it.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from .causal_model import BATCH_TOKENS, Rows

# A shorter stem saves less than handing its keys and values around costs.
MIN_STEM = 8
# Calling the model takes about as long as this part of a full batch.
CALLS = 16


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of leading tokens that two rows share."""
    return next(
        (k for k, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second))
    )


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


def _batches(
    rows: Rows, stems: Sequence[int], batch_size: int
) -> Iterator[tuple[list[list[int]], list[int], list[int]]]:
    """Yield (stems, rows, index of each row's stem): a handful of equally long stems at a time."""
    groups: dict[int, dict[tuple[int, ...], list[int]]] = {}
    for k, length in enumerate(stems):
        groups.setdefault(length, {}).setdefault(tuple(rows[k][:length]), []).append(k)
    for length in sorted(groups):
        found = list(groups[length].items())
        for start in range(0, len(found), batch_size):
            part = found[start : start + batch_size]
            members = [(k, number) for number, (_, ks) in enumerate(part) for k in ks]
            members.sort(key=lambda member: (len(rows[member[0]]), member[0]))
            heads = [list(stem) for stem, _ in part] if length else []
            yield heads, [k for k, _ in members], [number for _, number in members]


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
    fitting = partial(lm.rows_at_once, batch_size=batch_size)
    for heads, members, owners in _batches(rows, stems, batch_size):
        cut = len(heads[0]) if heads else 0
        held = cache(partial(lm.prefix_cache, torch.tensor(heads)))

        @torch.inference_mode()
        def states(batch: list[int], owner_of: list[int], cut: int, cache: Any) -> torch.Tensor:
            tokens = right_padded([rows[k][cut:] for k in batch])
            past = None
            if cut:
                chosen = torch.tensor(owner_of, device=cache_device(cache()))
                past = select_rows(cache(), chosen)
            pieces = []
            for found, k in zip(lm.hidden(tokens, past), batch):
                end = len(rows[k]) - cut
                pieces.append(found[end - counts[k] : end])
            return torch.cat(pieces)

        start = 0
        lengths = [len(rows[k]) - cut for k in members]
        for count in batch_sizes(lengths, fitting, BATCH_TOKENS[lm.device_type]):
            part = slice(start, start + count)
            yield members[part], partial(states, members[part], owners[part], cut, held)
            start += count
