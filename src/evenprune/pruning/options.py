"""The options of pruning: what each may be, and which of them a method uses. No torch here."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..base.errors import UserError, nearest
from ..data.calibration import ALIGNMENTS
from ..plan.facts import (
    BIAS_SCALINGS,
    DENSE,
    METHODS,
    REGIMES,
    SOLVERS,
    improves,
    is_calibrated,
    regime_facts,
    used_options,
)

PRUNING_METHODS = tuple(name for name in METHODS if name != "dense")
POSITIONS = ("full", "suffix")  # of differences: all matched tokens, or those behind the words
SEQUENTIALS = ("block", "module")
GRADIENT_LOSSES = ("sentence", "token", "augmentation", "text")
GRADIENT_WHEN = ("before", "after")  # a solver prunes
PACKINGS = ("shared-prefix", "sentences")

# Far above what float32 (24 bits) tells apart beside the plain term, far below its overflow.
MAX_BIAS_WEIGHT = 1e12
RELEASED_TOKENS = 100  # the released code of 2026 cuts each sentence there
MAX_STEPS = 1000  # of refitting, and of exchanges
# Options that came later than results: said only where they are not the default, which is what all
# did before, so that a result keeps its bytes.
LATER = ("erase_rank", "gradient_when")


@dataclass(frozen=True)
class Options:
    """Everything that decides the result, beside model and text.

    bias_weight is b of the Hessian, or α with the released code's scalings. packing is
    ``shared-prefix`` or ``sentences``. erase_strength is λ and erase_keep γ of debias-erase,
    erase_modules the ends of names of linears, erase_rank how many directions a category has (0:
    all). gradient_step is ε of debias-gradient, whose other
    options are those of ``shift_settings.Settings``. solver prunes the target of a method that
    shifts.
    """

    method: str
    regime: str
    bias_weight: float = 1.0
    bias_scaling: str = "equation"
    block_size: int = 128
    damping: float = 0.01
    alignment: str = "equal-length"
    sequential: str = "block"
    packing: str = "shared-prefix"
    refit_steps: int = 0
    swaps: int = 0
    solver: str = "sparsegpt"
    erase_strength: float = 1.0
    erase_keep: float = 0.0
    erase_modules: tuple[str, ...] = ("o_proj", "down_proj")
    erase_positions: str = "full"
    erase_rank: int = 0
    gradient_steps: int = 3
    gradient_step: float = 0.01
    gradient_loss: str = "sentence"
    gradient_holdout: float = 0.2
    gradient_max_perplexity: float = 0.0
    gradient_when: str = "before"
    seed: int = 0

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> "Options":
        """Return the options of a manifest; those that its method does not use are defaults.

        Raises KeyError, TypeError or ValueError for a manifest of another form.
        """
        given = dict.fromkeys(LATER) | manifest["options"]
        stored = {one.name: given[one.name] for one in fields(cls)[2:]}
        used = {name: value for name, value in stored.items() if value is not None}
        used["block_size"] = int(used.get("block_size", cls.block_size))
        if used["block_size"] < 1:
            raise ValueError(f"block_size {used['block_size']}")
        if "erase_modules" in used:
            used["erase_modules"] = tuple(used["erase_modules"])
        return cls(str(manifest["method"]), str(manifest["regime"]), **used)

    def check(self) -> None:
        """Raise UserError for a value outside its range."""
        regimes = (*REGIMES, DENSE)
        for name, value, allowed in (
            ("--method", self.method, PRUNING_METHODS),
            ("--regime", self.regime, regimes),
            ("--solver", self.solver, SOLVERS),
            ("--erase-positions", self.erase_positions, POSITIONS),
            ("--gradient-loss", self.gradient_loss, GRADIENT_LOSSES),
            ("--gradient-when", self.gradient_when, GRADIENT_WHEN),
            ("--bias-scaling", self.bias_scaling, BIAS_SCALINGS),
            ("--alignment", self.alignment, ALIGNMENTS),
            ("--sequential", self.sequential, SEQUENTIALS),
            ("--packing", self.packing, PACKINGS),
        ):
            if value not in allowed:
                raise UserError(
                    f"{name} must be one of {', '.join(allowed)}, got {value!r}"
                    f"{nearest(value, allowed)}"
                )
        if self.regime == DENSE and not METHODS[self.method].shifts:
            shifting = ", ".join(name for name, method in METHODS.items() if method.shifts)
            raise UserError(
                f"--regime {DENSE} takes no weights away, and {self.method} does nothing else; "
                f"give another regime, or a method that shifts the weights ({shifting})"
            )
        if self.cuts_pairs and self.alignment != "pad":
            raise UserError(
                f"--bias-scaling released-2026 is the authors' code of 2026, which pads the two "
                f"sentences of a pair; give --alignment pad, got {self.alignment}"
            )
        for name, number in (
            ("--bias-weight", self.bias_weight),
            ("--damping", self.damping),
            ("--erase-strength", self.erase_strength),
            ("--erase-keep", self.erase_keep),
            ("--gradient-max-perplexity", self.gradient_max_perplexity),
        ):
            if not (math.isfinite(number) and number >= 0):
                raise UserError(f"{name} must be a finite number of at least 0, got {number}")
        for name, number in (
            ("--bias-weight", self.bias_weight),
            ("--erase-strength", self.erase_strength),
        ):
            if number > MAX_BIAS_WEIGHT:
                raise UserError(
                    f"{name} must be at most {MAX_BIAS_WEIGHT:g}, got {number:g}: the Hessian is "
                    "summed in float32, where nothing but the differences would be left of it"
                )
        for name, count in (("--refit-steps", self.refit_steps), ("--swaps", self.swaps)):
            if not 0 <= count <= MAX_STEPS:
                raise UserError(f"{name} must be from 0 to {MAX_STEPS}, got {count}")
        if self.erase_rank < 0:
            raise UserError(
                "--erase-rank must be the number of directions of a category, 0 for all of them, "
                f"got {self.erase_rank}"
            )
        if not 1 <= self.gradient_steps <= 100:
            raise UserError(f"--gradient-steps must be from 1 to 100, got {self.gradient_steps}")
        if not (-1 <= self.gradient_step <= 1 and self.gradient_step != 0):
            raise UserError(
                f"--gradient-step must be from -1 to 1 and not 0, got {self.gradient_step}"
            )
        if not 0 <= self.gradient_holdout < 1:
            raise UserError(
                f"--gradient-holdout must be at least 0 and below 1, got {self.gradient_holdout}"
            )
        if not self.erase_modules or not all(self.erase_modules):
            raise UserError(
                "--erase-modules must name at least one linear layer, such as o_proj,down_proj, "
                f"got {','.join(self.erase_modules)!r}"
            )
        regime = regime_facts(self.regime)
        group = regime.of
        if self.block_size < 1 or (regime.structured and self.block_size % group):
            raise UserError(
                f"--block-size must be positive and, for regime {self.regime}, divisible by "
                f"{group}, got {self.block_size}"
            )

    def refuse_unused(self) -> None:
        """Raise UserError for an option that was set, but that the method does not use."""
        used = {name for name, value in self.relevant().items() if value is not None}
        for one in fields(self):
            name, value = one.name, getattr(self, one.name)
            if value == one.default or name in (*used, "method", "regime", "seed"):
                continue
            others = [
                method for method in PRUNING_METHODS if name in used_options(method, asdict(self))
            ]
            users = ", ".join(others) or "one that looks at calibration text"
            raise UserError(
                f"--{name.replace('_', '-')} does nothing in the method {self.method}: leave it "
                f"out, or give a method that uses it ({users})"
            )

    @property
    def improves(self) -> bool:
        """Whether kept weights or masks are improved after pruning."""
        return improves(asdict(self))

    @property
    def cuts_pairs(self) -> bool:
        """Whether sentences are cut at ``RELEASED_TOKENS`` tokens."""
        used = used_options(self.method, asdict(self))
        return "bias_scaling" in used and self.bias_scaling == "released-2026"

    @property
    def calibrated(self) -> bool:
        """Whether the method looks at calibration text."""
        return is_calibrated(self.method, asdict(self))

    def relevant(self) -> dict[str, Any]:
        """Return the options, None for those that the method does not use; see ``LATER``."""
        used = {"method", "regime", "seed", *used_options(self.method, asdict(self))}
        if self.calibrated:
            used.add("packing")
        unsaid = {name for name in LATER if getattr(self, name) == getattr(Options, name)}
        unsaid |= set(LATER) - used
        return {
            name: value if name in used else None
            for name, value in asdict(self).items()
            if name not in unsaid
        }
