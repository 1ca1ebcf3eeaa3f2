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
from statistics import fmean
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..config.run_sheet import has_paper_form
from ..config.tasks import FACTS, JUDGED
from ..stats import directions
from ..stats.inference import Estimate
from . import labels, mask_diffs, measurements
from .frames import Place, Quantity
from .item_sums import distance
from .labels import METHOD_LABELS, TASK_LABELS, number_text
from .printed import printed_values
from .results import OURS, Compute, Group, Run, groups

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
            return f"{number_text(100 * math.expm1(value), 1, signed=True)} %"
        scale, digits = {"points": (100, 2), "dto": (1, 3)}[self.unit]
        return number_text(scale * value, digits, signed=True)


SPEED = "serving:decode_tok_per_s"
Wanted = tuple[Place, str]  # and the name of a number
# What a guard model says of the response alone, as the paper prints it. A run whose guard does
# not judge in that form has its own headline in place of it.
UNSAFE = tuple(f"{task}:says_unsafe_paper" for task in JUDGED)
LABELS = (
    TASK_LABELS
    | {"dto": labels.DTO_LABEL, SPEED: labels.THROUGHPUT_LABEL}
    | {name: f"{TASK_LABELS[task]} unsafe" for task, name in zip(JUDGED, UNSAFE, strict=True)}
)


def named(name: str) -> tuple[str, str]:
    """Return the task and the metric of a name, the headline where it names none."""
    task, _, metric = name.partition("/")[0].partition(":")
    return task, metric or (FACTS[task].headline if task in FACTS else task)


def name_label(name: str) -> str:
    """Return the words for a name of printed.csv."""
    task, _, category = name.partition("/")
    return f"{LABELS.get(task, task)} {category}".strip()


class PrintedNumbers:
    """The paper's numbers: without standard errors and pairs.

    DTO is recomputed from the printed MMLU and UnQover, also where none is printed.
    """

    def __init__(self) -> None:
        self._values = {key: value for key, (value, _) in printed_values().items()}
        self.models = list(dict.fromkeys(key[0] for key in self._values))
        self.missing: dict[str, None] = {}

    def value(self, point: Place, name: str) -> float | None:
        """Return a printed number on the scale of results.csv, None where none is printed."""
        if name != "dto":
            return self._values.get((*point, name))
        parts = [self._values.get((*point, part)) for part in ("mmlu", "unqover")]
        return None if None in parts else float(distance(np.array(parts, float)))

    def estimate(self, compute: Compute, *wanted: Wanted) -> Estimate | None:
        """Return a function of numbers; the paper prints no errors."""
        values = [self.value(*place) for place in wanted]
        return None if None in values else Estimate(float(compute(*values)))

    def concentration(self, point: Place) -> mask_diffs.Concentration | None:
        """Return that of the printed list; each block has seven matrices, one of the kind."""
        head = f"{mask_diffs.SLUG}:{mask_diffs.PATTERN}/"
        listed = [key[-1] for key in self._values if key[:4] == point and key[-1].startswith(head)]
        of_kind = sum(name.rpartition(".")[2] == mask_diffs.OUTPUT for name in listed)
        layers, each = 28, 7  # of the paper's main model, Qwen2.5-7B-Instruct
        shape = (of_kind, len(listed), layers, layers * each)
        return mask_diffs.Concentration(*shape) if listed else None

    @staticmethod
    def words(point: Place, *parts: str) -> str:
        """Return parts of a grid point as they are called."""
        return ", ".join(getattr(point, one) for one in parts)


class RunNumbers:
    """The numbers of a run; notes in ``missing`` what was asked for and is not there."""

    def __init__(self, run: Run) -> None:
        self._run, self._sheet = run, run.sheet
        self._groups = {group.key: group for group in groups(run.sheet.checkpoints)}
        self.words = functools.partial(labels.words_of, run.sheet)
        self.models = list(dict.fromkeys(point.model for point in run.sheet.shown))
        self.missing: dict[str, None] = {}

    def _quantity(self, name: str) -> Quantity | str:
        """Return what results.csv calls a number, or in words what the run lacks for it."""
        head, _, metric = name.partition(":")
        task, _, category = head.partition("/")
        if task in ("dto", "serving"):
            return Quantity(task, metric or task)
        slug = self._sheet.primary(task)
        if slug is None:
            return f"a benchmark with task {task}"
        entry = self._sheet.config.benchmarks[slug]
        if task in JUDGED and entry.judge is None:
            return f"a guard model for {TASK_LABELS[task]} (a word list does not test it)"
        if task in JUDGED and not has_paper_form(entry):
            metric = "unsafe_rate"
        return Quantity(slug, metric or self._sheet.headline(slug), category)

    def _name(self, point: Place) -> str:
        own = () if point.regime == "dense" else ("regime", "calibration")
        return self.words(point, "model", "method", *own)

    def _find(self, point: Place, name: str) -> tuple[Group, Quantity] | None:
        """Return where results.csv has a clean number, None and a note where it has none."""
        quantity, group = self._quantity(name), self._groups.get(point)
        if isinstance(quantity, str) or group is None:
            lacking = [quantity] * isinstance(quantity, str) + [self._name(point)] * (group is None)
        else:
            measured = self._run.results.of(group, quantity)
            if measured is not None and not measured.in_calibration:
                return group, quantity
            what = name_label(name)
            if measured is not None:
                label = TASK_LABELS[named(name)[0]]
                what = f"a clean test: its calibration has the data of {label}"
            lacking = [f"{what} of {self._name(point)}"]
        self.missing |= dict.fromkeys(map(str, lacking))
        return None

    def estimate(self, compute: Compute, *wanted: Wanted) -> Estimate | None:
        """Return a function of numbers with its error: over rounds of measurements, else items."""
        places = [place for each in wanted if (place := self._find(*each)) is not None]
        if len(places) < len(wanted):
            return None
        if places[0][1].benchmark == "serving":
            (first, quantity), (second, _) = places
            logs = measurements.log_ratios_between(self._sheet, first, second, quantity.metric)
            if len(logs) > 1:
                error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
                return Estimate(fmean(logs), error, len(logs), len(logs) - 1)
        return self._run.estimate(compute, *places)

    def concentration(self, point: Place) -> mask_diffs.Concentration | None:
        """Return that of a grid point's masks, compared with SparseGPT's.

        Nothing is missing of a model whose masks the run is not to compare (the paper has one).
        """
        asked = self._sheet.experiments.get(mask_diffs.SLUG)
        if asked is not None and point[0] not in {each.model for each in asked}:
            return None
        group, place = self._groups.get(point), self._name(point)
        values = mask_diffs.by_matrix(self._run.results, group) if group is not None else {}
        concentration = mask_diffs.concentration(values)
        if concentration is None:
            what = f"more than {mask_diffs.TOP} matrices, some of them {mask_diffs.OUTPUT}, in"
            self.missing[f"{what if values else 'the compared masks of'} {place}"] = None
        return concentration


# Where values come from. Names are those of printed.csv: task, task/category, task:metric.
Numbers = PrintedNumbers | RunNumbers
RELATIVE = ("perplexity", SPEED)
Found = tuple[Any, ...]  # the parts of a Comparison; its difference may be None


def place_label(numbers: Numbers, point: Place) -> str:
    """Return model and regime, with the calibration where it is not StereoSet alone."""
    own = ["calibration"] * (point.calibration != "ss")
    return numbers.words(point, "model", "regime", *own)


def gained(name: str, ours: Any, base: Any) -> Any:
    """Return how much better one number, or array, is than another: logarithms for ratios."""
    if name in RELATIVE:
        ours, base = np.log(ours), np.log(base)
    return directions.gain(*named(name), ours, base)


def better(numbers: Numbers, ours: Place, base: Place, name: str) -> Estimate | None:
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
    numbers: Numbers, ours: Place, base: Place, name: str, against: str, margins: bool = False
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
    for model, regime, base, name in product(numbers.models, regimes, baselines, names):
        rival = Place(model, base, regime, "none" if base == "magnitude" else calibration)
        rival = _dense(model) if base == "dense" else rival
        ours, against = Place(model, OURS, regime, calibration), f"vs {METHOD_LABELS[base]}"
        yield compare(numbers, ours, rival, name, against, margins)


def versus_calibration(
    numbers: Numbers,
    names: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    methods: Sequence[str] = (OURS,),
    margins: bool = False,
) -> Iterator[Found]:
    """Compare at 2:4 the first calibration of each pair with the second: is it better?"""
    for pair, model, method, name in product(pairs, numbers.models, methods, names):
        ours, base = (Place(model, method, "2of4", calibration) for calibration in pair)
        against = f"vs {numbers.words(base, 'calibration')} ({METHOD_LABELS[method]})"
        yield compare(numbers, ours, base, name, against, margins)


def _dense(model: str) -> Place:
    return Place(model, "dense", "dense", "none")


def _pair(model: str, regime: str, calibration: str = "ss") -> tuple[Place, Place]:
    """Return a model pruned by Debias-SparseGPT and by SparseGPT."""
    return Place(model, OURS, regime, calibration), Place(model, BASE, regime, calibration)


def dense_shift(numbers: Numbers) -> Iterator[Found]:
    """Compare the distances of both methods' UnQover accuracy to the dense model's."""
    for model, regime in product(numbers.models, REGIMES):
        points = (*_pair(model, regime), _dense(model))
        shift = numbers.estimate(
            lambda ours, base, dense: abs(base - dense) - abs(ours - dense),
            *((point, "unqover") for point in points),
        )
        yield f"{place_label(numbers, points[0])}: UnQover shift vs {METHOD_LABELS[BASE]}", shift


def hit_hardest(numbers: Numbers) -> Iterator[Found]:
    """Compare SparseGPT's change of UnQover from dense with that of every other accuracy."""
    for model, name in product(numbers.models, ("hellaswag", "mmlu", "bbq")):
        both = _pair(model, "1of4")[1], _dense(model)
        more = numbers.estimate(
            lambda ours, dense, other, others: abs(ours - dense) - abs(other - others),
            *((point, one) for one in ("unqover", name) for point in both),
        )
        yield f"{place_label(numbers, both[0])}: change of UnQover vs {LABELS[name]}", more


def gain_more(
    numbers: Numbers, name: str, first: tuple[Place, Place], second: tuple[Place, Place]
) -> Estimate | None:
    """Return how much more the first pair of models gains than the second."""
    return numbers.estimate(
        lambda a, b, c, d: gained(name, a, b) - gained(name, c, d),
        *((point, name) for point in (*first, *second)),
    )


def uncertain_gain_more(numbers: Numbers) -> Iterator[Found]:
    """Compare the UnQover gains of the models whose dense versions are most and least certain."""
    known: list[tuple[float, str]] = []
    for model in numbers.models:
        entropy = numbers.estimate(lambda value: value, (_dense(model), "unqover:entropy_correct"))
        if entropy is not None and better(numbers, *_pair(model, "1of4"), "unqover") is not None:
            known.append((entropy.value, model))
    if len(known) < 2:
        numbers.missing["a second model at 1:4"] = None
        return
    (_, sure), (_, unsure) = min(known), max(known)
    pairs = [_pair(model, "1of4") for model in (unsure, sure)]
    names = " vs ".join(numbers.words(ours, "model") for ours, _ in pairs)
    yield f"UnQover gain of {names}", gain_more(numbers, "unqover", *pairs)


def gains_more(numbers: Numbers) -> Iterator[Found]:
    """Compare the two methods' gains from 256 added texts at 2:4."""
    for model, name in product(numbers.models, ("mmlu", "unqover")):
        pairs = [_pair(model, "2of4", calibration) for calibration in ("ss-uc256", "ss")]
        label = f"{place_label(numbers, pairs[1][0])}: {LABELS[name]} gain vs SparseGPT's"
        yield label, gain_more(numbers, name, *pairs)


def at_2of4(numbers: Numbers, calibration: str = "ss") -> Iterator[tuple[Place, Place, str]]:
    """Yield each model pruned to 2:4 by both methods, with the dense one and the method's name."""
    for model, method in product(numbers.models, (BASE, OURS)):
        yield Place(model, method, "2of4", calibration), _dense(model), METHOD_LABELS[method]


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
    for model in numbers.models:
        ours, base = _pair(model, "2of4", "ss-uc256")
        gap = better(numbers, ours, base, SPEED)
        label = f"{place_label(numbers, ours)}: throughput distance to SparseGPT's"
        distance = gap and replace(gap, value=-abs(gap.value))
        yield label, distance, "relative", MARGINS["relative"]


def outputs_change_most(numbers: Numbers) -> Iterator[Found]:
    """Compare the share of o_proj among the 20 most different matrices with that among all."""
    for model in numbers.models:
        point = Place(model, OURS, "2of4", "ss-uc256")
        if listed := numbers.concentration(point):
            label = f"{place_label(numbers, point)}: {listed.found} of {listed.top} are "
            label += f"{mask_diffs.OUTPUT}, of all {listed.kind} of {listed.total}"
            yield label, Estimate(listed.excess), "points", 0.0, listed.p_value
