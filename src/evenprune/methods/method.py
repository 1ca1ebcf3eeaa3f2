"""What a pruning method tells the engine: its target and metric, and the solver that prunes it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..blocks.base_model import BaseModel
from ..blocks.packing import Text
from .hessian import Differences, Gram, SquareNorms
from .masks import Regime
from .options import Options
from .refit import improve
from .target import InputMetric, Report, Target, finished, unshifted

Statistic = type[Gram] | type[Differences] | type[SquareNorms]


class Method(ABC):
    """One way to choose the weights that go and, maybe, to change those that stay.

    ``statistic`` is what the engine sums over the calibration text for each input of linears;
    None for a method without calibration text.
    """

    statistic: Statistic | None = None
    experts = True  # whether it prunes matrices that only some tokens go through

    def statistics(self, options: Options, modules: Sequence[str]) -> tuple[Statistic, ...]:
        """Return what is summed for the input that ``modules`` (names in a block) share."""
        if options.improves:
            return (Gram,)
        return (self.statistic,) if self.statistic else ()

    def parts(self, options: Options, modules: Sequence[str]) -> list[list[str]]:
        """Return modules of one input in parts that have one target and metric each."""
        return [list(modules)]

    def check(self, options: Options, modules: Sequence[str]) -> None:  # noqa: B027
        """Raise UserError where the options do not fit a model's modules (full names)."""

    def prepare(
        self, base: BaseModel, text: Text, options: Options, folder: Path
    ) -> dict[str, Any] | None:
        """Change the model as a whole before its blocks are pruned; return what was done.

        What is finished lies in ``folder``, from where a killed run continues. Most methods do
        nothing here.
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

    def differences(self, options: Options) -> bool:
        """Return whether matched tokens enter a ``D`` of their own (``pack_pairs``)."""
        return False

    def target(
        self,
        matrices: Sequence[Tensor],
        statistics: Sequence[Tensor],
        options: Options,
        names: Sequence[str],
    ) -> Target:
        """Return W* and H' for matrices (n_i, d) of any floating dtype that share their input.

        statistics: the results of ``self.statistics`` for that input, which may be changed in
        place; names: the matrices' full module names. Here W* is W and H' the first statistic.
        """
        metric = InputMetric(statistics[0], options.damping, names[0]) if statistics else None
        return unshifted(matrices, metric)

    @abstractmethod
    def solve(
        self, target: Target, regime: Regime, options: Options
    ) -> list[tuple[Tensor, Report]]:
        """Return the target's matrices pruned, of any floating dtype, with their reports."""

    def prune(
        self,
        matrices: Sequence[Tensor],
        statistics: Sequence[Tensor],
        regime: Regime,
        options: Options,
        names: Sequence[str],
    ) -> list[tuple[Tensor, Report]]:
        """Return pruned copies of matrices that share their input, with their reports.

        Arguments as for ``target``. The copies have the matrices' dtypes; zeros are +0.0. In a
        regime without zeros they are W*.
        """
        target = self.target(matrices, statistics, options, names)
        if not regime.zeros:
            solved = [(weight, target.report(0.0)) for weight in target.weights]
            return finished(solved, target, matrices)
        solved = self.solve(target, regime, options)
        if options.improves:
            dtypes = [matrix.dtype for matrix in matrices]
            solved = improve(solved, target, options, dtypes)
        return finished(solved, target, matrices)

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
