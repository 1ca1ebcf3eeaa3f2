"""The options of pruning: what each may be, and which of them a method uses. No torch here."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..base.errors import UserError
from ..data.calibration import ALIGNMENTS
from ..plan.facts import METHODS, REGIMES

PRUNING_METHODS = tuple(name for name in METHODS if name != "dense")
BIAS_SCALINGS = ("equation", "released-code")
SEQUENTIALS = ("block", "module")
PACKINGS = ("shared-prefix", "sentences")

# Far above what float32 (24 bits) tells apart beside the plain term, far below its overflow.
MAX_BIAS_WEIGHT = 1e12


@dataclass(frozen=True)
class Options:
    """Everything that decides the result, beside model and text.

    bias_weight is b of the Hessian, or α with bias_scaling ``released-code``. packing is
    ``shared-prefix`` or ``sentences``.
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
    seed: int = 0

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> "Options":
        """Return the options of a manifest; those that its method does not use are defaults.

        Raises KeyError, TypeError or ValueError for a manifest of another form.
        """
        stored = {one.name: manifest["options"][one.name] for one in fields(cls)[2:]}
        used = {name: value for name, value in stored.items() if value is not None}
        used["block_size"] = int(used.get("block_size", cls.block_size))
        if used["block_size"] < 1:
            raise ValueError(f"block_size {used['block_size']}")
        return cls(str(manifest["method"]), str(manifest["regime"]), **used)

    def check(self) -> None:
        """Raise UserError for a value outside its range."""
        for name, value, allowed in (
            ("--method", self.method, PRUNING_METHODS),
            ("--regime", self.regime, tuple(REGIMES)),
            ("--bias-scaling", self.bias_scaling, BIAS_SCALINGS),
            ("--alignment", self.alignment, ALIGNMENTS),
            ("--sequential", self.sequential, SEQUENTIALS),
            ("--packing", self.packing, PACKINGS),
        ):
            if value not in allowed:
                close = difflib.get_close_matches(str(value), allowed, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise UserError(f"{name} must be one of {', '.join(allowed)}, got {value!r}{hint}")
        for name, number in (("--bias-weight", self.bias_weight), ("--damping", self.damping)):
            if not (math.isfinite(number) and number >= 0):
                raise UserError(f"{name} must be a finite number of at least 0, got {number}")
        if self.bias_weight > MAX_BIAS_WEIGHT:
            raise UserError(
                f"--bias-weight must be at most {MAX_BIAS_WEIGHT:g}, got {self.bias_weight:g}: the "
                "Hessian is summed in float32, where nothing but the bias term would be left of it"
            )
        group = REGIMES[self.regime].of
        if self.block_size < 1 or (REGIMES[self.regime].structured and self.block_size % group):
            raise UserError(
                f"--block-size must be positive and, for regime {self.regime}, divisible by "
                f"{group}, got {self.block_size}"
            )

    def relevant(self) -> dict[str, Any]:
        """Return the options, None for those that the method does not use."""
        facts = METHODS[self.method]
        used = {"method", "regime", "seed", *facts.options}
        if facts.calibrated:
            used.add("packing")
        return {name: value if name in used else None for name, value in asdict(self).items()}
