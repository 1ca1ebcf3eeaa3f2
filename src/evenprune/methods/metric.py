"""What a solver is given: matrices, and what a distance from them counts.

The objective is ``tr((Ŵ - W) H' (Ŵ - W)ᵀ)``: any solver (magnitude, Wanda, the column loop of
SparseGPT) prunes W in the metric H'.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..io.errors import UserError
from .factor import Factor, NotPositiveDefinite, damp, inverse_factor


@dataclass(frozen=True)
class Report:
    """What pruning one matrix did.

    loss: the sum of the scores of what was removed, each solver's own. damping, precision and
    condition are of the metric's factor, None without one. loss_before, loss_after: ``tr(E H' Eᵀ)``
    with ``E = Ŵ - W`` before and after the kept weights were refitted, as stored; None where they
    were not.
    """

    loss: float
    dead_columns: int = 0
    damping: float | None = None
    precision: str | None = None
    condition: float | None = None
    loss_before: float | None = None
    loss_after: float | None = None


class Group:
    """Matrices W (n_i, d) that share their input, and the metric H' of it, damped when it is used.

    statistic: H' (d, d) float32 without damping, or its diagonal (d,) alone, left as it is; (0,)
    where no text was needed. damping: share of the mean diagonal that is added to it; name: of a
    layer, for errors.
    """

    def __init__(
        self, weights: Sequence[Tensor], statistic: Tensor, damping: float, name: str
    ) -> None:
        self.weights, self.statistic = weights, statistic
        self.asked, self.name = damping, name

    @property
    def square_norms(self) -> Tensor:
        """The diagonal of H', (d,)."""
        return self.statistic.diagonal() if self.statistic.ndim == 2 else self.statistic

    @cached_property
    def dead(self) -> Tensor:
        """Which inputs (d,) bool are zero for all calibration text."""
        return self.square_norms == 0

    @cached_property
    def dead_columns(self) -> int:
        """How many these are."""
        return int(self.dead.sum())

    @cached_property
    def factor(self) -> Factor:
        """U with ``UᵀU = H'⁻¹``; UserError naming the layer where H' is not positive definite."""
        if self.dead_columns == len(self.dead):
            raise UserError(
                f"every input of {self.name} is zero for all calibration text, so that nothing of "
                "it would be kept; the weights before it are damaged: fetch the model again"
            )
        try:
            return inverse_factor(self.statistic, self.asked)
        except NotPositiveDefinite:
            raise UserError(
                f"the Hessian of {self.name} is not positive definite, even with 1000 times the "
                f"damping {self.asked} and in float64; use more calibration text or a larger "
                "--damping"
            ) from None

    def damped(self) -> Tensor:
        """Return H' (d, d) with as much damping as its factor needed, if it has been asked for."""
        known = self.__dict__.get("factor")
        return damp(self.statistic.clone(), known.damping if known else self.asked)

    def report(self, loss: float) -> Report:
        """Return a report with the metric's facts."""
        known = self.__dict__.get("factor")
        facts = (known.damping, known.precision, known.condition) if known else ()
        return Report(loss, self.dead_columns, *facts)


Solved = list[tuple[Tensor, Report]]  # pruned matrices


def stored_form(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a matrix as it will be stored: rounded to ``dtype``, every zero +0.0."""
    # A kept weight may round to -0.0 in a narrow dtype; with 0.0 added it is +0.0.
    return weight.to(dtype).contiguous().add(0.0)
