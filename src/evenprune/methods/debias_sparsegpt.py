"""Method `debias-sparsegpt`: Debias-SparseGPT: SparseGPT on a Hessian with a term for the
difference between the two sentences of a pair.
"""

from .options import Options
from .sparsegpt import SparseGPT


class DebiasSparseGPT(SparseGPT):
    """SparseGPT whose pairs have a bias weight."""

    def pair_weights(self, options: Options, count: int) -> list[float]:
        """Return the bias weight of each pair in file order.

        ``equation``: b for all. ``released-2025``: the running mean of the authors' code of
        November 2025, ``H ← H (n-2)/n + (2/n)(X0X0ᵀ + X1X1ᵀ) + 2 α ΔΔᵀ`` with n = 2k sentences
        seen, gives the k-th pair the weight ``α k``, up to a common factor that damping cancels.
        ``released-2026``: their code of August 2026 scales the difference with the mean,
        ``H ← H n/(n+2) + (2/(n+2))(X0X0ᵀ + X1X1ᵀ + α ΔΔᵀ)`` with n seen before: ``α/2`` for all.
        """
        if options.bias_scaling == "released-2025":
            return [options.bias_weight * (k + 1) for k in range(count)]
        if options.bias_scaling == "released-2026":
            return [options.bias_weight / 2] * count
        return [options.bias_weight] * count


METHOD = DebiasSparseGPT()
