"""The numbers that the paper's claims compare: those that it prints, or those of a run."""

import math
from statistics import fmean

import numpy as np

from ..config.run_sheet import has_paper_form
from ..config.tasks import FACTS, JUDGED
from ..stats.inference import Estimate
from . import labels, mask_diffs, measurements
from .item_sums import distance
from .labels import METHOD_LABELS, REGIME_LABELS, TASK_LABELS
from .printed import printed_values
from .results import Compute, Group, Quantity, Run, groups

SPEED = "serving:decode_tok_per_s"
Point = tuple[str, str, str, str]  # model, method, regime, calibration
Wanted = tuple[Point, str]  # and the name of a number
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
        self.missing: dict[str, None] = {}

    def models(self) -> list[str]:
        """Return the models that the paper prints numbers of."""
        return list(dict.fromkeys(key[0] for key in self._values))

    def value(self, point: Point, name: str) -> float | None:
        """Return a printed number on the scale of results.csv, None where none is printed."""
        if name != "dto":
            return self._values.get((*point, name))
        parts = [self._values.get((*point, part)) for part in ("mmlu", "unqover")]
        return None if None in parts else float(distance(np.array(parts, float)))

    def estimate(self, compute: Compute, *wanted: Wanted) -> Estimate | None:
        """Return a function of numbers; the paper prints no errors."""
        values = [self.value(*place) for place in wanted]
        return None if None in values else Estimate(float(compute(*values)))

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
        """Return that of the printed list; each block has seven matrices, one of the kind."""
        head = f"{mask_diffs.SLUG}:{mask_diffs.PATTERN}/"
        listed = [key[-1] for key in self._values if key[:4] == point and key[-1].startswith(head)]
        of_kind = sum(name.rpartition(".")[2] == mask_diffs.OUTPUT for name in listed)
        layers, each = 28, 7  # of the paper's main model, Qwen2.5-7B-Instruct
        shape = (of_kind, len(listed), layers, layers * each)
        return mask_diffs.Concentration(*shape) if listed else None

    def calibration(self, name: str) -> str:
        """Return the calibration's name."""
        return name

    label = calibration  # models likewise


class RunNumbers:
    """The numbers of a run; notes in ``missing`` what was asked for and is not there."""

    def __init__(self, run: Run) -> None:
        self._run, self._sheet = run, run.sheet
        self._groups = {group.key: group for group in groups(sorted(run.sheet.files))}
        self.missing: dict[str, None] = {}

    def models(self) -> list[str]:
        """Return the models of this run in the order of its experiments."""
        return list(dict.fromkeys(point.model for point in self._sheet.shown))

    def label(self, model: str) -> str:
        """Return the model's name in tables."""
        known = model in self._sheet.config.models
        return labels.model_label(self._sheet, model) if known else model

    def calibration(self, name: str) -> str:
        """Return the calibration's name in tables."""
        known = name in self._sheet.config.calibrations
        return labels.calibration_label(self._sheet, name) if known else name

    def _name(self, point: Point) -> str:
        """Return a checkpoint in words."""
        model, method, regime, calibration = point
        words = [self.label(model), METHOD_LABELS.get(method, method)]
        words += [REGIME_LABELS[regime]] if regime != "dense" else []
        words += [self.calibration(calibration)] if calibration != "none" else []
        return ", ".join(words)

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

    def _find(self, point: Point, name: str) -> tuple[Group, Quantity] | None:
        """Return where results.csv has a clean number, None and a note where it has none."""
        quantity, group = self._quantity(name), self._groups.get(point)
        lacking = [quantity] if isinstance(quantity, str) else []
        lacking += [self._name(point)] if group is None else []
        if group is not None and isinstance(quantity, Quantity):
            measured = self._run.results.of(group, quantity)
            if measured is not None and not measured.in_calibration:
                return group, quantity
            what = name_label(name)
            if measured is not None:
                label = TASK_LABELS[named(name)[0]]
                what = f"a clean test: its calibration has the data of {label}"
            lacking = [f"{what} of {self._name(point)}"]
        self.missing |= dict.fromkeys(lacking)
        return None

    def value(self, point: Point, name: str) -> float | None:
        """Return the mean over seeds."""
        place = self._find(point, name)
        measured = self._run.results.of(*place) if place else None
        return measured.value if measured else None

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
        return self._run.estimates.of(compute, *places)

    def concentration(self, point: Point) -> mask_diffs.Concentration | None:
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
