"""The values that claims compare, of the paper's tables or a run, and one comparison of two."""

import functools
import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from scipy.special import ndtri

from ...analysis import mask_diffs, measurements
from ...analysis.estimates import Compute, Estimates
from ...analysis.printed import printed_values
from ...analysis.results import Group, Quantity, Results, groups
from ...plan.run_sheet import RunSheet, has_paper_form
from ...plan.tasks import FACTS, JUDGED
from ...serving.shapes import QWEN25_7B
from ...stats import directions
from ...stats.inference import Estimate
from ..labels import (
    DTO_LABEL,
    METHOD_LABELS,
    REGIME_LABELS,
    TASK_LABELS,
    THROUGHPUT_LABEL,
    calibration_label,
    model_label,
)

OURS, BASE = "debias-sparsegpt", "sparsegpt"

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
        found = sum(name.rpartition(".")[2] == mask_diffs.OUTPUT for name in listed)
        layers = QWEN25_7B.layers
        return mask_diffs.Concentration(
            found, len(listed), layers, layers * len(QWEN25_7B.linears())
        )

    def calibration(self, name: str) -> str:
        """Return the calibration's name in tables."""
        return name

    def label(self, model: str) -> str:
        """Return the model's slug."""
        return model


class RunNumbers:
    """The numbers of a run; notes in ``missing`` what was asked for and is not there."""

    def __init__(self, run_sheet: RunSheet, results: Results) -> None:
        self._run_sheet, self._results = run_sheet, results
        self._estimates = Estimates(run_sheet, results)
        self._groups = {group.key: group for group in groups(sorted(run_sheet.files))}
        self.missing: dict[str, None] = {}

    def models(self) -> list[str]:
        """Return the models of this run in the order of its experiments."""
        points = [point for grid in self._run_sheet.experiments.values() for point in grid]
        return list(dict.fromkeys(point.model for point in points))

    def label(self, model: str) -> str:
        """Return the model's name in tables."""
        return model_label(self._run_sheet, model)

    def calibration(self, name: str) -> str:
        """Return the calibration's name in tables."""
        known = name in self._run_sheet.config.calibrations
        return calibration_label(self._run_sheet, name) if known else name

    def _name(self, point: Point) -> str:
        """Return a checkpoint in words."""
        model, method, regime, calibration = point
        known = model in self._run_sheet.config.models
        words = [self.label(model) if known else model, METHOD_LABELS.get(method, method)]
        words += [REGIME_LABELS[regime]] if regime != "dense" else []
        words += [self.calibration(calibration)] if calibration != "none" else []
        return ", ".join(words)

    def _quantity(self, name: str) -> Quantity | None:
        task, _, metric = name.partition(":")
        task, _, category = task.partition("/")
        if task == "dto":
            return Quantity("dto", "dto")
        if task == "serving":
            return Quantity("serving", metric)
        slug = self._run_sheet.primary(task)
        if slug is None:
            self.missing[f"a benchmark with task {task}"] = None
            return None
        if task in JUDGED:
            entry = self._run_sheet.config.benchmarks[slug]
            if entry.judge is None:
                label = TASK_LABELS[task]
                self.missing[f"a guard model for {label} (a word list does not test it)"] = None
                return None
            if not has_paper_form(entry):
                metric = "unsafe_rate"
        return Quantity(slug, metric or self._run_sheet.headline(slug), category)

    def _find(self, point: Point, name: str) -> tuple[Group, Quantity] | None:
        """Return where results.csv has a clean number, None and a note where it has none."""
        quantity, group = self._quantity(name), self._groups.get(point)
        if group is None:
            self.missing[self._name(point)] = None
        if quantity is None or group is None:
            return None
        measured = self._results.of(group, quantity)
        if measured is None:
            self.missing[f"{name_label(name)} of {self._name(point)}"] = None
            return None
        if measured.in_calibration:
            label = TASK_LABELS[name.partition("/")[0].partition(":")[0]]
            what = f"a clean test: its calibration has the data of {label} of {self._name(point)}"
            self.missing[what] = None
            return None
        return group, quantity

    def value(self, point: Point, name: str) -> float | None:
        """Return the mean over seeds."""
        found = self._find(point, name)
        measured = self._results.of(*found) if found else None
        return measured.value if measured else None

    def estimate(self, compute: Compute, *wanted: Wanted) -> Estimate | None:
        """Return a function of numbers with its error: over rounds of measurements, else items."""
        places = [place for one in wanted if (place := self._find(*one)) is not None]
        if len(places) < len(wanted):
            return None
        if places[0][1].benchmark == "serving":
            (first, quantity), (second, _) = places
            logs = measurements.log_ratios_between(self._run_sheet, first, second, quantity.metric)
            if len(logs) > 1:
                error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
                return Estimate(fmean(logs), error, len(logs), len(logs) - 1)
        return self._estimates.of(compute, *places)

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
        """Return that of a grid point's masks, compared with SparseGPT's.

        Nothing is missing of a model whose masks the run is not to compare (the paper has one).
        """
        asked = self._run_sheet.experiments.get(mask_diffs.SLUG)
        if asked is not None and point[0] not in {one.model for one in asked}:
            return None
        group, place = self._groups.get(point), self._name(point)
        values = mask_diffs.by_matrix(self._results, group) if group is not None else {}
        if not values:
            self.missing[f"the compared masks of {place}"] = None
            return None
        found = mask_diffs.concentration(values)
        if found is None:
            what = f"more than {mask_diffs.TOP} matrices, some of them {mask_diffs.OUTPUT},"
            self.missing[f"{what} in {place}"] = None
        return found


# Where values come from. Names are those of printed.csv: task, task/category, task:metric.
Numbers = PrintedNumbers | RunNumbers


# Comparisons

ACCURACY_MARGIN, RELATIVE_MARGIN, DTO_MARGIN = 0.01, 0.05, 0.01
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
    | {"dto": DTO_LABEL, "serving:decode_tok_per_s": THROUGHPUT_LABEL}
    | {name: f"{TASK_LABELS[task]} unsafe" for task, name in zip(JUDGED, UNSAFE, strict=True)}
)
RELATIVE = ("perplexity", "serving:decode_tok_per_s")


def unit_of(name: str) -> str:
    """Return the unit in which two values of a name are compared."""
    return "relative" if name in RELATIVE else "dto" if name == "dto" else "points"


def named(name: str) -> tuple[str, str]:
    """Return the task and the metric of a name, the headline where it names none."""
    task, _, metric = name.partition("/")[0].partition(":")
    return task, metric or (FACTS[task].headline if task in FACTS else task)


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
    found = numbers.estimate(functools.partial(gained, name), *both)
    task, metric = named(name)
    best = directions.BEST_AT.get(directions.direction(task, metric))
    if found is None or best is None:
        return found
    factors = np.subtract, lambda a, b: a + b - 2 * best
    tested = [numbers.estimate(one, *both) for one in factors]
    p_values = [p for one in tested if one and (p := one.p()) is not None]
    return replace(found, least=max(found.least, *p_values)) if p_values else found


def name_label(name: str) -> str:
    """Return the words for a name of printed.csv."""
    task, _, category = name.partition("/")
    return f"{LABELS.get(task, task)} {category}".strip()


def point_label(numbers: Numbers, point: Point) -> str:
    """Return model and regime, with the calibration where it is not StereoSet alone."""
    model, _, regime, calibration = point
    words = [numbers.label(model), REGIME_LABELS[regime]]
    return ", ".join(
        [*words, *([numbers.calibration(calibration)] if calibration not in ("ss", "none") else [])]
    )


def compare(
    numbers: Numbers, ours: Point, base: Point, name: str, against: str, margin: float = 0.0
) -> list[Comparison]:
    """Return the one comparison "ours is better than base", none where a value is missing."""
    found = better(numbers, ours, base, name)
    label = f"{point_label(numbers, ours)}: {name_label(name)} {against}"
    return [] if found is None else [Comparison(label, found, unit_of(name), margin)]


MARGINS = {"relative": RELATIVE_MARGIN, "dto": DTO_MARGIN, "points": ACCURACY_MARGIN}
