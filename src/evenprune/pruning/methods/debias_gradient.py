"""Method `debias-gradient`: the weights take small steps against a loss of the sentence pairs, the
mean square of the gap between their log-probabilities, then another method prunes.

A step is ``W - η G H⁻¹`` with ``G = ∂L/∂W``: ``min ‖(W - Ŵ)X‖² + δ‖Ŵ - W‖² + 2η tr(GᵀŴ)``. The
gradient goes through the whole model, so the steps are taken before the blocks are pruned one by
one (``pruning/shift.py``); what is pruned is the shifted model, with its own Hessians. With
``gradient_when`` "after" the other method prunes first, and the steps move the weights that it has
left, with the Hessians of the pruned model. In the regime ``dense`` both are the same.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ..base_model import BaseModel
from ..calibration_text import Text
from ..hessian import Gram
from ..method import Statistic
from ..options import Options
from ..shift import Shift
from ..shift_settings import Settings
from ..shifting import Shifting


class DebiasGradient(Shifting):
    """Steps against the bias loss before or after a solver prunes."""

    experts = False

    def statistics(self, options: Options, modules: Sequence[str]) -> tuple[Statistic, ...]:
        """Return H for the solver; nothing where nothing is pruned."""
        return () if options.regime == "dense" else (Gram,)

    def check(self, options: Options, modules: Sequence[str]) -> None:
        """Raise UserError for padded pairs, whose padding would count as text."""
        if options.alignment == "pad":
            raise UserError(
                "debias-gradient compares the probabilities of sentences as they are, but "
                "alignment is 'pad'; choose 'suffix', which keeps every pair, or 'equal-length'"
            )

    def prepare(
        self, base: BaseModel, text: Text, options: Options, folder: Path
    ) -> dict[str, Any] | None:
        """Take the steps where they come first; return what was done."""
        return None if _after(options) else _steps(base, text, options, folder, masked=False)

    def complete(
        self, base: BaseModel, text: Text, options: Options, folder: Path
    ) -> dict[str, Any] | None:
        """Take the steps where they come last; return what was done."""
        return _steps(base, text, options, folder, masked=True) if _after(options) else None


def _after(options: Options) -> bool:
    """Return whether the steps are those of a model that has been pruned."""
    return options.gradient_when == "after" and options.regime != "dense"


def _steps(
    base: BaseModel, text: Text, options: Options, folder: Path, masked: bool
) -> dict[str, Any]:
    """Take the steps, finished ones from ``folder``; return what was done."""
    settings = Settings(
        steps=options.gradient_steps,
        step=options.gradient_step,
        loss=options.gradient_loss,
        holdout=options.gradient_holdout,
        damping=options.damping,
        seed=options.seed,
        max_perplexity=options.gradient_max_perplexity,
    )
    assert text.pairs is not None
    return Shift(base, text.pairs.pairs, text.texts, settings, folder, masked).run()


METHOD = DebiasGradient()
