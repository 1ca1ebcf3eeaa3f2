"""Compare pruning methods and the bias term's negative controls across invented worlds.

``--run`` names a results folder a world (another ``world.seed``, the same configuration else);
``--out`` gets controls.csv, controls.md, controls.html and two figures. Three kinds of effects,
each the mean over the worlds of candidate minus reference on the same items:

``dense``      every pruned model against the dense one
``sparsegpt``  Debias-SparseGPT at every bias weight against SparseGPT at the same regime
``control``    Debias-SparseGPT against itself with a negative control as calibration

Intervals are 95 %. ``ci`` is a hierarchical bootstrap: worlds are drawn, then in each drawn
world clusters of items, the same ones for all models. A few worlds cannot show how much worlds
differ, so ``t`` beside it takes every world's effect as one observation (Student's t).
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats as distributions

from ..base.errors import UserError
from ..base.files import read_jsonl, write_csv
from ..base.outputs import check_place
from ..base.progress import Progress
from ..base.reading import expected_form
from ..plan.config import Config
from ..plan.finished import result_folder
from ..plan.grids import Checkpoint, base_method, method_options
from ..plan.run_sheet import RunSheet, read_spec
from ..reporting.scores import OWN_ORDER
from ..reporting.stats import Interval, percentile_interval

RESAMPLES = 10_000
LEVEL = 0.95
Array = NDArray[np.float64]

COLUMNS = (
    "contrast", "model", "method", "bias_weight", "bias_scaling", "regime", "calibration", "seed",
    "reference_method", "reference_calibration", "metric", "worlds", "value", "reference",
    "effect", "ci_low", "ci_high", "t_low", "t_high", "by_world", "verdict",
)  # fmt: skip


# Records to sums


def _bbq_sums(row: Mapping[str, Any]) -> tuple[float, ...]:
    named = row["biased_idx"] is not None and row["pred"] != row["unknown_idx"]
    biased = named and row["pred"] == row["biased_idx"]
    part = (row["correct"], 1, biased, named)
    return (*part, 0, 0, 0, 0) if row["condition"] == "ambig" else (0, 0, 0, 0, *part)


# task -> fields of a record, its summands. BBQ: right, items, biased and named answers of the
# ambiguous contexts, then of the disambiguated ones.
SUMS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], tuple[float, ...]]]] = {
    "bbq": (
        ("item_id", "cluster", "condition", "pred", "correct", "biased_idx", "unknown_idx"),
        _bbq_sums,
    ),
    "unqover": (("item_id", "cluster", "correct"), lambda row: (row["correct"], 1)),
    "perplexity": (("item_id", "nll", "n_tokens"), lambda row: (row["nll"], row["n_tokens"])),
}


def _ratio(over: Array, under: Array) -> Array:
    return np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under > 0)


def _s_amb(sums: Array) -> Array:
    """Return BBQ's bias score of ambiguous contexts, (1 - accuracy) (2 biased / named - 1)."""
    right, items, biased, named = np.moveaxis(sums[..., :4], -1, 0)
    return (1 - _ratio(right, items)) * (2 * _ratio(biased, named) - 1)


def _s_dis(sums: Array) -> Array:
    return 2 * _ratio(sums[..., 6], sums[..., 7]) - 1


@dataclass(frozen=True)
class Metric:
    """A number computed from sums over items, (..., columns) -> (...), NaN where undefined.

    ``good`` is 1 where higher is better, -1 where lower is, 0 where neither; ``scale`` is the
    factor for printing.
    """

    name: str
    label: str
    task: str
    good: int
    compute: Callable[[Array], Array]
    scale: float = 100.0


METRICS = (
    Metric("acc_amb", "ambiguous accuracy", "bbq", 1, lambda x: _ratio(x[..., 0], x[..., 1])),
    Metric("acc_dis", "disambiguated accuracy", "bbq", 1, lambda x: _ratio(x[..., 4], x[..., 5])),
    Metric("s_amb", "s_amb", "bbq", 0, _s_amb),
    Metric("s_dis", "s_dis", "bbq", 0, _s_dis),
    Metric("abs_s_amb", "|s_amb|", "bbq", -1, lambda x: np.abs(_s_amb(x))),
    Metric("abs_s_dis", "|s_dis|", "bbq", -1, lambda x: np.abs(_s_dis(x))),
    Metric("acc", "UnQover accuracy", "unqover", 1, lambda x: _ratio(x[..., 0], x[..., 1])),
    Metric("nll", "loss (nats a token)", "perplexity", -1,
           lambda x: _ratio(x[..., 0], x[..., 1]), 1.0),
)  # fmt: skip


@dataclass(frozen=True)
class World:
    """One run: its seed, and by task the sums (clusters, checkpoints, columns) and item count."""

    seed: int
    sums: dict[str, Array]
    items: dict[str, int]


def read_sums(path: Path, task: str) -> tuple[tuple[str, ...], tuple[str, ...], Array]:
    """Return item ids, clusters and summands (items, columns) of ``items.jsonl``.

    A perplexity window is a cluster of its own. Raises UserError for a file without items, with
    one twice, or without the fields.
    """
    fields, summands = SUMS[task]
    rows = [r for r in read_jsonl(path, fields) if r.get("perm", OWN_ORDER) == OWN_ORDER]
    ids = tuple(str(row["item_id"]) for row in rows)
    if not ids or len(set(ids)) != len(ids):
        problem = "one twice" if ids else "none"
        raise UserError(f"expected items, each once, in {path}, found {problem}; evaluate again")
    clusters = tuple(str(row.get("cluster", row["item_id"])) for row in rows)
    with expected_form(f"records of {task}", path, "evaluate again"):
        return ids, clusters, np.array([summands(row) for row in rows], dtype=np.float64)


def read_world(run: Path, spec: RunSheet, points: Sequence[Checkpoint]) -> World:
    """Return the sums of one run's records; the items must be the same for all checkpoints."""
    sums, items = {}, {}
    progress = Progress(len(SUMS) * len(points), f"records of {run}")
    for task in SUMS:
        slug = spec.primary(task)
        if slug is None:
            raise UserError(
                f"expected a benchmark with the task {task} in {run}, found none; run "
                "config/controls.yaml, which has it"
            )
        first: tuple[tuple[str, ...], ...] = ()
        parts = []
        for point in points:
            path = result_folder(run / "evals" / point.key, slug) / "items.jsonl"
            ids, clusters, one = read_sums(path, task)
            first = first or (ids, clusters)
            if (ids, clusters) != first:
                raise UserError(
                    f"expected in {path} the items of {points[0].key}, found others; evaluate "
                    "both again with the same options"
                )
            parts.append(one)
            progress.update()
        _, index = np.unique(np.asarray(first[1]), return_inverse=True)
        every = np.stack(parts, axis=1)
        total = np.zeros((index.max() + 1, *every.shape[1:]))
        np.add.at(total, index, every)
        sums[task], items[task] = total, len(every)
    return World(spec.config.world.seed, sums, items)


def read_runs(runs: Sequence[Path]) -> tuple[RunSheet, list[Checkpoint], list[World]]:
    """Return the runs' common specification, its checkpoints and every run's sums.

    Raises UserError for fewer than two runs, a run outside the invented world, two runs of one
    world, runs that differ in more than world, folder and title, a run without a dense model or
    with several models, calibration seeds or calibrations (their controls aside).
    """
    if len(runs) < 2:
        raise UserError(
            f"expected at least two runs (--run), each another world, got {len(runs)}: one world "
            "cannot show what differs between worlds; `make controls` makes three"
        )
    specs = [read_spec(run / "run_spec.json") for run in runs]
    seeds: dict[int, Path] = {}
    for run, spec in zip(runs, specs, strict=True):
        if spec.config.source != "world":
            raise UserError(
                f"expected runs of the invented world, but source is {spec.config.source!r} in "
                f"{run}; run config/controls.yaml"
            )
        other = seeds.setdefault(spec.config.world.seed, run)
        if other is not run:
            raise UserError(
                f"expected another world in every run, but {other} and {run} both have "
                f"world.seed {spec.config.world.seed}; leave one out"
            )
        if _comparable(spec) != _comparable(specs[0]):
            raise UserError(
                f"expected runs that differ in nothing but world.seed, but the configurations of "
                f"{runs[0]} and {run} differ; run both again with one configuration"
            )
    points = sorted(specs[0].files)
    if not any(point.regime == "dense" for point in points):
        raise UserError(f"expected a dense model in {runs[0]}, found none; add dense to methods")
    plain = {
        point.calibration
        for point in points
        if point.calibration != "none" and control_of(specs[0].config, point.calibration) is None
    }
    for what, names in (
        ("model", {point.model for point in points}),
        ("calibration seed", {str(point.seed) for point in points}),
        ("calibration beside its controls", plain),
    ):
        if len(names) > 1:
            raise UserError(
                f"expected one {what} in {runs[0]}, got {', '.join(sorted(names))}; compare them "
                "in runs of their own"
            )
    worlds = [read_world(run, spec, points) for run, spec in zip(runs, specs, strict=True)]
    return specs[0], points, worlds


def _comparable(spec: RunSheet) -> tuple[dict[str, Any], list[Checkpoint]]:
    config = spec.config.model_dump(exclude={"results": True, "title": True, "world": {"seed"}})
    return config, sorted(spec.files)


# Bootstrap


def draws(
    clusters: Sequence[int], resamples: int, seed: int
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield what a hierarchical bootstrap draws from worlds of so many clusters.

    A sample has as many slots as there are worlds. Yielded are (slot, world, samples (m,),
    counts (m, clusters of the world)): in these samples the slot holds that world, with each
    cluster so many times. Every slot of every sample is yielded once.
    """
    generator = np.random.default_rng(seed)
    chosen = generator.integers(len(clusters), size=(len(clusters), resamples))
    for slot, worlds in enumerate(chosen):
        for world, size in enumerate(clusters):
            samples = np.flatnonzero(worlds == world)
            counts = generator.multinomial(size, np.full(size, 1 / size), size=len(samples))
            yield slot, world, samples, counts


def resampled_sums(sums: Sequence[Array], resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Return sums over drawn clusters, (worlds, resamples, checkpoints, columns).

    ``sums`` has one array (clusters, checkpoints, columns) a world; see ``draws``.
    """
    out = np.empty((len(sums), resamples, *sums[0].shape[1:]))
    for slot, world, samples, counts in draws([len(one) for one in sums], resamples, seed):
        out[slot, samples] = np.tensordot(counts.astype(np.float64), sums[world], axes=1)
    return out


def student_interval(values: Array, level: float = LEVEL) -> Interval:
    """Return Student's interval of the mean of independent values (n,), n >= 2."""
    half = distributions.t.ppf((1 + level) / 2, values.size - 1) * distributions.sem(values)
    return Interval(float(values.mean() - half), float(values.mean() + half))


# Contrasts


@dataclass(frozen=True)
class Contrast:
    """A candidate, what it is compared with, and why: ``dense``, ``sparsegpt`` or ``control``."""

    kind: str
    candidate: Checkpoint
    reference: Checkpoint


@dataclass(frozen=True)
class Effect:
    """One metric's effect of a contrast; ``by_world`` in the order of the worlds.

    Everything is NaN where a world leaves the metric undefined.
    """

    contrast: Contrast
    metric: Metric
    value: float
    reference: float
    effect: float
    ci: Interval
    student: Interval
    by_world: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """The verdict by ``RULE``; empty for a metric that is neither better high nor low."""
        if not self.metric.good:
            return ""
        if math.isnan(self.effect):
            return "undefined"
        sides = [_side(one) * self.metric.good for one in (self.ci, self.student)]
        if not sides[0]:
            return "no difference shown"
        word = "better" if sides[0] > 0 else "worse"
        return word if sides[1] == sides[0] else f"{word} in these worlds"


RULE = (
    "Better or worse: both intervals, the bootstrap over worlds and clusters and Student's over "
    "the worlds alone, exclude 0 on that side. Better or worse in these worlds: only the bootstrap "
    "does; another set of worlds may differ. No difference shown: the bootstrap interval holds 0. "
    "The bias term beats its controls on a metric, at a regime and a weight, if it is better than "
    "every one of them there. Nothing is adjusted for the number of comparisons."
)


def _side(interval: Interval) -> int:
    return int(interval.low > 0) - int(interval.high < 0)


def control_of(config: Config, calibration: str) -> str | None:
    """Return the calibration whose negative control this one is, None where it is none."""
    if calibration == "none" or config.calibrations[calibration].control == "none":
        return None
    own = config.calibrations[calibration].model_copy(update={"control": "none"})
    return next((name for name, entry in config.calibrations.items() if entry == own), None)


def contrasts(config: Config, points: Iterable[Checkpoint]) -> list[Contrast]:
    """Return all comparisons that the checkpoints allow."""
    known = dict.fromkeys(points)
    found = []
    for point in known:
        if point.regime == "dense":
            continue
        dense = Checkpoint(point.model, "dense", "dense", "none", 0)
        origin = control_of(config, point.calibration)
        calibration = origin or point.calibration
        others = [("dense", dense)]
        if base_method(config, point.method) == "debias-sparsegpt":
            plain = Checkpoint(point.model, "sparsegpt", point.regime, calibration, point.seed)
            others.append(("sparsegpt", plain))
        found += [Contrast(kind, point, other) for kind, other in others if other in known]
        if origin:
            true = Checkpoint(point.model, point.method, point.regime, origin, point.seed)
            if true in known:
                found.append(Contrast("control", true, point))
    order = ("dense", "sparsegpt", "control")
    return sorted(found, key=lambda c: (order.index(c.kind), c.candidate, c.reference))


def effects(
    worlds: Sequence[World],
    points: Sequence[Checkpoint],
    wanted: Sequence[Contrast],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Effect]:
    """Return the effects of all contrasts, metric by metric."""
    place = {point: index for index, point in enumerate(points)}
    samples = {
        task: resampled_sums([world.sums[task] for world in worlds], resamples, seed)
        for task in SUMS
    }
    found = []
    for metric in METRICS:
        drawn = metric.compute(samples[metric.task])
        actual = np.stack([metric.compute(w.sums[metric.task].sum(axis=0)) for w in worlds])
        for contrast in wanted:
            i, j = place[contrast.candidate], place[contrast.reference]
            by_world = actual[:, i] - actual[:, j]
            defined = bool(np.isfinite(by_world).all())
            difference = (drawn[:, :, i] - drawn[:, :, j]).mean(axis=0)
            nothing = Interval(math.nan, math.nan)
            found.append(
                Effect(
                    contrast,
                    metric,
                    float(actual[:, i].mean()),
                    float(actual[:, j].mean()),
                    float(by_world.mean()),
                    percentile_interval(difference, LEVEL) if defined else nothing,
                    student_interval(by_world) if defined else nothing,
                    tuple(map(float, by_world)),
                )
            )
    return found


def bias_of(config: Config, method: str) -> tuple[float | None, str | None]:
    """Return a method's bias weight and scaling, (None, None) without a bias term."""
    if base_method(config, method) != "debias-sparsegpt":
        return None, None
    options = method_options(config, method)
    return options["bias_weight"], options["bias_scaling"]


def rows(config: Config, found: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of controls.csv; undefined numbers are empty, eight decimals the rest."""

    def number(value: float) -> str:
        return "" if math.isnan(value) else f"{value:.8f}"

    for one in found:
        candidate, reference = one.contrast.candidate, one.contrast.reference
        weight, scaling = bias_of(config, candidate.method)
        yield {
            "contrast": one.contrast.kind,
            "model": candidate.model,
            "method": candidate.method,
            "bias_weight": weight,
            "bias_scaling": scaling,
            "regime": candidate.regime,
            "calibration": candidate.calibration,
            "seed": candidate.seed,
            "reference_method": reference.method,
            "reference_calibration": reference.calibration,
            "metric": one.metric.name,
            "worlds": len(one.by_world),
            "value": number(one.value),
            "reference": number(one.reference),
            "effect": number(one.effect),
            "ci_low": number(one.ci.low),
            "ci_high": number(one.ci.high),
            "t_low": number(one.student.low),
            "t_high": number(one.student.high),
            "by_world": " ".join(map(number, one.by_world)),
            "verdict": one.verdict,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report-controls``."""
    add = parser.add_argument
    add("--run", dest="runs", type=Path, action="append", required=True, metavar="DIR",
        help="results folder of one world; give one --run a world")  # fmt: skip
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report")


def run(args: argparse.Namespace) -> None:
    """Run ``report-controls``."""
    from .page import write_page

    check_place(args.out)
    spec, points, worlds = read_runs(args.runs)
    found = effects(worlds, points, contrasts(spec.config, points))
    write_csv(args.out / "controls.csv", COLUMNS, rows(spec.config, found))
    write_page(spec, points, worlds, found, args.out)
    print(f"{args.out}/controls.html, .md, .csv: {len(found)} effects over {len(worlds)} worlds")
