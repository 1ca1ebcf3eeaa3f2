"""What the pruning methods and the regimes are: declared once, free of torch and of labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MethodFacts:
    """A way of making a checkpoint.

    ``prunes``: whether it changes the model at all. ``calibrated``: whether it looks at
    calibration text even where its weights are not improved. ``options``: the keys of the section
    ``pruning`` that decide its result. ``shifts``: whether it also moves the weights of the whole
    model, those that are left, so that it makes a model of its own in the regime ``dense`` too.
    """

    prunes: bool = True
    calibrated: bool = True
    options: tuple[str, ...] = ()
    shifts: bool = False


# Of every method: what is done with its kept weights afterwards.
IMPROVEMENTS = ("refit_steps",)
_TEXT = ("alignment", "compute_dtype")
_HESSIAN = (*_TEXT, "block_size", "damping")
_LORA = (
    *("lora_loss", "lora_budget", "lora_keep", "lora_blocks"),
    *("lora_steps", "lora_rate", "lora_scale"),
)

METHODS = {
    "dense": MethodFacts(prunes=False, calibrated=False),
    "magnitude": MethodFacts(calibrated=False, options=IMPROVEMENTS),
    "wanda": MethodFacts(options=(*_TEXT, *IMPROVEMENTS)),
    "sparsegpt": MethodFacts(options=(*_HESSIAN, *IMPROVEMENTS)),
    "debias-sparsegpt": MethodFacts(
        options=(*_HESSIAN, *IMPROVEMENTS, "bias_weight", "bias_scaling")
    ),
    "debias-lora": MethodFacts(options=(*_HESSIAN, *IMPROVEMENTS, "solver", *_LORA), shifts=True),
}
PRUNING_METHODS = tuple(name for name, method in METHODS.items() if method.prunes)
SOLVERS = ("sparsegpt", "wanda", "magnitude")
# Weights of the bias term: the paper's equation, or its authors' code of a year.
BIAS_SCALINGS = ("equation", "released-2025", "released-2026")


def improves(options: Mapping[str, Any]) -> bool:
    """Return whether the kept weights are improved after pruning."""
    return any(options[name] for name in IMPROVEMENTS)


def is_calibrated(method: str, options: Mapping[str, Any]) -> bool:
    """Return whether a method with these options looks at calibration text."""
    facts = METHODS[method]
    return facts.calibrated or (facts.prunes and improves(options))


def used_options(method: str, options: Mapping[str, Any]) -> set[str]:
    """Return the keys of the section ``pruning`` that decide a method's result."""
    facts = METHODS[method]
    measured = facts.prunes and improves(options)
    return {*facts.options, *((*_TEXT, "damping") if measured else ())}


@dataclass(frozen=True)
class RegimeFacts:
    """How many weights are zeroed: ``zeros`` of every ``of``.

    ``structured`` means in every aligned group of ``of`` inputs of a row (N:M), otherwise
    ``floor(zeros / of * n)`` of each comparison group of n weights.
    """

    slug: str
    zeros: int
    of: int
    structured: bool


REGIMES = {
    regime.slug: regime
    for regime in (
        RegimeFacts("u25", 1, 4, False),
        RegimeFacts("u50", 1, 2, False),
        RegimeFacts("1of4", 1, 4, True),
        RegimeFacts("2of4", 2, 4, True),
    )
}
# The regime that devices have kernels for, once its weights are compressed.
COMPRESSIBLE = "2of4"

# In the place of a calibration, where a checkpoint has none.
NO_CALIBRATION = "none"
# No weight is taken away: the base model itself, or the weights that a method has shifted.
DENSE = "dense"
_DENSE = RegimeFacts(DENSE, 0, 1, False)


def regime_facts(slug: str) -> RegimeFacts:
    """Return what a regime is, ``dense`` too; KeyError for a name that is no regime's."""
    return _DENSE if slug == DENSE else REGIMES[slug]


def regime_name(text: object) -> str:
    """Return a regime's name, also of `2:4`, `50%` and `0.5`; any other text as it is."""
    for name, one in REGIMES.items():
        share = one.zeros / one.of
        said = [f"{one.zeros}:{one.of}"] if one.structured else [f"{share:.0%}", f"{share:g}"]
        if str(text) in said:
            return name
    return str(text)
