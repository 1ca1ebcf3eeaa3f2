"""Token rows that begin alike as a tree, each token of which sees those before it in its rows.

Short sentences about one context share half of their tokens, which so are computed once.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of leading tokens that two rows share."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(first, second)))


class Tree(NamedTuple):
    """Rows of tokens but their last ones, common beginnings once.

    ``tokens`` are the nodes', ``then`` the tokens that come after each; ``paths`` are the nodes of
    each row.
    """

    tokens: list[int]
    then: list[dict[int, None]]
    paths: list[list[int]]


def merged(rows: Sequence[Sequence[int]]) -> Tree:
    """Return rows as a tree."""
    numbers: dict[tuple[int, int], int] = {}
    found = Tree([], [], [])
    for row in rows:
        node, path = -1, []
        for token, then in pairwise(row):
            node = numbers.setdefault((node, token), len(numbers))
            if node == len(found.tokens):
                found.tokens.append(token)
                found.then.append({})
            found.then[node][then] = None
            path.append(node)
        found.paths.append(path)
    return found


def visible(trees: Sequence[Tree]) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return which nodes each node sees, bool (trees, l, l), and its position (trees, l).

    What fills a tree up to the longest one's l sees itself.
    """
    import torch

    size = max(len(one.tokens) for one in trees)
    seen = torch.eye(size, dtype=torch.bool).repeat(len(trees), 1, 1)
    for own, one in zip(seen, trees):
        for path in map(torch.tensor, one.paths):
            own[path[:, None], path] = torch.ones(len(path), len(path), dtype=torch.bool).tril()
    return seen, seen.sum(2) - 1
