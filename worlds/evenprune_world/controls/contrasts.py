"""Which checkpoints are compared: with dense, without the method, with its negative controls."""

from collections.abc import Iterable
from dataclasses import dataclass

from evenprune.config.config import Config
from evenprune.config.facts import DENSE, IMPROVEMENTS, METHODS
from evenprune.config.grids import Checkpoint, base_method, method_options

# What a method is without what it does against bias: its options that say how much of it there is.
STRENGTH = {
    "debias-sparsegpt": "bias_weight",
    "debias-lora": "lora_scale",
}
KINDS = ("dense", "plain", "control")
CONTROL_LABELS = {
    "shuffled-pairs": "shuffled partners",
    "random-delta": "random partners",
    "reversed": "reversed sign",
}


@dataclass(frozen=True)
class Contrast:
    """A candidate, what it is compared with, and why: one of ``KINDS``.

    ``plain`` is SparseGPT of the same regime and calibration, in the regime ``dense`` the dense
    model; a ``control`` is the same method on a negative control's pairs, or of the other sign.
    """

    kind: str
    candidate: Checkpoint
    reference: Checkpoint


def control_of(config: Config, calibration: str) -> str | None:
    """Return the calibration whose negative control this one is, None where it is none."""
    if calibration == "none" or config.calibrations[calibration].control == "none":
        return None
    own = config.calibrations[calibration].model_copy(update={"control": "none"})
    return next((name for name, entry in config.calibrations.items() if entry == own), None)


def strength(config: Config, method: str) -> float | None:
    """Return how much a method does against bias, in its own unit; None for one that does nothing.

    That is b of debias-sparsegpt and the scale of debias-lora's adapters.
    """
    option = STRENGTH.get(base_method(config, method))
    return None if option is None else float(method_options(config, method)[option])


def is_reversed(config: Config, method: str) -> bool:
    """Return whether a method is a negative control that is to raise bias."""
    amount = strength(config, method)
    return amount is not None and amount < 0


def is_control(config: Config, point: Checkpoint) -> bool:
    """Return whether a checkpoint is a negative control, by its calibration or its method."""
    return is_reversed(config, point.method) or control_of(config, point.calibration) is not None


def plain_of(config: Config, point: Checkpoint) -> Checkpoint | None:
    """Return what a checkpoint of a method against bias is without it; None for any other.

    That of a negative control's calibration is plain on the calibration that it controls. What
    improves the kept weights (refit) is no part of the method: the plain one has it too,
    where the configuration names such a SparseGPT.
    """
    if strength(config, point.method) is None:
        return None
    if point.regime == DENSE:
        return dense_of(point)
    calibration = control_of(config, point.calibration) or point.calibration
    plain = _improved_alike(config, point.method)
    return Checkpoint(point.model, plain, point.regime, calibration, point.seed)


def _improved_alike(config: Config, method: str) -> str:
    """Return the SparseGPT whose kept weights are improved as the method's, else the plain one."""

    def improved(name: str) -> list[object]:
        return [method_options(config, name)[option] for option in IMPROVEMENTS]

    plain = (name for name in config.methods if base_method(config, name) == "sparsegpt")
    alike = (name for name in ("sparsegpt", *plain) if improved(name) == improved(method))
    return next(alike, "sparsegpt")


def dense_of(point: Checkpoint) -> Checkpoint:
    """Return the dense model of a checkpoint."""
    return Checkpoint(point.model, DENSE, DENSE, "none", 0)


def is_control_of(config: Config, control: Checkpoint, point: Checkpoint) -> bool:
    """Return whether a checkpoint is the other one's negative control; nothing controls a control.

    It is the same method on a negative control's calibration, or on the same calibration a method
    that differs in nothing but the sign of its strength.
    """
    places = {(one.model, one.regime, one.seed) for one in (control, point)}
    if len(places) > 1 or strength(config, point.method) is None or is_control(config, point):
        return False
    if control.method == point.method:
        return control_of(config, control.calibration) == point.calibration
    base = base_method(config, point.method)
    if control.calibration != point.calibration or base_method(config, control.method) != base:
        return False
    own, other = (
        {name: method_options(config, one.method)[name] for name in METHODS[base].options}
        for one in (point, control)
    )
    option = STRENGTH[base]
    return is_reversed(config, control.method) and {**other, option: -other[option]} == own


def contrasts(config: Config, points: Iterable[Checkpoint]) -> list[Contrast]:
    """Return all comparisons that the checkpoints allow."""
    known = dict.fromkeys(points)
    found = []
    for point in known:
        if point.is_base:
            continue
        others = [("dense", dense_of(point)), ("plain", plain_of(config, point))]
        found += [Contrast(kind, point, other) for kind, other in others if other in known]
        controls = (other for other in known if is_control_of(config, other, point))
        found += [Contrast("control", point, other) for other in controls]
    return sorted(found, key=lambda c: (KINDS.index(c.kind), c.candidate, c.reference))


def control_words(config: Config, pair: Contrast) -> str:
    """Return in which way a control differs from its candidate."""
    control = pair.reference
    if control.method == pair.candidate.method:
        return CONTROL_LABELS[config.calibrations[control.calibration].control]
    return CONTROL_LABELS["reversed"]
