"""Method `debias-erase`: what two sentences of a pair make different in the outputs of some layers
is drawn towards zero, then another method prunes.

The target minimises ``‖(W - Ŵ)X‖² + λ‖(Ŵ - γW)Δ‖² + δ‖Ŵ - W‖²``. With ``H = Σ X Xᵀ`` over all
calibration tokens, ``D = Σ Δ Δᵀ`` over the matched tokens of the pairs and ``H' = H + λD + δI``
this is ``W* = W - λ(1 - γ) W D H'⁻¹``. γ, the share of the difference to keep, is 1 for the term of
Debias-SparseGPT (λ = 2b) and 0 for the idea of Fair-GPTQ; above 1 the difference grows.
"""

from collections.abc import Sequence

from torch import Tensor

from ..io.errors import UserError
from .hessian import Differences, Gram
from .method import Statistic
from .options import Options
from .shifting import Shifting, relative_change
from .target import InputMetric, Target, unshifted


class DebiasErase(Shifting):
    """λ counts a difference of a matched token beside the output of a token, both as they are.

    It is not scaled by ``tr H / tr D``: that is ruled by the huge activations of the first token,
    where sentences do not differ, and would change with every layer and every text added.
    """

    def parts(self, options: Options, modules: Sequence[str]) -> list[list[str]]:
        """Return the modules to change and the others apart: their metrics differ."""
        chosen = [name for name in modules if self._chosen(options, name)]
        others = [name for name in modules if name not in chosen]
        return [part for part in (chosen, others) if part]

    def statistics(self, options: Options, modules: Sequence[str]) -> tuple[Statistic, ...]:
        """Return H, with D for modules to change; nothing for those that stay as they are."""
        if self._chosen(options, modules[0]):
            return (Gram, Differences)
        return () if options.regime == "dense" else (Gram,)

    def check(self, options: Options, modules: Sequence[str]) -> None:
        """Raise UserError for a suffix in ``erase_modules`` that no module ends in."""
        for suffix in options.erase_modules:
            if not any(_ends(name, suffix) for name in modules):
                ends = sorted({name.rpartition(".")[2] for name in modules})
                raise UserError(
                    f"expected --erase-modules to name linear layers of the model's decoder "
                    f"blocks, got {suffix!r}; they are called {', '.join(ends)}"
                )

    def differences(self, options: Options) -> bool:
        """Return whether there is a D: not where it weighs nothing."""
        return options.erase_strength > 0

    def target(
        self,
        matrices: Sequence[Tensor],
        statistics: Sequence[Tensor],
        options: Options,
        names: Sequence[str],
    ) -> Target:
        """Return ``W - λ(1 - γ) W D H'⁻¹`` and ``H' = H + λD``; plain ones without D."""
        if len(statistics) < 2:
            return super().target(matrices, statistics, options, names)
        gram, differences = statistics
        strength = options.erase_strength
        metric = InputMetric(gram.add(differences, alpha=strength), options.damping, names[0])
        share = strength * (1 - options.erase_keep)
        if not share:
            return unshifted(matrices, metric)
        weights: list[Tensor] = []
        shifts: list[float | None] = []
        for matrix in matrices:
            weight = matrix.float()
            change = metric.times_inverse(weight @ differences).mul_(-share)
            weights.append(weight + change)
            shifts.append(relative_change(change, weight, gram))
        return Target(weights, metric, shifts)

    def _chosen(self, options: Options, module: str) -> bool:
        """Return whether the outputs of a module are changed."""
        return options.erase_strength > 0 and any(
            _ends(module, suffix) for suffix in options.erase_modules
        )


def _ends(name: str, suffix: str) -> bool:
    return name == suffix or name.endswith(f".{suffix}")


METHOD = DebiasErase()
