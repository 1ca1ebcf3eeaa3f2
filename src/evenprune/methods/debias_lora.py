"""Method `debias-lora`: low-rank changes of the weights are trained until the sentence pairs depend
less on the group that they are about, then another method prunes.

See ``methods/adapters.py`` for the loss. The changes are merged before the blocks are pruned one by
one, with the Hessians of the changed model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..blocks.base_model import BaseModel
from ..blocks.packing import Text
from ..io.errors import UserError
from .adapters import adapt
from .hessian import Gram
from .method import Statistic
from .options import Options
from .shifting import Shifting


class DebiasLora(Shifting):
    """Trained low-rank changes before a solver prunes."""

    experts = False

    def statistics(self, options: Options, modules: Sequence[str]) -> tuple[Statistic, ...]:
        """Return H for the solver; nothing where nothing is pruned."""
        return () if options.regime == "dense" else (Gram,)

    def check(self, options: Options, modules: Sequence[str]) -> None:
        """Raise UserError for padded pairs, whose padding would count as text."""
        if options.alignment == "pad":
            raise UserError(
                "debias-lora compares the probabilities of sentences as they are, but alignment "
                "is 'pad'; choose 'suffix', which keeps every pair, or 'equal-length'"
            )

    def prepare(
        self, base: BaseModel, text: Text, options: Options, folder: Path
    ) -> dict[str, Any] | None:
        """Train and merge, finished work from ``folder``; return what was done."""
        return adapt(base, text.kept, [tuple(ids) for _, ids in text.texts], options, folder)


METHOD = DebiasLora()
