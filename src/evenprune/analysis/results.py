"""A run as tables, figures and claims see it: its sheet, its numbers and its tests.

``Results`` and ``Significance`` look up what stands in results.csv and significance.csv.
``Run.estimate`` gives functions of a run's numbers with their errors: the one engine, for claims
and figures. All checkpoints on a benchmark share its items and clusters, so that their values are
paired, whatever their method, calibration or model. Benchmarks have items of their own, and are
independent. With several calibration seeds, values are means over seeds, and the error over seeds
is added.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from ..config.grids import Checkpoint, dense
from ..config.run_sheet import RunSheet
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats.inference import Estimate
from ..stats.paired import Sums, combined, jackknife, with_seeds
from .frames import Place, Quantity, read_frame
from .item_sums import ItemSums
from .significance import COLUMNS, DENSE, MEAN, METHOD

ALPHA = 0.01  # of the paper's dagger
OURS = "debias-sparsegpt"
WIDEST = ("regimes", "main", "*")  # experiments, the one with most regimes first
Compute = Callable[..., Any]  # of numbers, or of arrays of numbers


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


POINT = Place._fields


class Group(NamedTuple):
    """The checkpoints of one grid point: everything but the seed."""

    model: str
    method: str
    regime: str
    calibration: str
    seeds: tuple[int, ...]

    @property
    def key(self) -> Place:
        """Everything but the seeds."""
        return Place(*self[:4])

    @property
    def is_base(self) -> bool:
        """Whether this is the base model itself."""
        return self.method == DENSE

    @property
    def identity(self) -> dict[str, str]:
        """What a table's CSV calls it."""
        return {**self.key._asdict(), "seeds": " ".join(map(str, self.seeds))}

    @property
    def seed(self) -> str:
        """What significance.csv calls its seed: of several their mean."""
        return str(self.seeds[0]) if len(self.seeds) == 1 else MEAN

    def checkpoints(self) -> list[Checkpoint]:
        """Return one checkpoint a seed."""
        return [Checkpoint(*self.key, seed) for seed in self.seeds]


def groups(checkpoints: Sequence[Checkpoint]) -> list[Group]:
    """Return the grid points of checkpoints, in their order, with the seeds of each."""
    seeds: dict[Place, list[int]] = {}
    for one in checkpoints:
        key = Place(one.model, one.method, one.regime, one.calibration)
        seeds.setdefault(key, []).append(one.seed)
    return [Group(*key, tuple(values)) for key, values in seeds.items()]


class Results:
    """The values of results.csv by checkpoint and quantity."""

    def __init__(self, path: Path) -> None:
        self.path = path
        names = (*POINT, "seed", *Quantity._fields)
        numbers = ("value", "n", "stderr", "printed", "in_calibration")
        frame = read_frame(path, (*names, *numbers)).dropna(subset="value")
        self._values: dict[tuple[Checkpoint, Quantity], Measured] = {}
        with expected_form("whole numbers as seed and n", path, "run collect-results again"):
            for row in frame.itertuples(index=False):
                place = (row.model, row.method, row.regime, row.calibration)
                quantity = Quantity(row.benchmark, row.metric, row.category)
                number = (row.value, None if row.n is None else int(row.n), row.stderr)
                known = row.in_calibration == "true"
                self._values[Checkpoint(*place, int(row.seed)), quantity] = Measured(
                    *number, printed=row.printed, in_calibration=known, error=row.stderr
                )

    def one(self, point: Checkpoint, quantity: Quantity) -> Measured | None:
        """Return the number of one checkpoint, None where it has none."""
        return self._values.get((point, quantity))

    def of(self, group: Group, quantity: Quantity) -> Measured | None:
        """Return the number of a grid point: the mean over its seeds, None where one lacks it."""
        seeds = [each for p in group.checkpoints() if (each := self.one(p, quantity)) is not None]
        if len(seeds) < len(group.seeds):
            return None
        if len(seeds) == 1:
            return seeds[0]
        values = [each.value for each in seeds]
        errors = [each.stderr for each in seeds if each.stderr is not None]
        error, sd = None, stdev(values)
        if len(errors) == len(values):
            error = math.hypot(fmean(errors), sd / math.sqrt(len(values)))
        return replace(seeds[0], value=fmean(values), n=None, stderr=None, sd=sd, error=error)

    def categories(self, benchmark: str, metric: str) -> list[str]:
        """Return the categories that results.csv has for a metric, in its order."""
        quantities = (quantity for _, quantity in self._values)
        names = (each.category for each in quantities if each[:2] == (benchmark, metric))
        return list(dict.fromkeys(filter(None, names)))

    def quantities(self, point: Checkpoint) -> list[Quantity]:
        """Return what a checkpoint has numbers of, in the order of results.csv."""
        return [quantity for place, quantity in self._values if place == point]

    def require(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Raise UserError when a checkpoint has no value at all."""
        known = {point for point, _ in self._values}
        missing = [point.key for point in checkpoints if point not in known]
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
        key = ["against", *POINT, "seed", *Quantity._fields[:2]]
        tests = read_frame(path, COLUMNS).drop_duplicates(key, keep="last")
        self._tests: dict[tuple[str, ...], dict[str, Any]] = tests.set_index(key).to_dict("index")

    def against_dense(self, group: Group, benchmark: str, metric: str) -> dict[str, Any] | None:
        """Return the test of the difference to the dense model, None where nothing was tested."""
        return self._tests.get((DENSE, *group.key, group.seed, benchmark, metric))

    def of(self, group: Group, quantity: Quantity) -> tuple[float, float] | None:
        """Return (difference to sparsegpt, p) of a grid point, None where nothing was tested."""
        row = self._tests.get((METHOD, *group.key, group.seed, *quantity[:2]), {})
        pair = (row.get("diff"), row.get("p"))
        return None if None in pair else pair  # type: ignore[return-value]


def experiment_of(run_sheet: RunSheet, names: Sequence[str]) -> str:
    """Return the first of the named experiments that a run has; ``*`` is any of them."""
    known = [name for name in names if name in run_sheet.experiments]
    return next(iter([*known, *(run_sheet.experiments if "*" in names else ()), names[0]]))


def dense_group(run_sheet: RunSheet, model: str) -> Group | None:
    """Return the dense grid point of a model if the run has it, else None."""
    return groups([dense(model)])[0] if dense(model) in run_sheet.checkpoints else None


@dataclass(frozen=True, eq=False)
class Run:
    """What tables, figures and claims are made from."""

    sheet: RunSheet
    results: Results
    significance: Significance

    @functools.cached_property
    def sums(self) -> ItemSums:
        """The run's numbers as sums over items, whose files are read once."""
        return ItemSums(self.sheet)

    def estimate(self, compute: Compute, *wanted: tuple[Group, Quantity]) -> Estimate | None:
        """Return ``compute`` of so many numbers, None where results.csv lacks one.

        The error is None where a number is no function of the items.
        """
        measured = [each.value for pair in wanted if (each := self.results.of(*pair))]
        if len(measured) < len(wanted):
            return None
        value = float(compute(*measured))
        samples: dict[str, list[tuple[int, Sums | None]]] = {}
        for number, (group, quantity) in enumerate(wanted):
            sums = [(number, self.sums.of(point, quantity)) for point in group.checkpoints()]
            samples.setdefault(quantity.benchmark, []).extend(sums)
        owners = [number for sample in samples.values() for number, _ in sample]

        def by_number(values: Sequence[Any]) -> list[list[Any]]:
            """Return each number's seeds, of values benchmark by benchmark."""
            return [[v for v, of in zip(values, owners) if of == k] for k in range(len(wanted))]

        def over_seeds(*values: Any) -> Any:
            return compute(*(sum(seeds) / len(seeds) for seeds in by_number(values)))

        found = [[one for _, one in sample if one is not None] for sample in samples.values()]
        whole = sum(map(len, found)) == len(owners)
        parts = [part for sample in found if whole and (part := jackknife(*sample)) is not None]
        if len(parts) < len(samples):
            return Estimate(value)
        seeds = by_number([value for part in parts for value in part.values])
        singles = [compute(*(s[k % len(s)] for s in seeds)) for k in range(max(map(len, seeds)))]
        return with_seeds(combined(over_seeds, *parts), singles)

    def points(self, names: Sequence[str], asked_by: str) -> list[Checkpoint]:
        """Return the checkpoints of the first of the named experiments that the run has.

        ``*`` is any of them. Raises UserError where it has none.
        """
        return self.sheet.experiment(experiment_of(self.sheet, names), asked_by)

    def dagger_test(self, group: Group, quantity: Quantity) -> tuple[float, float] | None:
        """Return (difference to SparseGPT, p) of the test that the paper's dagger stands for.

        Debias-SparseGPT's only; None for other methods and where nothing was tested.
        """
        ours = self.sheet.base_method(group.method) == OURS
        return self.significance.of(group, quantity) if ours else None


def read_run(sheet: RunSheet, results: Path, significance: Path) -> Run:
    """Return a run with what collect-results wrote of it."""
    return Run(sheet, Results(results), Significance(significance))
