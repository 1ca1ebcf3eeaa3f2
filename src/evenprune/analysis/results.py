"""results.csv and significance.csv as lookups for tables and figures."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..io.errors import UserError
from ..io.reading import expected_form
from .frames import read_frame
from .significance import DENSE, MEAN, METHOD

ALPHA = 0.01  # of the paper's dagger


class Quantity(NamedTuple):
    """What results.csv calls a number: benchmark, metric, and category ("" for the total)."""

    benchmark: str
    metric: str
    category: str = ""

    @property
    def path(self) -> str:
        """What a cell's path calls it: BENCHMARK/METRIC[/CATEGORY]."""
        return "/".join(filter(None, self))


@dataclass(frozen=True)
class Measured:
    """A number over one or more calibration seeds, on the scale of results.csv.

    ``value`` is the mean over seeds, ``sd`` their standard deviation (None for one seed),
    ``stderr`` and ``n`` those of one seed (None when several). ``error`` is the standard error of
    ``value``, over items and seeds. ``in_calibration``: measured on data that the calibration
    pairs are from, so no clean test.
    """

    value: float
    n: int | None = None
    stderr: float | None = None
    sd: float | None = None
    printed: float | None = None
    in_calibration: bool = False
    error: float | None = None


POINT = ("model", "method", "regime", "calibration")


@dataclass(frozen=True)
class Group:
    """The checkpoints of one grid point: everything but the seed."""

    model: str
    method: str
    regime: str
    calibration: str
    seeds: tuple[int, ...]

    @property
    def is_base(self) -> bool:
        """Whether this is the base model itself."""
        return self.checkpoints()[0].is_base

    @property
    def named(self) -> dict[str, str]:
        """What a CSV calls it, without the seeds."""
        return dict(zip(POINT, self.key, strict=True))

    @property
    def identity(self) -> dict[str, str]:
        """What a table's CSV calls it."""
        return {**self.named, "seeds": " ".join(map(str, self.seeds))}

    @property
    def seed(self) -> str:
        """What significance.csv calls its seed: of several their mean."""
        return str(self.seeds[0]) if len(self.seeds) == 1 else MEAN

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Everything but the seeds."""
        return self.model, self.method, self.regime, self.calibration

    def checkpoints(self) -> list[Checkpoint]:
        """Return one checkpoint a seed."""
        return [
            Checkpoint(self.model, self.method, self.regime, self.calibration, seed)
            for seed in self.seeds
        ]


def groups(checkpoints: Sequence[Checkpoint]) -> list[Group]:
    """Return the grid points of checkpoints, in their order, with the seeds of each."""
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for point in checkpoints:
        key = (point.model, point.method, point.regime, point.calibration)
        seeds.setdefault(key, []).append(point.seed)
    return [Group(*key, tuple(values)) for key, values in seeds.items()]


def point_of(row: Any) -> Checkpoint:
    """Return the checkpoint of a row of results.csv; ValueError for a seed that is no number."""
    return Checkpoint(row.model, row.method, row.regime, row.calibration, int(row.seed))


class Results:
    """The values of results.csv by checkpoint and quantity."""

    def __init__(self, path: Path) -> None:
        self.path = path
        needed = (
            "model", "method", "regime", "calibration", "seed", "benchmark", "metric", "category",
            "value", "n", "stderr", "printed", "in_calibration",
        )  # fmt: skip
        frame = read_frame(path, needed).dropna(subset="value")
        with expected_form("whole numbers as seed and n", path, "run collect-results again"):
            self._values = {
                (point_of(row), Quantity(row.benchmark, row.metric, row.category)): Measured(
                    row.value,
                    None if row.n is None else int(row.n),
                    row.stderr,
                    printed=row.printed,
                    in_calibration=row.in_calibration == "true",
                    error=row.stderr,
                )
                for row in frame.itertuples(index=False)
            }
        named = frame[frame["category"] != ""].groupby(["benchmark", "metric"])["category"]
        self._categories = {key: list(names.unique()) for key, names in named}
        self._points = {point for point, _ in self._values}

    def one(self, point: Checkpoint, quantity: Quantity) -> Measured | None:
        """Return the number of one checkpoint, None where it has none."""
        return self._values.get((point, quantity))

    def of(self, group: Group, quantity: Quantity) -> Measured | None:
        """Return the number of a grid point: the mean over its seeds, None where one lacks it."""
        found = [self.one(point, quantity) for point in group.checkpoints()]
        present = [value for value in found if value is not None]
        if len(present) < len(found) or not present:
            return None
        if len(present) == 1:
            return present[0]
        values = [value.value for value in present]
        errors = [value.stderr for value in present if value.stderr is not None]
        error, sd = None, statistics.stdev(values)
        if len(errors) == len(values):
            error = math.hypot(statistics.fmean(errors), sd / math.sqrt(len(values)))
        return Measured(
            statistics.fmean(values),
            sd=sd,
            error=error,
            printed=present[0].printed,
            in_calibration=present[0].in_calibration,
        )

    def categories(self, benchmark: str, metric: str) -> list[str]:
        """Return the categories that results.csv has for a metric, in its order."""
        return self._categories.get((benchmark, metric), [])

    def quantities(self, point: Checkpoint) -> list[Quantity]:
        """Return what a checkpoint has numbers of, in the order of results.csv."""
        return [quantity for one, quantity in self._values if one == point]

    def require(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Raise UserError when a checkpoint has no value at all."""
        missing = [point.key for point in checkpoints if point not in self._points]
        if missing:
            raise UserError(
                f"expected values of {missing[0]} in {self.path}, found none"
                + (f" (and of {len(missing) - 1} more)" if len(missing) > 1 else "")
                + "; run collect-results again with this run's run sheet"
            )


class Significance:
    """The paired tests of significance.csv: of debiasing methods against the method they amend, and
    of pruned checkpoints against their dense model."""

    def __init__(self, path: Path) -> None:
        key = ["model", "method", "regime", "calibration", "seed", "benchmark", "metric"]
        values = [
            "n", "units", "changed", "form", "diff", "stderr", "low", "high", "p", "p_holm",
            "low_fixed", "high_fixed", "family_low", "family_high", "detectable",
            "detectable_better", "kind", "verdict", "reason",
        ]  # fmt: skip
        tests = read_frame(path, [*key, *values, "against"])
        self._tests: dict[tuple[str, ...], dict[str, Any]]
        self._tests, self._dense = (
            tests[tests["against"] == name]
            .drop_duplicates(key, keep="last")
            .set_index(key)
            .to_dict("index")
            for name in (METHOD, DENSE)
        )

    def against_dense(self, group: Group, benchmark: str, metric: str) -> dict[str, Any] | None:
        """Return the test of the difference to the dense model, None where nothing was tested."""
        return self._dense.get((*group.key, group.seed, benchmark, metric))

    def of(self, group: Group, benchmark: str, metric: str) -> tuple[float, float] | None:
        """Return (difference to sparsegpt, p) of a grid point, None where nothing was tested."""
        row = self._tests.get((*group.key, group.seed, benchmark, metric))
        if row is None or row["diff"] is None or row["p"] is None:
            return None
        return row["diff"], row["p"]


def experiment_of(run_sheet: RunSheet, names: Sequence[str]) -> str:
    """Return the first of the named experiments that a run has; ``*`` is any of them."""
    found = [name for name in names if name in run_sheet.experiments]
    return next(iter([*found, *(run_sheet.experiments if "*" in names else ()), names[0]]))


def dense_group(run_sheet: RunSheet, model: str) -> Group | None:
    """Return the dense grid point of a model if the run has it, else None."""
    point = Checkpoint(model, "dense", "dense", "none", 0)
    return Group(model, "dense", "dense", "none", (0,)) if point in run_sheet.files else None
