"""Where the values that claims compare come from: the paper's tables, or a run."""

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from ...plan.config import JUDGED
from ...plan.run_sheet import RunSheet, has_paper_form
from ...serving.shapes import QWEN25_7B
from ...stats import inference
from .. import mask_diffs, measurements
from ..labels import (
    METHOD_LABELS,
    REGIME_LABELS,
    TASK_LABELS,
    calibration_label,
    model_label,
)
from ..printed import printed_values
from ..results import Quantity, Results, Significance, groups

OURS, BASE = "debias-sparsegpt", "sparsegpt"

Point = tuple[str, str, str, str]  # model, method, regime, calibration


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and number of items, None where unknown.

    ``df`` are the error's degrees of freedom, None for as many as make it normal.
    """

    value: float
    stderr: float | None = None
    n: int | None = None
    df: int | None = None


class Numbers(Protocol):
    """Where values come from. Names are those of printed.csv: task, task/category, task:metric."""

    def models(self) -> list[str]:
        """Return the models, in table order."""

    def value(self, point: Point, name: str) -> Estimate | None:
        """Return one number, None where there is none."""

    def paired(self, ours: Point, base: Point, name: str) -> Estimate | None:
        """Return a difference on the same items, None where it was not tested."""

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
        """Return the kind of the matrices whose masks differ most, None where unknown."""

    def calibration(self, name: str) -> str:
        """Return the calibration's name in tables."""
        ...

    def label(self, model: str) -> str:
        """Return a model's name."""


class PrintedNumbers:
    """The paper's numbers: without standard errors and pairs.

    DTO is recomputed from the printed MMLU and UnQover, also where none is printed.
    """

    def __init__(self) -> None:
        self._values = printed_values()

    def models(self) -> list[str]:
        """Return the models that the paper prints numbers of."""
        return list(dict.fromkeys(key[0] for key in self._values))

    def value(self, point: Point, name: str) -> Estimate | None:
        """Return a printed number on the scale of results.csv, None where none is printed."""
        if name == "dto":
            parts = [self._values.get((*point, part)) for part in ("mmlu", "unqover")]
            gaps = [1 - part[0] for part in parts if part is not None]
            return Estimate(math.hypot(*gaps) / math.sqrt(2)) if len(gaps) == len(parts) else None
        found = self._values.get((*point, name))
        return Estimate(found[0]) if found else None

    def paired(self, ours: Point, base: Point, name: str) -> Estimate | None:
        """Return None: the paper prints no differences with their spread."""
        return None

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

    def __init__(self, run_sheet: RunSheet, results: Results, significance: Significance) -> None:
        self._run_sheet, self._results, self._significance = run_sheet, results, significance
        self._groups = {
            (group.model, group.method, group.regime, group.calibration): group
            for group in groups(sorted(run_sheet.files))
        }
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

    def value(self, point: Point, name: str) -> Estimate | None:
        """Return the mean over seeds; its error holds that over items and that over seeds."""
        quantity, group = self._quantity(name), self._groups.get(point)
        if group is None:
            self.missing[self._name(point)] = None
        if quantity is None or group is None:
            return None
        measured = self._results.of(group, quantity)
        if measured is None:
            self.missing[f"{quantity.benchmark} {quantity.metric} of {self._name(point)}"] = None
            return None
        if measured.in_calibration:
            label = (
                f"{TASK_LABELS[name.partition('/')[0].partition(':')[0]]} of {self._name(point)}"
            )
            self.missing[f"a clean test: its calibration has the data of {label}"] = None
            return None
        seeds = [self._results.one(one, quantity) for one in group.checkpoints()]
        errors = [one.stderr for one in seeds if one is not None]
        known = [error for error in errors if error is not None]
        stderr = None
        if len(known) == len(errors):
            over_seeds = (measured.sd or 0.0) / math.sqrt(len(seeds))
            stderr = math.hypot(sum(known) / len(known), over_seeds)
        return Estimate(measured.value, stderr, seeds[0].n if seeds[0] else None)

    def paired(self, ours: Point, base: Point, name: str) -> Estimate | None:
        """Return the tested difference of Debias-SparseGPT to SparseGPT, else None.

        Of a measurement in rounds the logarithm of the ratio of any two grid points, paired by
        round.
        """
        quantity, group = self._quantity(name), self._groups.get(ours)
        if quantity is not None and quantity.benchmark == "serving":
            return self._ratio(ours, base, quantity.metric)
        same = (*ours[:1], BASE, *ours[2:]) == base
        if quantity is None or group is None or not same or quantity.category:
            return None
        found = self._significance.difference(group, quantity.benchmark, quantity.metric)
        return Estimate(*found) if found else None

    def _ratio(self, ours: Point, base: Point, metric: str) -> Estimate | None:
        first, second = self._groups.get(ours), self._groups.get(base)
        if first is None or second is None:
            return None
        logs = measurements.log_ratios_between(self._run_sheet, first, second, metric)
        if len(logs) < 2:
            return None
        return Estimate(fmean(logs), inference.standard_error(logs), len(logs), len(logs) - 1)

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
        """Return that of a grid point's masks, compared with SparseGPT's."""
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
