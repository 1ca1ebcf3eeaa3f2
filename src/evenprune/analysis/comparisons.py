"""Comparisons of the paper's claims: of its printed numbers, or of those of a run.

Each has a difference that is positive where the claim holds, with a standard error. Errors are
those of ``analysis.estimates``: over clusters of items where items have them, paired on the same
items.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..plan.run_sheet import has_paper_form
from ..plan.tasks import FACTS, JUDGED
from ..serving.shapes import QWEN25_7B
from ..stats import directions
from ..stats.inference import Estimate
from . import mask_diffs, measurements
from .estimates import Compute
from .labels import (
    DTO_LABEL,
    METHOD_LABELS,
    REGIME_LABELS,
    TASK_LABELS,
    THROUGHPUT_LABEL,
    calibration_label,
    model_label,
)
from .printed import printed_values
from .results import Group, Quantity, groups
from .run import OURS, Run

BASE, SPEED = "sparsegpt", "serving:decode_tok_per_s"
REGIMES = ("u25", "u50", "1of4", "2of4")
Point = tuple[str, str, str, str]  # model, method, regime, calibration
Wanted = tuple[Point, str]  # and the name of a number


class PrintedNumbers:
    """The paper's numbers: without standard errors and pairs.

    DTO is recomputed from the printed MMLU and UnQover, also where none is printed.
    """

    def __init__(self) -> None:
        self._values = printed_values()

    def models(self) -> list[str]:
        """Return the models that the paper prints numbers of."""
        return list(dict.fromkeys(key[0] for key in self._values))

    def value(self, point: Point, name: str) -> float | None:
        """Return a printed number on the scale of results.csv, None where none is printed."""
        if name == "dto":
            parts = [self._values.get((*point, part)) for part in ("mmlu", "unqover")]
            gaps = [1 - part[0] for part in parts if part is not None]
            return math.hypot(*gaps) / math.sqrt(2) if len(gaps) == len(parts) else None
        found = self._values.get((*point, name))
        return found[0] if found else None

    def estimate(self, compute: Compute, *wanted: Wanted) -> Estimate | None:
        """Return a function of numbers; the paper prints no errors."""
        values = [self.value(*one) for one in wanted]
        return None if None in values else Estimate(float(compute(*values)))

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
        """Return that of the printed list; each block has seven matrices, one of the kind."""
        head = f"{mask_diffs.SLUG}:{mask_diffs.PATTERN}/"
        listed = [key[-1] for key in self._values if key[:4] == point and key[-1].startswith(head)]
        if not listed:
            return None
        of_kind = sum(name.rpartition(".")[2] == mask_diffs.OUTPUT for name in listed)
        layers, each = QWEN25_7B.layers, len(QWEN25_7B.linears())
        return mask_diffs.Concentration(of_kind, len(listed), layers, layers * each)

    def calibration(self, name: str) -> str:
        """Return the calibration's name."""
        return name

    def label(self, model: str) -> str:
        """Return the model's slug."""
        return model


class RunNumbers:
    """The numbers of a run; notes in ``missing`` what was asked for and is not there."""

    def __init__(self, run: Run) -> None:
        self._run, self._sheet = run, run.sheet
        self._groups = {group.key: group for group in groups(sorted(run.sheet.files))}
        self.missing: dict[str, None] = {}

    def models(self) -> list[str]:
        """Return the models of this run in the order of its experiments."""
        points = [point for grid in self._sheet.experiments.values() for point in grid]
        return list(dict.fromkeys(point.model for point in points))

    def label(self, model: str) -> str:
        """Return the model's name in tables."""
        return model_label(self._sheet, model) if model in self._sheet.config.models else model

    def calibration(self, name: str) -> str:
        """Return the calibration's name in tables."""
        known = name in self._sheet.config.calibrations
        return calibration_label(self._sheet, name) if known else name

    def _lacks(self, what: str) -> None:
        self.missing[what] = None

    def _name(self, point: Point) -> str:
        """Return a checkpoint in words."""
        model, method, regime, calibration = point
        words = [self.label(model), METHOD_LABELS.get(method, method)]
        words += [REGIME_LABELS[regime]] if regime != "dense" else []
        words += [self.calibration(calibration)] if calibration != "none" else []
        return ", ".join(words)

    def _quantity(self, name: str) -> Quantity | None:
        task, _, metric = name.partition(":")
        task, _, category = task.partition("/")
        if task in ("dto", "serving"):
            return Quantity(task, metric or task)
        slug = self._sheet.primary(task)
        if slug is None:
            self._lacks(f"a benchmark with task {task}")
            return None
        entry = self._sheet.config.benchmarks[slug]
        if task in JUDGED and entry.judge is None:
            label = TASK_LABELS[task]
            self._lacks(f"a guard model for {label} (a word list does not test it)")
            return None
        if task in JUDGED and not has_paper_form(entry):
            metric = "unsafe_rate"
        return Quantity(slug, metric or self._sheet.headline(slug), category)

    def _find(self, point: Point, name: str) -> tuple[Group, Quantity] | None:
        """Return where results.csv has a clean number, None and a note where it has none."""
        quantity, group = self._quantity(name), self._groups.get(point)
        if group is None:
            self._lacks(self._name(point))
        if quantity is None or group is None:
            return None
        measured = self._run.results.of(group, quantity)
        if measured is None:
            self._lacks(f"{name_label(name)} of {self._name(point)}")
            return None
        if measured.in_calibration:
            label = TASK_LABELS[named(name)[0]]
            what = f"a clean test: its calibration has the data of {label} of {self._name(point)}"
            self._lacks(what)
            return None
        return group, quantity

    def value(self, point: Point, name: str) -> float | None:
        """Return the mean over seeds."""
        found = self._find(point, name)
        measured = self._run.results.of(*found) if found else None
        return measured.value if measured else None

    def estimate(self, compute: Compute, *wanted: Wanted) -> Estimate | None:
        """Return a function of numbers with its error: over rounds of measurements, else items."""
        places = [place for one in wanted if (place := self._find(*one)) is not None]
        if len(places) < len(wanted):
            return None
        if places[0][1].benchmark == "serving":
            (first, quantity), (second, _) = places
            logs = measurements.log_ratios_between(self._sheet, first, second, quantity.metric)
            if len(logs) > 1:
                error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
                return Estimate(fmean(logs), error, len(logs), len(logs) - 1)
        return self._run.estimates.of(compute, *places)

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
        """Return that of a grid point's masks, compared with SparseGPT's.

        Nothing is missing of a model whose masks the run is not to compare (the paper has one).
        """
        asked = self._sheet.experiments.get(mask_diffs.SLUG)
        if asked is not None and point[0] not in {one.model for one in asked}:
            return None
        group, place = self._groups.get(point), self._name(point)
        values = mask_diffs.by_matrix(self._run.results, group) if group is not None else {}
        if not values:
            self._lacks(f"the compared masks of {place}")
            return None
        found = mask_diffs.concentration(values)
        if found is None:
            what = f"more than {mask_diffs.TOP} matrices, some of them {mask_diffs.OUTPUT},"
            self._lacks(f"{what} in {place}")
        return found


# Where values come from. Names are those of printed.csv: task, task/category, task:metric.
Numbers = PrintedNumbers | RunNumbers


# One comparison

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


# What a guard model says of the response alone, as the paper prints it. A run whose guard does
# not judge in that form has its own headline in place of it.
UNSAFE = tuple(f"{task}:says_unsafe_paper" for task in JUDGED)
LABELS = (
    TASK_LABELS
    | {"dto": DTO_LABEL, SPEED: THROUGHPUT_LABEL}
    | {name: f"{TASK_LABELS[task]} unsafe" for task, name in zip(JUDGED, UNSAFE, strict=True)}
)
RELATIVE = ("perplexity", SPEED)


def unit_of(name: str) -> str:
    """Return the unit in which two values of a name are compared."""
    return "relative" if name in RELATIVE else "dto" if name == "dto" else "points"


def named(name: str) -> tuple[str, str]:
    """Return the task and the metric of a name, the headline where it names none."""
    task, _, metric = name.partition("/")[0].partition(":")
    return task, metric or (FACTS[task].headline if task in FACTS else task)


def name_label(name: str) -> str:
    """Return the words for a name of printed.csv."""
    task, _, category = name.partition("/")
    return f"{LABELS.get(task, task)} {category}".strip()


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
) -> list[Comparison]:
    """Return the one comparison "ours is better than base", none where a value is missing."""
    label, unit = f"{place_label(numbers, ours)}: {name_label(name)} {against}", unit_of(name)
    return _tested(label, better(numbers, ours, base, name), unit, MARGINS[unit] * margins)


def _tested(
    label: str, difference: Estimate | None, unit: str = "points", margin: float = 0.0
) -> list[Comparison]:
    return [] if difference is None else [Comparison(label, difference, unit, margin)]


# What claims.yaml names: functions of numbers that return comparisons


def versus_sparsegpt(
    numbers: Numbers,
    names: Sequence[str],
    regimes: Sequence[str],
    calibration: str = "ss",
    baselines: Sequence[str] = (BASE,),
    margins: bool = False,
) -> list[Comparison]:
    """Compare Debias-SparseGPT with the baselines: is it better (or not worse)?"""

    def rival(base: str, model: str, regime: str) -> Point:
        if base == "dense":
            return _dense(model)
        return model, base, regime, "none" if base == "magnitude" else calibration

    return [
        comparison
        for model in numbers.models()
        for regime in regimes
        for base in baselines
        for name in names
        for comparison in compare(
            numbers, (model, OURS, regime, calibration), rival(base, model, regime), name,
            f"vs {METHOD_LABELS[base]}", margins,
        )
    ]  # fmt: skip


def versus_calibration(
    numbers: Numbers,
    names: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    methods: Sequence[str] = (OURS,),
    margins: bool = False,
) -> list[Comparison]:
    """Compare at 2:4 the first calibration of each pair with the second: is it better?"""
    return [
        comparison
        for ours, base in pairs
        for model in numbers.models()
        for method in methods
        for name in names
        for comparison in compare(
            numbers, (model, method, "2of4", ours), (model, method, "2of4", base), name,
            f"vs {numbers.calibration(base)} ({METHOD_LABELS[method]})", margins,
        )
    ]  # fmt: skip


def _dense(model: str) -> Point:
    return model, "dense", "dense", "none"


def _pair(model: str, regime: str, calibration: str = "ss") -> tuple[Point, Point]:
    """Return a model pruned by Debias-SparseGPT and by SparseGPT."""
    return (model, OURS, regime, calibration), (model, BASE, regime, calibration)


def dense_shift(numbers: Numbers) -> list[Comparison]:
    """Compare the distances of both methods' UnQover accuracy to the dense model's."""
    found = []
    for model in numbers.models():
        for regime in REGIMES:
            points = (*_pair(model, regime), _dense(model))
            shift = numbers.estimate(
                lambda ours, base, dense: abs(base - dense) - abs(ours - dense),
                *((point, "unqover") for point in points),
            )
            label = f"{place_label(numbers, points[0])}: UnQover shift vs {METHOD_LABELS[BASE]}"
            found += _tested(label, shift)
    return found


def hit_hardest(numbers: Numbers) -> list[Comparison]:
    """Compare SparseGPT's change of UnQover from dense with that of every other accuracy."""
    found = []
    for model in numbers.models():
        both = _pair(model, "1of4")[1], _dense(model)
        for name in ("hellaswag", "mmlu", "bbq"):
            more = numbers.estimate(
                lambda ours, dense, other, others: abs(ours - dense) - abs(other - others),
                *((point, one) for one in ("unqover", name) for point in both),
            )
            label = f"{place_label(numbers, both[0])}: change of UnQover vs {LABELS[name]}"
            found += _tested(label, more)
    return found


def gain_more(
    numbers: Numbers, name: str, first: tuple[Point, Point], second: tuple[Point, Point]
) -> Estimate | None:
    """Return how much more the first pair of models gains than the second."""
    return numbers.estimate(
        lambda a, b, c, d: gained(name, a, b) - gained(name, c, d),
        *((point, name) for point in (*first, *second)),
    )


def uncertain_gain_more(numbers: Numbers) -> list[Comparison]:
    """Compare the UnQover gains of the models whose dense versions are most and least certain."""
    known: list[tuple[float, str]] = []
    for model in numbers.models():
        entropy = numbers.value(_dense(model), "unqover:entropy_correct")
        if entropy is not None and better(numbers, *_pair(model, "1of4"), "unqover") is not None:
            known.append((entropy, model))
    if len(known) < 2:
        if isinstance(numbers, RunNumbers):
            numbers.missing["a second model at 1:4"] = None
        return []
    (_, sure), (_, unsure) = min(known), max(known)
    pairs = (_pair(model, "1of4") for model in (unsure, sure))
    label = f"UnQover gain of {numbers.label(unsure)} vs {numbers.label(sure)}"
    return _tested(label, gain_more(numbers, "unqover", *pairs))


def gains_more(numbers: Numbers) -> list[Comparison]:
    """Compare the two methods' gains from 256 added texts at 2:4."""
    found = []
    for model in numbers.models():
        for name in ("mmlu", "unqover"):
            pairs = (_pair(model, "2of4", calibration) for calibration in ("ss-uc256", "ss"))
            label = f"{numbers.label(model)}, 2:4: {LABELS[name]} gain vs SparseGPT's"
            found += _tested(label, gain_more(numbers, name, *pairs))
    return found


def at_2of4(numbers: Numbers, calibration: str = "ss") -> list[tuple[Point, Point, str]]:
    """Return each model pruned to 2:4 by both methods, with the dense one and the method's name."""
    return [
        ((model, method, "2of4", calibration), _dense(model), METHOD_LABELS[method])
        for model in numbers.models()
        for method in (BASE, OURS)
    ]


def near_chance(numbers: Numbers) -> list[Comparison]:
    """Compare UnQover at 2:4 with guessing: at most ``CHANCE_BAND`` away is as claimed."""
    chance, found = FACTS["unqover"].chance or 0.0, []
    for point, _, method in at_2of4(numbers):
        distance = numbers.estimate(lambda value: -abs(value - chance), (point, "unqover"))
        label = f"{place_label(numbers, point)}: UnQover of {method}"
        found += _tested(label, distance, margin=CHANCE_BAND)
    return found


def perplexity_doubles(numbers: Numbers) -> list[Comparison]:
    """Compare perplexity at 2:4 with one and a half times the dense model's."""
    found = []
    for point, dense, method in at_2of4(numbers):
        label = f"{place_label(numbers, point)}: PPL of {method} vs dense"
        loss = better(numbers, dense, point, "perplexity")
        found += _tested(label, loss, "relative", -math.log(1.5))
    return found


def faster_than_dense(numbers: Numbers) -> list[Comparison]:
    """Compare decoding throughput of 2:4 models with the dense one's."""
    points = at_2of4(numbers, "ss-uc256")
    return [
        comparison
        for ours, dense, method in points
        for comparison in compare(numbers, ours, dense, SPEED, f"of {method} vs dense")
    ]


def as_fast(numbers: Numbers) -> list[Comparison]:
    """Compare the throughputs of both methods: within the relative margin is as claimed."""
    found = []
    for model in numbers.models():
        ours, base = _pair(model, "2of4", "ss-uc256")
        gap = better(numbers, ours, base, SPEED)
        label = f"{place_label(numbers, ours)}: throughput distance to SparseGPT's"
        distance = gap and replace(gap, value=-abs(gap.value))
        found += _tested(label, distance, "relative", MARGINS["relative"])
    return found


def outputs_change_most(numbers: Numbers) -> list[Comparison]:
    """Compare the share of o_proj among the 20 most different matrices with that among all."""
    found = []
    for model in numbers.models():
        point = (model, OURS, "2of4", "ss-uc256")
        seen = numbers.concentration(point)
        if seen is not None:
            label = f"{place_label(numbers, point)}: {seen.found} of {seen.top} are "
            label += f"{mask_diffs.OUTPUT}, of all {seen.kind} of {seen.total}"
            found.append(Comparison(label, Estimate(seen.excess), exact_p=seen.p_value))
    return found
