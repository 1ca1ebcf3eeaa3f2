"""What the pruning methods and the regimes are: declared once, free of torch and of labels."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodFacts:
    """A way of making a checkpoint.

    ``prunes``: whether it changes the model at all. ``calibrated``: whether it looks at
    calibration text. ``options``: the keys of the section ``pruning`` that decide its result.
    """

    prunes: bool = True
    calibrated: bool = True
    options: tuple[str, ...] = ()


_ACTIVATIONS = ("alignment", "sequential")
_HESSIAN = (*_ACTIVATIONS, "block_size", "damping")

METHODS = {
    "dense": MethodFacts(prunes=False, calibrated=False),
    "magnitude": MethodFacts(calibrated=False),
    "wanda": MethodFacts(options=_ACTIVATIONS),
    "sparsegpt": MethodFacts(options=_HESSIAN),
    "debias-sparsegpt": MethodFacts(options=(*_HESSIAN, "bias_weight", "bias_scaling")),
}
PRUNING_METHODS = tuple(name for name, method in METHODS.items() if method.prunes)


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
GROUPED = tuple(name for name, regime in REGIMES.items() if regime.structured)
# The regime that devices have kernels for, once its weights are compressed.
COMPRESSIBLE = "2of4"

# In the place of a regime and of a calibration, where a checkpoint has none.
DENSE = "dense"
NO_CALIBRATION = "none"
