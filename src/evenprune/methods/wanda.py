"""Method `wanda`: the smallest weights by |w| times the norm of their input, no weight update.

Sun et al. 2024, "A Simple and Effective Pruning Approach for Large Language Models".
"""

from collections.abc import Iterable

from torch import Tensor

from ..config.facts import RegimeFacts
from .hessian import SquareNorms
from .masks import group_mask, smallest_per_row, zeros_of
from .method import Method
from .metric import Group, Solved
from .options import Options


def wanda_mask(weight: Tensor, square_norms: Tensor, regime: RegimeFacts) -> Tensor:
    """Return the mask of weights to zero by ``|w| * ||X_j||`` (Sun et al. 2024, Eq. 1).

    ``weight`` is (n, d), ``square_norms`` (d,) holds ``||X_j||²``. Compared per N:M group, or
    within each row.
    """
    scores = weight.abs() * square_norms.sqrt()
    if regime.structured:
        return group_mask(scores, regime)
    return smallest_per_row(scores, zeros_of(regime, scores.shape[1]))


class Wanda(Method):
    """The loss is ``Σ (|w| ‖X_j‖)²``."""

    statistic = SquareNorms

    def solve(self, group: Group, regime: RegimeFacts, options: Options) -> Solved:
        """Prune each matrix on its own."""
        norms, results = group.square_norms, []
        for weight in group.weights:
            mask = wanda_mask(weight.float(), norms, regime)
            loss = (weight.float().square() * norms)[mask].sum()
            results.append((weight.masked_fill(mask, 0.0), group.report(float(loss))))
        return results

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return the length of each row."""
        return [shape[1]] * shape[0]


METHOD = Wanda()
