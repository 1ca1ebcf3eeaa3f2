"""Comparisons of the paper's claims: of its printed numbers, or of those of a run.

Each has a difference that is positive where the claim holds, with a standard error. Errors are
those of ``analysis.results``: over clusters of items where items have them, paired on the same
items.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..config.tasks import FACTS
from ..stats import directions
from ..stats.inference import Estimate
from . import mask_diffs
from .claim_numbers import LABELS, SPEED, Numbers, Point, name_label, named
from .labels import METHOD_LABELS, REGIME_LABELS
from .results import OURS

BASE = "sparsegpt"
REGIMES = ("u25", "u50", "1of4", "2of4")

MARGINS = {"relative": 0.05, "dto": 0.01, "points": 0.01}
CHANCE_BAND = 0.05
Z_LIMIT = 8.2  # further out the normal distribution says nothing: p is 2e-16
Key = tuple[str, float, float]  # of a comparison: label, margin, difference


@dataclass(frozen=True)
class Comparison:
    """One test of a claim. ``difference`` + ``margin`` above 0 is as claimed.

    ``unit``: ``points`` (a fraction, shown times 100), ``dto`` (as it is) or ``relative`` (the
    natural logarithm of a ratio, shown as a change in percent). ``exact_p`` is the p-value of a
    test that has no standard error.
    """

    label: str
    difference: Estimate
    unit: str = "points"
    margin: float = 0.0
    exact_p: float | None = None

    @property
    def key(self) -> Key:
        """What makes two comparisons the same test."""
        return self.label, self.margin, self.difference.value

    @property
    def lead(self) -> float:
        """By how much the claim is met; noise of binary fractions is rounded away."""
        return round(self.difference.value + self.margin, 9)

    @property
    def p_value(self) -> float | None:
        """Two-sided p against ``lead`` = 0, None without a standard error or an exact test."""
        return self.difference.p(self.margin) if self.exact_p is None else self.exact_p

    @property
    def z_score(self) -> float | None:
        """``lead`` in standard errors, or what ``exact_p`` stands for; within ``Z_LIMIT``."""
        p = self.p_value
        if p is None:
            return None
        size = min(-float(ndtri(p / 2)), Z_LIMIT)
        return math.copysign(size, self.lead) if self.lead else 0.0

    def show(self, value: float) -> str:
        """Return a number of this comparison in its unit, with its sign."""
        if self.unit == "relative":
            value = 100 * math.expm1(value)
        digits = {"points": 2, "dto": 3, "relative": 1}[self.unit]
        # Adding 0 makes a positive zero of a negative one.
        rounded = round(value * (100 if self.unit == "points" else 1), digits) + 0.0
        text = f"{rounded:+.{digits}f}".replace("-", "−")
        return text + (" %" if self.unit == "relative" else "")


RELATIVE = ("perplexity", SPEED)
Found = tuple[Any, ...]  # the parts of a Comparison; its difference may be None


def place_label(numbers: Numbers, point: Point) -> str:
    """Return model and regime, with the calibration where it is not StereoSet alone."""
    model, _, regime, calibration = point
    own = [] if calibration in ("ss", "none") else [numbers.calibration(calibration)]
    return ", ".join([numbers.label(model), REGIME_LABELS[regime], *own])


def gained(name: str, ours: Any, base: Any) -> Any:
    """Return how much better one number, or array, is than another: logarithms for ratios."""
    if name in RELATIVE:
        ours, base = np.log(ours), np.log(base)
    return directions.gain(*named(name), ours, base)


def better(numbers: Numbers, ours: Point, base: Point, name: str) -> Estimate | None:
    """Return how much better ``ours`` is than ``base``, None where a value is missing.

    How near two values are to the best one is tested as ``stats.verdicts`` does.
    """
    both = (ours, name), (base, name)
    gain = numbers.estimate(functools.partial(gained, name), *both)
    best = directions.BEST_AT.get(directions.direction(*named(name)))
    if gain is None or best is None:
        return gain
    factors = np.subtract, lambda a, b: a + b - 2 * best
    tested = [numbers.estimate(one, *both) for one in factors]
    p_values = [p for one in tested if one and (p := one.p()) is not None]
    return replace(gain, least=max(gain.least, *p_values)) if p_values else gain


def compare(
    numbers: Numbers, ours: Point, base: Point, name: str, against: str, margins: bool = False
) -> Found:
    """Return what says "ours is better than base"."""
    label = f"{place_label(numbers, ours)}: {name_label(name)} {against}"
    unit = "relative" if name in RELATIVE else "dto" if name == "dto" else "points"
    return label, better(numbers, ours, base, name), unit, MARGINS[unit] * margins


# What claims.yaml names: functions of numbers that yield comparisons


def versus_sparsegpt(
    numbers: Numbers,
    names: Sequence[str],
    regimes: Sequence[str],
    calibration: str = "ss",
    baselines: Sequence[str] = (BASE,),
    margins: bool = False,
) -> Iterator[Found]:
    """Compare Debias-SparseGPT with the baselines: is it better (or not worse)?"""
    for model, regime, base, name in product(numbers.models(), regimes, baselines, names):
        rival = (model, base, regime, "none" if base == "magnitude" else calibration)
        rival = _dense(model) if base == "dense" else rival
        ours, against = (model, OURS, regime, calibration), f"vs {METHOD_LABELS[base]}"
        yield compare(numbers, ours, rival, name, against, margins)


def versus_calibration(
    numbers: Numbers,
    names: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    methods: Sequence[str] = (OURS,),
    margins: bool = False,
) -> Iterator[Found]:
    """Compare at 2:4 the first calibration of each pair with the second: is it better?"""
    for pair, model, method, name in product(pairs, numbers.models(), methods, names):
        ours, base = ((model, method, "2of4", calibration) for calibration in pair)
        against = f"vs {numbers.calibration(pair[1])} ({METHOD_LABELS[method]})"
        yield compare(numbers, ours, base, name, against, margins)


def _dense(model: str) -> Point:
    return model, "dense", "dense", "none"


def _pair(model: str, regime: str, calibration: str = "ss") -> tuple[Point, Point]:
    """Return a model pruned by Debias-SparseGPT and by SparseGPT."""
    return (model, OURS, regime, calibration), (model, BASE, regime, calibration)


def dense_shift(numbers: Numbers) -> Iterator[Found]:
    """Compare the distances of both methods' UnQover accuracy to the dense model's."""
    for model, regime in product(numbers.models(), REGIMES):
        points = (*_pair(model, regime), _dense(model))
        shift = numbers.estimate(
            lambda ours, base, dense: abs(base - dense) - abs(ours - dense),
            *((point, "unqover") for point in points),
        )
        yield f"{place_label(numbers, points[0])}: UnQover shift vs {METHOD_LABELS[BASE]}", shift


def hit_hardest(numbers: Numbers) -> Iterator[Found]:
    """Compare SparseGPT's change of UnQover from dense with that of every other accuracy."""
    for model, name in product(numbers.models(), ("hellaswag", "mmlu", "bbq")):
        both = _pair(model, "1of4")[1], _dense(model)
        more = numbers.estimate(
            lambda ours, dense, other, others: abs(ours - dense) - abs(other - others),
            *((point, one) for one in ("unqover", name) for point in both),
        )
        yield f"{place_label(numbers, both[0])}: change of UnQover vs {LABELS[name]}", more


def gain_more(
    numbers: Numbers, name: str, first: tuple[Point, Point], second: tuple[Point, Point]
) -> Estimate | None:
    """Return how much more the first pair of models gains than the second."""
    return numbers.estimate(
        lambda a, b, c, d: gained(name, a, b) - gained(name, c, d),
        *((point, name) for point in (*first, *second)),
    )


def uncertain_gain_more(numbers: Numbers) -> Iterator[Found]:
    """Compare the UnQover gains of the models whose dense versions are most and least certain."""
    known: list[tuple[float, str]] = []
    for model in numbers.models():
        entropy = numbers.value(_dense(model), "unqover:entropy_correct")
        if entropy is not None and better(numbers, *_pair(model, "1of4"), "unqover") is not None:
            known.append((entropy, model))
    if len(known) < 2:
        numbers.missing["a second model at 1:4"] = None
        return
    (_, sure), (_, unsure) = min(known), max(known)
    pairs = (_pair(model, "1of4") for model in (unsure, sure))
    label = f"UnQover gain of {numbers.label(unsure)} vs {numbers.label(sure)}"
    yield label, gain_more(numbers, "unqover", *pairs)


def gains_more(numbers: Numbers) -> Iterator[Found]:
    """Compare the two methods' gains from 256 added texts at 2:4."""
    for model, name in product(numbers.models(), ("mmlu", "unqover")):
        pairs = (_pair(model, "2of4", calibration) for calibration in ("ss-uc256", "ss"))
        label = f"{numbers.label(model)}, 2:4: {LABELS[name]} gain vs SparseGPT's"
        yield label, gain_more(numbers, name, *pairs)


def at_2of4(numbers: Numbers, calibration: str = "ss") -> Iterator[tuple[Point, Point, str]]:
    """Yield each model pruned to 2:4 by both methods, with the dense one and the method's name."""
    for model, method in product(numbers.models(), (BASE, OURS)):
        yield (model, method, "2of4", calibration), _dense(model), METHOD_LABELS[method]


def near_chance(numbers: Numbers) -> Iterator[Found]:
    """Compare UnQover at 2:4 with guessing: at most ``CHANCE_BAND`` away is as claimed."""
    chance = FACTS["unqover"].chance or 0.0
    for point, _, method in at_2of4(numbers):
        distance = numbers.estimate(lambda value: -abs(value - chance), (point, "unqover"))
        label = f"{place_label(numbers, point)}: UnQover of {method}"
        yield label, distance, "points", CHANCE_BAND


def perplexity_doubles(numbers: Numbers) -> Iterator[Found]:
    """Compare perplexity at 2:4 with one and a half times the dense model's."""
    for point, dense, method in at_2of4(numbers):
        label = f"{place_label(numbers, point)}: PPL of {method} vs dense"
        loss = better(numbers, dense, point, "perplexity")
        yield label, loss, "relative", -math.log(1.5)


def faster_than_dense(numbers: Numbers) -> Iterator[Found]:
    """Compare decoding throughput of 2:4 models with the dense one's."""
    for ours, dense, method in at_2of4(numbers, "ss-uc256"):
        yield compare(numbers, ours, dense, SPEED, f"of {method} vs dense")


def as_fast(numbers: Numbers) -> Iterator[Found]:
    """Compare the throughputs of both methods: within the relative margin is as claimed."""
    for model in numbers.models():
        ours, base = _pair(model, "2of4", "ss-uc256")
        gap = better(numbers, ours, base, SPEED)
        label = f"{place_label(numbers, ours)}: throughput distance to SparseGPT's"
        distance = gap and replace(gap, value=-abs(gap.value))
        yield label, distance, "relative", MARGINS["relative"]


def outputs_change_most(numbers: Numbers) -> Iterator[Found]:
    """Compare the share of o_proj among the 20 most different matrices with that among all."""
    for model in numbers.models():
        point = (model, OURS, "2of4", "ss-uc256")
        if listed := numbers.concentration(point):
            label = f"{place_label(numbers, point)}: {listed.found} of {listed.top} are "
            label += f"{mask_diffs.OUTPUT}, of all {listed.kind} of {listed.total}"
            yield label, Estimate(listed.excess), "points", 0.0, listed.p_value
