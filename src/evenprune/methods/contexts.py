"""Contexts: pairs of sentences about a group, the same about other groups, and what is held out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from ..data.calibration import TokenPair
from ..io.errors import UserError
from ..io.files import digest
from ..models.token_trees import merged

PASS = 384  # tokens in one pass, and at most a context more
TEXT_TOKENS = 96  # of a text at most
HELD_OUT = 0.2  # share of the groups, and of the texts
JUDGED = 32  # contexts, and texts, held out that are looked at, at most
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Context:
    """A pair of sentences about its own group ``target``, then the same about other groups.

    ``unrelated`` is the third sentence about the own group; () for none.
    """

    target: str
    pairs: tuple[tuple[Ids, Ids], ...]
    unrelated: Ids = ()

    @property
    def own(self) -> list[Ids]:
        """The sentences about the own group: two, or three."""
        return [*self.pairs[0], *([self.unrelated] if self.unrelated else [])]

    @property
    def own_tokens(self) -> int:
        """How many tokens the sentences about the own group take."""
        return len(merged(self.own).tokens)

    @property
    def tokens(self) -> int:
        """How many tokens it takes at most, with one other group."""
        return self.own_tokens + max(len(merged(pair).tokens) for pair in self.pairs[1:])


def contexts_of(pairs: Sequence[TokenPair]) -> list[Context]:
    """Return the pairs that have counterfactuals; UserError where none has."""
    found = [
        Context(pair.target, ((pair.ids0, pair.ids1), *pair.counterfactuals), pair.unrelated)
        for pair in pairs
        if pair.counterfactuals
    ]
    if not found:
        raise UserError(
            f"expected pairs with counterfactuals, the same sentences about other groups, but none "
            f"of the {len(pairs)} pairs has any; give your pairs the field counterfactuals, or a "
            "calibration the key (counterfactuals: 4)"
        )
    return found


def split(contexts: Sequence[Context], seed: int) -> tuple[list[Context], list[Context]]:
    """Return the contexts that are learned from, and those whose groups are held out.

    Which groups these are depends on the seed and their names only. With fewer than five groups
    none is held out.
    """
    names = sorted({one.target for one in contexts}, key=lambda name: digest([seed, name]))
    held = set(names[: int(HELD_OUT * len(names))])
    used = [one for one in contexts if one.target not in held]
    return used, [one for one in contexts if one.target in held][:JUDGED]


def split_texts(groups: Sequence[Sequence[Ids]]) -> tuple[list[Ids], list[Ids]]:
    """Return the texts that are learned from, and those of every fifth group, held out.

    Of four groups both have all. Raises UserError for texts without two tokens.
    """
    usable = [[ids[:TEXT_TOKENS] for ids in texts if len(ids) > 1] for texts in groups]
    usable = list(filter(None, usable))
    if not usable:
        raise UserError("expected texts of at least two tokens, found none; give longer ones")
    if HELD_OUT * len(usable) < 1:
        return list(chain(*usable)), list(chain(*usable))
    every = round(1 / HELD_OUT)
    learned = [ids for k, texts in enumerate(usable) if k % every for ids in texts]
    return learned, list(chain(*usable[::every]))[:JUDGED]


def passes(contexts: Sequence[Context], own: bool = False) -> list[list[Context]]:
    """Return contexts in as few passes of alike many tokens as ``PASS`` asks for.

    ``own``: passes over the sentences about the own group alone.
    """
    tokens = [one.own_tokens if own else one.tokens for one in contexts]
    count = math.ceil(sum(tokens) / PASS)
    found: list[list[Context]] = [[] for _ in range(count)]
    for one, until in zip(contexts, accumulate(tokens), strict=True):
        found[(until - 1) * count // sum(tokens)].append(one)
    return [some for some in found if some]
