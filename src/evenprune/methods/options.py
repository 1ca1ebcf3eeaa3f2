"""The options of pruning, and which of them a method uses. No torch here."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict

from ..config.calibration_keys import Tokens
from ..config.facts import (
    DENSE,
    METHODS,
    PRUNING_METHODS,
    REGIMES,
    improves,
    is_calibrated,
    used_options,
)
from ..config.flags import flag
from ..config.pruning_keys import Pruning, pruning_faults
from ..io.errors import UserError

RELEASED_TOKENS = 100  # the released code of 2026 cuts each sentence there


class Options(Tokens, Pruning):
    """Everything that decides the result, beside model and text: keys of ``pruning`` and these."""

    model_config = ConfigDict(frozen=True, strict=False)

    method: Literal[PRUNING_METHODS]  # type: ignore[valid-type]
    """the method"""
    regime: Literal[(*REGIMES, DENSE)]  # type: ignore[valid-type]
    """`uN`: N per cent of all weights, `NofM`: N of M inputs of each group; `dense`: none, for a
    method that changes the weights"""
    packing: Literal["shared-prefix", "sentences"] = "shared-prefix"
    """how the sentences of a pair run, see docs/pruning.md"""
    seed: int = 0
    """of what `debias-lora` draws: its adapters' start, the pairs' order, what is held out"""

    def __init__(self, method: str, regime: str, **options: Any) -> None:
        super().__init__(**{"method": method, "regime": regime, **options})

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> "Options":
        """Return the options of a manifest; those that its method does not use are defaults.

        Raises KeyError, TypeError or ValueError for a manifest of another form.
        """
        own = ("method", "regime")
        stored = {key: manifest["options"][key] for key in cls.model_fields if key not in own}
        used = {key: value for key, value in stored.items() if value is not None}
        return cls(manifest["method"], manifest["regime"], **used)

    def check(self) -> None:
        """Raise UserError for values that do not go together."""
        if self.regime == DENSE and not METHODS[self.method].shifts:
            shifting = ", ".join(name for name, method in METHODS.items() if method.shifts)
            raise UserError(
                f"--regime {DENSE} takes no weights away, and {self.method} does nothing else; "
                f"give another regime, or a method that changes the weights ({shifting})"
            )
        for key, what in pruning_faults(self.method, self.regime, self.model_dump()):
            raise UserError(f"{flag(key)}: {what}")

    def refuse_unused(self) -> None:
        """Raise UserError for an option that was set, but that the method does not use."""
        used = {name for name, value in self.relevant().items() if value is not None}
        for name, field in type(self).model_fields.items():
            if name in used or getattr(self, name) == field.default:
                continue
            options = self.model_dump()
            others = [one for one in PRUNING_METHODS if name in used_options(one, options)]
            users = ", ".join(others) or "one that looks at calibration text"
            raise UserError(
                f"{flag(name)} does nothing in the method {self.method}: leave it out, or give a "
                f"method that uses it ({users})"
            )

    @property
    def improves(self) -> bool:
        """Whether kept weights are improved after pruning."""
        return improves(self.model_dump())

    @property
    def cuts_pairs(self) -> bool:
        """Whether sentences are cut at ``RELEASED_TOKENS`` tokens."""
        used = used_options(self.method, self.model_dump())
        return "bias_scaling" in used and self.bias_scaling == "released-2026"

    @property
    def calibrated(self) -> bool:
        """Whether the method looks at calibration text."""
        return is_calibrated(self.method, self.model_dump())

    def relevant(self) -> dict[str, Any]:
        """Return the options, None for those that the method does not use."""
        options = self.model_dump()
        used = {"method", "regime", "seed", *used_options(self.method, options)}
        if self.calibrated:
            used |= {"bos", "packing"}
        return {name: value if name in used else None for name, value in options.items()}
