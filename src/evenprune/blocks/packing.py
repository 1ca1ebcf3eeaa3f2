"""The calibration text of a run, and its batches: thousands of tokens, common beginnings once.

``shared-prefix``: a row is a tree of the sentences of some pairs. In a causal model a beginning has
the same activations in all sentences that share it, those of a pair or, in neighbours of the sorted
order, of several. A 4-D attention mask shows every token what is before it in its own sentences,
and the positions restart behind what is shared. Rows of about one length make a batch.

``sentences``: every sentence is its own row with plain causal attention. The two rows of a
pair are in one batch, which has two parts when their lengths differ.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.calibration import TokenizedPairs, TokenPair
from ..io.files import digest
from ..models.token_trees import common_prefix

TOKENS = 1024  # a batch
CPU_TOKENS = 512  # more falls out of the caches
ROW = 64  # tokens of a row of several pairs; attention over more costs what sharing more saves
LENGTHS = 8  # lengths of rows between a power of two and the next, see ``_length``

Entry = tuple[TokenPair, float]  # a pair, its bias weight


@dataclass(frozen=True)
class Text:
    """Tokenised calibration text and the digests of the files it came from.

    texts: (id, token ids) of the unpaired ones; datasets: the hub repositories that all of it is
    from, as far as they are known. fixed: what is looked at with and without BOS
    (``bos.fixed_rows``), ``begins``: whether the tokenizer puts one.
    """

    pairs: TokenizedPairs | None = None
    texts: Sequence[tuple[str, Sequence[int]]] = ()
    pairs_sha256: str | None = None
    texts_sha256: str | None = None
    datasets: tuple[str, ...] = ()
    fixed: Sequence[Sequence[int]] = ()
    begins: bool = False

    @property
    def kept(self) -> Sequence[TokenPair]:
        """The pairs, none where there are none."""
        return self.pairs.pairs if self.pairs else ()

    @property
    def longest(self) -> int:
        """The tokens of the longest sentence or text, 0 where there are none."""
        lengths = [len(ids) for pair in self.kept for ids in (pair.ids0, pair.ids1)]
        return max(lengths + [len(ids) for _, ids in self.texts], default=0)

    def summary(self) -> dict[str, Any]:
        """Return the entry ``calibration`` of the manifest."""
        return {
            "pairs_sha256": self.pairs_sha256,
            "texts_sha256": self.texts_sha256,
            **({"datasets": list(self.datasets)} if self.datasets else {}),
            "pairs_kept": len(self.kept),
            "pairs_dropped": self.pairs.dropped if self.pairs else 0,
            "categories": self.pairs.counts if self.pairs else {},
            "tokens": {
                "pairs": sum(len(pair.ids0) + len(pair.ids1) for pair in self.kept),
                "texts": sum(len(ids) for _, ids in self.texts),
            },
        }

    def token_digest(self) -> str:
        """Return a digest of the token ids, their order, their matches and their categories.

        Counterfactuals count where there are any.
        """
        rows = [
            [list(p.ids0), list(p.ids1), [list(m) for m in p.matches], p.category]
            + ([p.target, p.counterfactuals, p.unrelated] if p.counterfactuals else [])
            for p in self.kept
        ]
        return digest([rows, [list(ids) for _, ids in self.texts]])

    def token_ids(self) -> Tensor:
        """Return all token ids in one tensor."""
        ids = [k for pair in self.kept for k in (*pair.ids0, *pair.ids1)]
        return torch.tensor(ids + [k for _, text in self.texts for k in text])


@dataclass(frozen=True)
class Plan:
    """How the tokens of one batch enter the sums.

    weights: (t,) float32, how often token t counts in ``X Xᵀ``: in how many sentences it
        stands, 0 for what fills a row.
    first, second: (m,) int64, tokens of the two sentences that are subtracted.
    bias: (m,) float32, the bias weight of each of these matches.
    """

    weights: Tensor
    first: Tensor
    second: Tensor
    bias: Tensor

    @cached_property
    def scale(self) -> Tensor:
        """(t, 1) float32: what the rows of ``X``, of sums and differences, are multiplied by."""
        scale = self.weights.sqrt()
        scale[self.first] = 0.5**0.5
        scale[self.second] = (0.5 + 2 * self.bias).sqrt()
        return scale.unsqueeze(1)

    def to(self, device: str) -> "Plan":
        """Return the plan on another device."""
        return Plan(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PackedPart:
    """Rows of one length for one forward call.

    ids: (r, l) int64. positions: (r, l) int64 and bits, of ``visible``; both None for plain causal
    rows.
    """

    ids: Tensor
    positions: Tensor | None = None
    bits: np.ndarray | None = None

    @property
    def visible(self) -> Tensor | None:
        """(r, l, l) bool: token t of a row may attend to its token u."""
        if self.bits is None:
            return None
        seen = np.unpackbits(self.bits, axis=-1, count=self.ids.shape[1])
        return torch.from_numpy(seen.view(bool))


@dataclass(frozen=True)
class Batch:
    """Parts whose tokens, flattened one after the other, are the rows of ``plan``.

    ``items[p][t]`` is the id of the calibration item of token t of part p; of one that several
    pairs share, the first's. Tokens that fill a row count with weight 0.
    """

    parts: list[PackedPart]
    plan: Plan
    items: list[list[str]]


def pack_pairs(
    pairs: Sequence[TokenPair], bias: Sequence[float], shared_prefix: bool, tokens: int = TOKENS
) -> list[Batch]:
    """Return batches of pairs; ``bias`` holds each pair's bias weight (0 = plain SparseGPT)."""
    entries = list(zip(pairs, bias, strict=True))
    if shared_prefix:
        return _shared_batches(entries, tokens)
    alike: dict[tuple[int, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        alike[len(entry[0].ids0), len(entry[0].ids1)].append(entry)
    batches = []
    for lengths in sorted(alike):
        same, size = alike[lengths], max(1, tokens // sum(lengths))
        batches += [_sentence_batch(same[k : k + size]) for k in range(0, len(same), size)]
    return batches


def pack_texts(texts: Sequence[tuple[str, Sequence[int]]], tokens: int = TOKENS) -> list[Batch]:
    """Return batches of unpaired texts ``(id, token ids)``, each one row with weight 1."""
    alone = [TokenPair(name, "", tuple(ids), (), ()) for name, ids in texts]
    return pack_pairs(alone, [0.0] * len(alone), False, tokens)


def _plan(weights: list[float], matches: list[tuple[int, int, float]]) -> Plan:
    """Return the plan of a batch; matches without bias weight are plain tokens."""
    matches = [match for match in matches if match[2] > 0]
    first, second, bias = zip(*matches) if matches else ((), (), ())
    one, two = (torch.tensor(tokens, dtype=torch.int64) for tokens in (first, second))
    return Plan(torch.tensor(weights), one, two, torch.tensor(bias, dtype=torch.float32))


def _prefix(pair: TokenPair) -> tuple[int, ...]:
    return tuple(pair.ids0[: common_prefix(pair.ids0, pair.ids1)])


def _shared_batches(entries: Sequence[Entry], tokens: int) -> list[Batch]:
    """Return batches of rows; a row has one pair, or at most ``ROW`` tokens."""
    rows: list[_Tree] = []
    for pair, bias in sorted(entries, key=lambda entry: _prefix(entry[0])):
        if not rows or len(rows[-1].ids) + rows[-1].added(pair) > min(ROW, tokens):
            rows.append(_Tree())
        rows[-1].add(pair, bias)
    rows.sort(key=lambda tree: len(tree.ids), reverse=True)
    batches = []
    while rows:
        length = _length(len(rows[0].ids))
        size = max(1, tokens // length)
        batches.append(_shared_batch(rows[:size], length))
        rows = rows[size:]
    return batches


def _length(count: int) -> int:
    """Return the length of a row of ``count`` tokens with what fills it, 3 % of StereoSet's rows.

    A CPU's products make their code for each shape that comes, as long as they keep few: for a
    block of SmolLM2 that took a sixth of the forward passes.
    """
    step = max(1, (1 << (count - 1).bit_length()) // (2 * LENGTHS))
    return -(-count // step) * step


def _shared_batch(trees: Sequence["_Tree"], length: int) -> Batch:
    for tree in trees:
        tree.fill(length)
    part = PackedPart(
        torch.tensor([tree.ids for tree in trees]),
        torch.tensor([tree.positions for tree in trees]),
        np.stack([np.packbits(tree.visible(), axis=-1) for tree in trees]),
    )
    weights = [weight for tree in trees for weight in tree.weights]
    matches = [
        (number * length + one, number * length + two, bias)
        for number, tree in enumerate(trees)
        for one, two, bias in tree.matches
    ]
    items = [item for tree in trees for item in tree.items]
    return Batch([part], _plan(weights, matches), [items])


class _Tree:
    """One row: the tokens of some pairs, each after what it follows in its sentences."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.weights: list[float] = []
        self.items: list[str] = []
        self.matches: list[tuple[int, int, float]] = []  # where they stand, the bias weight
        self.prefix: tuple[int, ...] = ()
        self.path: list[int] = []  # where the tokens of ``prefix`` stand
        self.parts: list[tuple[int, int, list[int]]] = []  # tokens in a row, and what is above them

    def added(self, pair: TokenPair) -> int:
        """Return how many tokens a pair would add; in sorted order no other has more in common."""
        prefix = _prefix(pair)
        shared = len(prefix) + common_prefix(self.prefix, prefix)
        return len(pair.ids0) + len(pair.ids1) - shared

    def add(self, pair: TokenPair, bias: float) -> None:
        """Add a pair, and those of its matches that are not shared."""
        prefix = _prefix(pair)
        same = common_prefix(self.prefix, prefix)
        self.path = self._append(pair.id, self.path[:same], prefix[same:], 0.0)
        self.prefix = prefix
        for place in self.path:
            self.weights[place] += 2.0
        one, two = (
            self._append(pair.id, self.path, ids[len(prefix) :], 1.0)
            for ids in (pair.ids0, pair.ids1)
        )
        self.matches += [
            (one[t0], two[t1], bias) for t0, t1 in pair.matches if min(t0, t1) >= len(prefix)
        ]

    def _append(self, item: str, path: list[int], ids: Sequence[int], weight: float) -> list[int]:
        first, count = len(self.ids), len(ids)
        self.ids += ids
        self.positions += range(len(path), len(path) + count)
        self.weights += [weight] * count
        self.items += [item] * count
        self.parts.append((first, first + count, path))
        return [*path, *range(first, first + count)]

    def fill(self, length: int) -> None:
        """Fill the row up with tokens that count nothing and see themselves alone."""
        while len(self.ids) < length:
            self._append(self.items[-1], [], self.ids[:1], 0.0)

    def visible(self) -> np.ndarray:
        """Return which tokens each token may attend to, (l, l) bool."""
        mask = np.zeros((len(self.ids), len(self.ids)), dtype=bool)
        for start, stop, path in self.parts:
            mask[start:stop, path] = True
            mask[start:stop, start:stop] = np.tri(stop - start, dtype=bool)
        return mask


def _sentence_batch(entries: Sequence[Entry]) -> Batch:
    """Return a batch of alike long pairs, or of texts: pairs without a second sentence."""
    pairs = [pair for pair, _ in entries]
    sides = [[pair.ids0 for pair in pairs], [pair.ids1 for pair in pairs]]
    one, two = (len(side[0]) for side in sides)
    behind = len(pairs) * one
    matches = [
        (row * one + t0, behind + row * two + t1, bias)
        for row, (pair, bias) in enumerate(entries)
        for t0, t1 in pair.matches
    ]
    rows = [sides[0] + sides[1]] if one == two else [side for side in sides if side[0]]
    parts = [PackedPart(torch.tensor(side)) for side in rows]
    items = [[pair.id for pair, ids in zip(cycle(pairs), side) for _ in ids] for side in rows]
    return Batch(parts, _plan([1.0] * (behind + len(pairs) * two), matches), items)
