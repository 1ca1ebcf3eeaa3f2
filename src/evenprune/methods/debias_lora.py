"""Method `debias-lora`: another method prunes, then low-rank changes of what is left are trained
until the sentence pairs depend less on the group that they are about.

See ``methods/tuning.py`` for the loss. Trained before pruning, such changes lower association as
much, but a pruning of other weights leaves a perplexity by chance 1 or 2 % higher or lower.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ..blocks.base_model import BaseModel
from ..blocks.packing import Text
from ..config.facts import DENSE, RegimeFacts
from .contexts import contexts_of, split_texts
from .hessian import Gram
from .magnitude import METHOD as MAGNITUDE
from .method import Method
from .metric import Group, Solved
from .options import Options
from .sparsegpt import METHOD as SPARSEGPT
from .tuning import adapt
from .wanda import METHOD as WANDA

SOLVERS: dict[str, Method] = {"sparsegpt": SPARSEGPT, "wanda": WANDA, "magnitude": MAGNITUDE}


class DebiasLora(Method):
    """The method that the option ``solver`` names prunes; then low-rank changes are trained.

    In the regime ``dense`` there is nothing to prune.
    """

    statistic = Gram
    experts = False

    def check_text(self, text: Text) -> None:
        """Raise UserError for pairs without counterfactuals, and texts without two tokens."""
        contexts_of(text.kept)
        if text.texts:
            split_texts([[tuple(ids)] for _, ids in text.texts])

    def shift(
        self, base: BaseModel, text: Text, options: Options, folder: Path
    ) -> dict[str, Any] | None:
        """Train and merge, finished work from ``folder``; return what was done."""
        return adapt(base, text.kept, [tuple(ids) for _, ids in text.texts], options, folder)

    def implementation(self, device: torch.device, options: Options) -> str | None:
        """Return the solver's form; dense, there is none."""
        if options.regime == DENSE:
            return None
        return SOLVERS[options.solver].implementation(device, options)

    def solve(self, group: Group, regime: RegimeFacts, options: Options) -> Solved:
        """Prune as the solver's method does."""
        return SOLVERS[options.solver].solve(group, regime, options)

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return those of the solver."""
        return SOLVERS[options.solver].comparison_groups(shape, options)


METHOD = DebiasLora()
