"""Paired tests of checkpoints against what they start from, on the same items.

The column ``against`` says which question a row answers: ``method``, a debiasing method against
the same pruning without the debiasing, or ``dense``, a pruned checkpoint against its dense model
(headline metrics only).

One row per model, method, regime, calibration, seed and benchmark: the items that both
checkpoints answered are paired, ``diff`` is the candidate's mean score minus the
baseline's on the scale of results.csv. The baseline (``counterpart``) of a debiasing method is the
same pruning without the debiasing: SparseGPT with the same options, refitted against refitted, or
another solver where the method has one. With several calibration seeds a row ``mean``
tests the items' scores averaged over the seeds. The benchmark ``dto`` has the differences of
the distances to the optimum, with paired bootstrap intervals and no test. Of a share of stereotypes
the t-test is of the distance to one half, which tables announce. A benchmark that
shares its data with the calibration pairs is not tested (``grids.in_calibration``).
``p_holm`` is corrected over the family of the row (``tests``); ``family_low`` and
``family_high`` are the t interval of ``diff`` corrected alike, by Bonferroni over that family: what
excludes 0 has p_holm < 0.05 (but for shares of stereotypes on both
sides of one half). All other intervals and p-values are of one test.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..base.progress import Progress
from ..plan.config import Benchmark
from ..plan.facts import DENSE, METHODS, NO_CALIBRATION, is_calibrated
from ..plan.grids import Checkpoint, benchmarks_of, in_calibration, method_options
from ..plan.run_sheet import RunSheet, has_paper_form
from ..stats import bootstrap, inference
from ..stats.directions import BEST_AT, direction
from ..stats.measures import ITEM_SCORES
from ..stats.scores import Scores, average, require_same_items
from . import dto
from .frames import make_frame

COLUMNS = (
    "model", "method", "baseline", "regime", "calibration", "seed", "benchmark", "metric",
    "n", "wins", "losses", "diff", "ci_low", "ci_high", "cluster_low", "cluster_high",
    "t", "p_t", "p_mcnemar", "p_holm", "stderr", "family_low", "family_high", "against",
)  # fmt: skip
METHOD = "method"  # in the column against; the other one is DENSE
# Compared with the same pruning without the debiasing.
DEBIASING = ("debias-sparsegpt", "debias-erase", "debias-gradient")
MEAN = "mean"  # in the column seed: scores averaged over the calibration seeds
BBQ_PARTS = ("acc_all", "acc_amb", "acc_dis")
STEREOSET_PARTS = ("lms", "ss")


class Question(NamedTuple):
    """What is compared: the name of the row, whose scores are read, and what is made of them."""

    benchmark: str
    metric: str
    parts: Sequence[dto.Component]
    test: Callable[[Sequence[Scores], Sequence[Scores]], dict[str, Any]]


def compare(candidate: Scores, baseline: Scores, best: float | None = None) -> dict[str, Any]:
    """Return the test columns for two checkpoints' scores on the same items.

    ``best`` is where the metric is best, None for one that is best high or low: the t-test is then
    of the distance to it.

    An item that either leaves undecided (NaN) is not compared; without any other there is only
    ``n`` = 0. Wins, losses and McNemar only for 0/1 scores. Raises UserError when the items
    differ.
    """
    require_same_items(candidate, baseline)
    decided = np.isfinite(candidate.values) & np.isfinite(baseline.values)
    if not decided.any():
        return {"n": 0}
    candidate, baseline = candidate.only(decided), baseline.only(decided)
    difference = candidate.values - baseline.values
    several = difference.size > 1
    both = [candidate.values, baseline.values]
    if best is not None and len({bool(values.mean() < best) for values in both}) > 1:
        # On one side of it the difference of the distances is that of the means.
        both = [best - one if one.mean() < best else one - best for one in both]
    t, p = inference.paired_t(*both) if several else (0.0, 1.0)
    row: dict[str, Any] = {
        "n": difference.size,
        "diff": float(difference.mean()),
        "t": t,
        "p_t": p,
        "stderr": inference.standard_error(difference) if several else None,
    }
    if np.isin(difference, (-1, 0, 1)).all():
        row["wins"], row["losses"] = int((difference > 0).sum()), int((difference < 0).sum())
        row["p_mcnemar"] = inference.mcnemar_exact(row["wins"], row["losses"])
    return row | _intervals(
        candidate.clusters is not None,
        lambda clustered: bootstrap.means(
            difference, *(candidate.units if clustered else (None, candidate.strata))
        ),
    )


def _intervals(clustered: bool, draw: Callable[[bool], bootstrap.Array]) -> dict[str, float]:
    """Return the columns of the interval over items, and of that over clusters if there are any."""
    row = {}
    for prefix, by_cluster in (("ci", False), ("cluster", True))[: 1 + clustered]:
        found = bootstrap.interval(draw(by_cluster))
        row[f"{prefix}_low"], row[f"{prefix}_high"] = found.low, found.high
    return row


def pairs(run_sheet: RunSheet) -> list[tuple[Checkpoint, Checkpoint]]:
    """Return (checkpoint of a debiasing method or a variant of one, its counterpart)."""
    found = []
    for point in sorted(run_sheet.files):
        baseline = counterpart(run_sheet, point)
        if baseline is not None:
            found.append((point, baseline))
    return found


def dense_pairs(run_sheet: RunSheet) -> list[tuple[Checkpoint, Checkpoint]]:
    """Return (checkpoint, dense model) of every checkpoint whose dense model is in the run."""
    found = []
    for point in sorted(run_sheet.files):
        dense = Checkpoint(point.model, DENSE, DENSE, NO_CALIBRATION, 0)
        if not point.is_base and dense in run_sheet.files:
            found.append((point, dense))
    return found


def counterpart(run_sheet: RunSheet, point: Checkpoint) -> Checkpoint | None:
    """Return what a debiased checkpoint would be without the debiasing, None without one here.

    That is a checkpoint of the same model, regime, calibration and seed by the method's solver
    (SparseGPT), or a variant of it, with the same value of every option that the solver has; for
    a shifted model in the regime ``dense`` it is the dense one.
    """
    base = run_sheet.base_method(point.method)
    if base not in DEBIASING:
        return None
    if point.regime == DENSE:
        dense = Checkpoint(point.model, DENSE, DENSE, NO_CALIBRATION, 0)
        return dense if dense in run_sheet.files else None
    wanted = method_options(run_sheet.config, point.method)
    solver = wanted["solver"] if METHODS[base].shifts else "sparsegpt"
    for name in (solver, *run_sheet.config.methods):
        options = method_options(run_sheet.config, name)
        if run_sheet.base_method(name) != solver or any(
            options[key] != wanted[key] for key in METHODS[solver].options
        ):
            continue
        found = dataclasses.replace(point, method=name)
        if not is_calibrated(solver, options):
            found = dataclasses.replace(found, calibration=NO_CALIBRATION, seed=0)
        if found in run_sheet.files:
            return found
    return None


def metrics_of(run_sheet: RunSheet, slug: str, entry: Benchmark) -> list[str]:
    """Return a benchmark's metrics to compare: its headline, its parts, the paper's unsafe."""
    names = [run_sheet.headline(slug)]
    names += {"bbq": BBQ_PARTS, "stereoset": STEREOSET_PARTS}.get(entry.task, ())
    names += ["says_unsafe_paper"] if has_paper_form(entry) else []
    return list(dict.fromkeys(names))


def questions(run_sheet: RunSheet, against: str) -> list[Question]:
    """Return what is compared of two checkpoints; with the dense model headlines only."""
    found = []
    for slug, entry in run_sheet.benchmarks().items():
        names = metrics_of(run_sheet, slug, entry)
        for name in names[:1] if against == DENSE else names:
            if (entry.task, name) in ITEM_SCORES:
                best = BEST_AT.get(direction(entry.task, name))
                test = functools.partial(_compare_first, best=best)
                found.append(Question(slug, name, (dto.Component(slug, name),), test))
    if against == METHOD:
        found += [
            Question(dto.SLUG, one.name, one.parts, functools.partial(compare_dto, one))
            for one in dto.definitions(run_sheet)
        ]
    return found


def _compare_first(
    candidate: Sequence[Scores], baseline: Sequence[Scores], best: float | None
) -> dict[str, Any]:
    return compare(candidate[0], baseline[0], best)


def compare_dto(
    definition: dto.Definition,
    candidate: Sequence[Scores],
    baseline: Sequence[Scores],
) -> dict[str, Any]:
    """Return the columns n, diff and intervals for the distances of two checkpoints.

    Both have the scores of the definition's two parts. The interval is the percentile one of
    the paired differences in each bootstrap sample. Raises UserError when the items differ.
    """
    both = [candidate, baseline]
    ours, theirs = (float(definition.distance(dto.accuracies(scores))) for scores in both)
    row = {"n": sum(len(one.ids) for one in candidate), "diff": ours - theirs}
    return row | _intervals(
        dto.is_clustered(candidate),
        lambda clustered: np.subtract(*dto.resampled(definition, both, clustered).T),
    )


def tests(run_sheet: RunSheet) -> pd.DataFrame:
    """Return significance.csv, sorted, with Holm over each seed's family.

    The family of the Holm correction is every headline cell (model, method, regime,
    calibration, benchmark) of one method and its variants with the same entries in ``seed`` and
    ``against``: one question a method, so that another method in the run changes nothing. A
    benchmark that one of the two checkpoints does not have, or that is no clean test of them, is
    not compared.
    """
    # A dense model is the other half of many pairs, and comes again and again.
    read = functools.lru_cache(maxsize=64)(functools.partial(dto.part_scores, run_sheet))
    own = {point: clean_benchmarks(run_sheet, point) for point in run_sheet.files}
    asked = {METHOD: pairs(run_sheet), DENSE: dense_pairs(run_sheet)}
    progress = Progress(sum(map(len, asked.values())), "paired tests")
    rows: list[dict[str, Any]] = []
    for against, found in asked.items():
        wanted = questions(run_sheet, against)
        for _, grouped in itertools.groupby(found, key=lambda pair: _grid_point(pair[0])):
            members = list(grouped)
            point, base = members[0]
            head = {
                "model": point.model,
                "method": point.method,
                "baseline": base.method,
                "regime": point.regime,
                "calibration": point.calibration,
                "against": against,
            }
            for question in wanted:
                needed = {part.benchmark for part in question.parts}
                tested = {
                    str(pair[0].seed): [
                        [read(one, part) for part in question.parts] for one in pair
                    ]
                    for pair in members
                    if all(needed <= own[one] for one in pair)
                }
                if len(tested) > 1:
                    # By checkpoint of the pair, by part, over the seeds.
                    tested[MEAN] = [
                        [average(list(part)) for part in zip(*one, strict=True)]
                        for one in zip(*tested.values(), strict=True)
                    ]
                for seed, both in tested.items():
                    cell = {"benchmark": question.benchmark, "metric": question.metric}
                    rows.append({**head, "seed": seed, **cell, **question.test(*both)})
            progress.update(len(members))
    frame = make_frame(rows, COLUMNS)
    headlines = {slug: run_sheet.headline(slug) for slug in run_sheet.benchmarks()}
    family = (frame["metric"] == frame["benchmark"].map(headlines)) & frame["p_t"].notna()
    methods = frame["method"].map(run_sheet.base_method)
    for _, one in frame[family].groupby([methods, frame["seed"], frame["against"]]):
        frame.loc[one.index, "p_holm"] = pd.Series(inference.holm(one["p_t"].to_dict()))
        half = inference.family_half_width(one["stderr"], one["n"], len(one))
        frame.loc[one.index, "family_low"] = one["diff"] - half
        frame.loc[one.index, "family_high"] = one["diff"] + half
    return frame


def clean_benchmarks(run_sheet: RunSheet, point: Checkpoint) -> set[str]:
    """Return a checkpoint's benchmarks whose data are not in its calibration pairs."""
    return {
        slug
        for slug in benchmarks_of(run_sheet.config, point)
        if not in_calibration(run_sheet.config, point, slug)
    }


def _grid_point(point: Checkpoint) -> tuple[str, str, str, str]:
    return point.model, point.method, point.regime, point.calibration
