"""What the methods and the regimes are, each declared once; free of torch and of labels."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodFacts:
    """``calibrated``: it needs calibration text. ``options``: the keys of ``pruning`` it uses."""

    calibrated: bool
    options: tuple[str, ...]


@dataclass(frozen=True)
class RegimeFacts:
    """``zeros`` of every ``of`` weights go.

    ``structured``: of every aligned group of ``of`` inputs (N:M), else of a comparison group.
    """

    zeros: int
    of: int
    structured: bool


_ACTIVATIONS = ("alignment", "sequential")
_HESSIAN = ("block_size", "damping", *_ACTIVATIONS)

METHODS: dict[str, MethodFacts] = {
    "dense": MethodFacts(False, ()),
    "magnitude": MethodFacts(False, ()),
    "wanda": MethodFacts(True, _ACTIVATIONS),
    "sparsegpt": MethodFacts(True, _HESSIAN),
    "debias-sparsegpt": MethodFacts(True, (*_HESSIAN, "bias_weight", "bias_scaling")),
}

REGIMES: dict[str, RegimeFacts] = {
    "u25": RegimeFacts(1, 4, False),
    "u50": RegimeFacts(1, 2, False),
    "1of4": RegimeFacts(1, 4, True),
    "2of4": RegimeFacts(2, 4, True),
}
