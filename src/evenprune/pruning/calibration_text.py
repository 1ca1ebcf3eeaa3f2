"""The tokenised calibration text of one run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..base.files import digest
from ..data.calibration import TokenizedPairs, TokenPair


@dataclass(frozen=True)
class Text:
    """Tokenised calibration text and the digests of the files it came from.

    texts: (id, token ids) of the unpaired ones; datasets: the hub repositories that all of it is
    from, as far as they are known.
    """

    pairs: TokenizedPairs | None = None
    texts: Sequence[tuple[str, Sequence[int]]] = ()
    pairs_sha256: str | None = None
    texts_sha256: str | None = None
    datasets: tuple[str, ...] = ()

    @property
    def kept(self) -> Sequence[TokenPair]:
        """The pairs, none where there are none."""
        return self.pairs.pairs if self.pairs else ()

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
            + ([p.target, p.counterfactuals] if p.counterfactuals else [])
            for p in self.kept
        ]
        return digest([rows, [list(ids) for _, ids in self.texts]])

    def lengths(self) -> Iterator[tuple[str, int]]:
        """Yield the id of every item and the number of tokens of its longest sequence."""
        for pair in self.kept:
            yield pair.id, max(len(pair.ids0), len(pair.ids1))
        for name, ids in self.texts:
            yield name, len(ids)

    def token_ids(self) -> Tensor:
        """Return all token ids in one tensor."""
        ids = [k for pair in self.kept for k in (*pair.ids0, *pair.ids1)]
        return torch.tensor(ids + [k for _, text in self.texts for k in text])
