"""Method `debias-gradient`: the weights take small steps against a loss of the sentence pairs, the
mean square of the gap between their log-probabilities, then another method prunes.

A step is ``W - η G H⁻¹`` with ``G = ∂L/∂W``: ``min ‖(W - Ŵ)X‖² + δ‖Ŵ - W‖² + 2η tr(GᵀŴ)``. The
gradient goes through the whole model, so the steps are taken before the blocks are pruned one by
one (``pruning/shift.py``); what is pruned is the shifted model, with its own Hessians.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ..base_model import BaseModel
from ..hessian import Gram
from ..method import Statistic
from ..options import Options
from ..packing import Text
from ..shift import Shift
from ..shifting import Shifting


class DebiasGradient(Shifting):
    """Steps against the bias loss before a solver prunes."""

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
        """Take the steps, finished ones from ``folder``; return what was done."""
        assert text.pairs is not None
        return Shift(base, text.pairs.pairs, text.texts, options, folder).run()


METHOD = DebiasGradient()
