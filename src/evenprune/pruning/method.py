"""What a pruning method tells the engine, and what it reports of each matrix."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .hessian import Gram, SquareNorms
from .masks import Regime
from .options import Options


@dataclass(frozen=True)
class Report:
    """What pruning one matrix did.

    loss: the sum of the scores of what was removed, each method's own. damping, precision and
    condition are of the Hessian's factor, None for a method without one.
    """

    loss: float
    dead_columns: int = 0
    damping: float | None = None
    precision: str | None = None
    condition: float | None = None


class Method(ABC):
    """One way to choose the weights that go and, maybe, to change those that stay.

    ``statistic`` is what the engine sums over the calibration text for each input of linears;
    None for a method without calibration text.
    """

    statistic: type[Gram] | type[SquareNorms] | None = None

    def implementation(self, device: torch.device) -> str | None:
        """Return which of several forms of the method runs on a device; None if it has but one.

        It may decide the last bits of the result, so a run is continued with the same one only.
        """
        return None

    def pair_weights(self, options: Options, count: int) -> list[float]:
        """Return the bias weight of each of ``count`` pairs in file order; 0 is two texts."""
        return [0.0] * count

    @abstractmethod
    def prune(
        self,
        matrices: Sequence[Tensor],
        statistic: Tensor | None,
        regime: Regime,
        options: Options,
        name: str,
    ) -> list[tuple[Tensor, Report]]:
        """Return pruned copies of matrices that share their input, with their reports.

        matrices: (n_i, d) of any floating dtype, which the copies keep; statistic: the result
        of ``self.statistic`` for their input; name: the first of them, for errors. Zeros are
        +0.0.
        """

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return how many weights of an (n, d) matrix are compared at a time, unstructured.

        The whole matrix, unless a method says otherwise.
        """
        return [shape[0] * shape[1]]

    def least_zeros(self, shape: tuple[int, int], regime: Regime, options: Options) -> int:
        """Return how many zeros a pruned (n, d) matrix has at least."""
        if regime.structured:
            return regime.count(shape[0] * shape[1])
        return sum(regime.count(size) for size in self.comparison_groups(shape, options))
