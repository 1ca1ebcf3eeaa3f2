"""What a pruning method tells the engine: what it sums, and how it prunes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..blocks.base_model import BaseModel
from ..blocks.packing import Text
from ..config.facts import DENSE, RegimeFacts
from .hessian import Gram, SquareNorms
from .masks import zeros_of
from .metric import Group, Solved, stored_form
from .options import Options
from .refit import improve

Statistic = type[Gram] | type[SquareNorms]


class Method(ABC):
    """One way to choose the weights that go and, maybe, to change those that stay.

    ``statistic`` is what the engine sums over the calibration text for each input of linears;
    None for a method without calibration text.
    """

    statistic: Statistic | None = None
    experts = True  # whether it prunes matrices that only some tokens go through

    def summed(self, options: Options) -> Statistic | None:
        """Return what is summed with these options; None where nothing is needed."""
        if options.regime == DENSE:
            return None
        return Gram if options.improves else self.statistic

    def check_text(self, text: Text) -> None:
        """Raise UserError for text that the method can do nothing with, before it prunes."""
        return

    def shift(
        self, base: BaseModel, text: Text, options: Options, folder: Path
    ) -> dict[str, Any] | None:
        """Change the pruned model as a whole, but no zero of it; return what was done.

        ``base.stored`` says where its tensors are, and in the end where those changed are. What is
        finished lies in ``folder``, from where a killed run continues. Only methods that shift
        weights do anything here.
        """
        return None

    def implementation(self, device: torch.device, options: Options) -> str | None:
        """Return which of several forms of the method runs on a device; None if it has but one.

        It may decide the last bits of the result, so a run is continued with the same one only.
        """
        return None

    def pair_weights(self, options: Options, count: int) -> list[float]:
        """Return the bias weight of each of ``count`` pairs in file order; 0 is two texts."""
        return [0.0] * count

    @abstractmethod
    def solve(self, group: Group, regime: RegimeFacts, options: Options) -> Solved:
        """Return a group's matrices pruned, of any floating dtype, with their reports."""

    def prune(
        self,
        matrices: Sequence[Tensor],
        total: Tensor | None,
        regime: RegimeFacts,
        options: Options,
        names: Sequence[str],
    ) -> Solved:
        """Return pruned copies of matrices that share their input, with their reports.

        matrices: (n_i, d) of any floating dtype; total: the result of ``summed`` for their input,
        which is left as it is; names: the matrices' full module names. The copies have the
        matrices' dtypes; zeros are +0.0. In a regime without zeros they are the matrices.
        """
        statistic = torch.empty(0) if total is None else total
        group = Group(matrices, statistic, options.damping, names[0])
        if regime.zeros:
            solved = self.solve(group, regime, options)
        else:
            solved = [(weight, group.report(0.0)) for weight in matrices]
        if regime.zeros and options.improves:
            solved = improve(solved, group, options)
        return [
            (stored_form(weight, original.dtype), report)
            for (weight, report), original in zip(solved, matrices, strict=True)
        ]

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return how many weights of an (n, d) matrix are compared at a time, unstructured.

        The whole matrix, unless a method says otherwise.
        """
        return [shape[0] * shape[1]]

    def least_zeros(self, shape: tuple[int, int], regime: RegimeFacts, options: Options) -> int:
        """Return how many zeros a pruned (n, d) matrix has at least."""
        if regime.structured:
            return zeros_of(regime, shape[0] * shape[1])
        return sum(zeros_of(regime, size) for size in self.comparison_groups(shape, options))
