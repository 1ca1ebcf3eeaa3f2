"""Paired tests of checkpoints against what they start from, on the same items.

The column ``against`` says which question a row answers: ``method``, a debiasing method against
the same pruning without the debiasing, or ``dense``, a pruned checkpoint against its dense model.

One row per model, method, regime, calibration, seed and benchmark: the items that both
checkpoints answered are paired, ``diff`` is the candidate's mean score minus the
baseline's on the scale of results.csv. The baseline (``counterpart``) of a debiasing method is the
same pruning without the debiasing: SparseGPT with the same options, refitted against refitted, or
another solver where the method has one. With several calibration seeds a row ``mean``
tests the items' scores averaged over the seeds. The benchmark ``dto`` has the differences of
the distances to the optimum, with paired bootstrap intervals and no test. A benchmark that
shares its data with the calibration pairs is not tested (``grids.in_calibration``).
``p_holm`` is corrected over the family of the row (``item_tests``); ``family_low`` and
``family_high`` are the interval of the t-test corrected alike, by Bonferroni over that family: what
excludes 0 has p_holm < 0.05. All other intervals and p-values are of one test.

Rows with ``all`` for model, regime, calibration and seed, against ``method`` only, go over
configurations instead of items: ``n`` of them, on ``wins`` of which the method is better than the
baseline and on ``losses`` worse, the mean ``diff`` (positive: better) and the p-values of the exact
sign test and of Wilcoxon's signed-rank test.
"""

import dataclasses
import functools
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..base.progress import Progress
from ..plan.config import Benchmark
from ..plan.facts import DENSE, METHODS, NO_CALIBRATION, is_calibrated
from ..plan.grids import Checkpoint, benchmarks_of, in_calibration, method_options
from ..plan.run_sheet import RunSheet, has_paper_form
from . import dto, stats
from .directions import direction, gain
from .frames import make_frame
from .scores import ITEM_SCORES, Scores, average, require_same_items

COLUMNS = (
    "model", "method", "baseline", "regime", "calibration", "seed", "benchmark", "metric",
    "n", "wins", "losses", "diff", "ci_low", "ci_high", "cluster_low", "cluster_high",
    "t", "p_t", "p_mcnemar", "p_holm", "p_sign", "p_wilcoxon", "stderr", "family_low",
    "family_high", "against",
)  # fmt: skip
METHOD = "method"  # in the column against; the other one is DENSE
# Compared with the same pruning without the debiasing.
DEBIASING = ("debias-sparsegpt", "debias-erase", "debias-gradient")
ALL = "all"  # of rows over configurations
MEAN = "mean"  # in the column seed: scores averaged over the calibration seeds
BBQ_PARTS = ("acc_all", "acc_amb", "acc_dis")
STEREOSET_PARTS = ("lms", "ss")


def compare(candidate: Scores, baseline: Scores) -> dict[str, Any]:
    """Return the test columns for two checkpoints' scores on the same items.

    An item that either leaves undecided (NaN) is not compared; without any other there is only
    ``n`` = 0. Wins, losses and McNemar only for 0/1 scores. Raises UserError when the items
    differ.
    """
    require_same_items(candidate, baseline)
    decided = np.isfinite(candidate.values) & np.isfinite(baseline.values)
    if not decided.any():
        return {"n": 0}
    if not decided.all():
        candidate, baseline = candidate.only(decided), baseline.only(decided)
    difference = candidate.values - baseline.values
    binary = bool(np.isin(difference, (-1, 0, 1)).all())
    t, p = stats.paired_t(candidate.values, baseline.values) if difference.size > 1 else (0.0, 1.0)
    interval = stats.percentile_interval(stats.bootstrap_means(difference, strata=candidate.strata))
    row: dict[str, Any] = {
        "n": difference.size,
        "diff": float(difference.mean()),
        "ci_low": interval.low,
        "ci_high": interval.high,
        "t": t,
        "p_t": p,
        "stderr": stats.standard_error(difference) if difference.size > 1 else None,
    }
    if binary:
        row["wins"], row["losses"] = int((difference > 0).sum()), int((difference < 0).sum())
        row["p_mcnemar"] = stats.mcnemar_exact(row["wins"], row["losses"])
    if candidate.clusters is not None:
        clustered = stats.percentile_interval(
            stats.bootstrap_means(difference, clusters=candidate.clusters)
        )
        row["cluster_low"], row["cluster_high"] = clustered.low, clustered.high
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


def tested_metrics(run_sheet: RunSheet) -> list[tuple[str, str]]:
    """Return the (benchmark, metric) cells that are tested on items."""
    return [
        (slug, name)
        for slug, entry in run_sheet.benchmarks().items()
        for name in metrics_of(run_sheet, slug, entry)
        if (entry.task, name) in ITEM_SCORES
    ]


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
    row: dict[str, Any] = {"n": sum(len(one.ids) for one in candidate), "diff": ours - theirs}
    for prefix, clustered in (("ci", False), ("cluster", True)):
        if clustered and not dto.is_clustered(candidate):
            continue
        samples = dto.resampled(definition, both, clustered)
        interval = stats.percentile_interval(samples[:, 0] - samples[:, 1])
        row[f"{prefix}_low"], row[f"{prefix}_high"] = interval.low, interval.high
    return row


def tests(run_sheet: RunSheet, results: pd.DataFrame) -> pd.DataFrame:
    """Return significance.csv: the tests on items, then those over configurations."""
    over = make_frame(configuration_rows(run_sheet, results), COLUMNS)
    return pd.concat([item_tests(run_sheet), over], ignore_index=True)


def item_tests(run_sheet: RunSheet) -> pd.DataFrame:
    """Return the tests on items, sorted, with Holm over each seed's family.

    The family of the Holm correction is every headline cell (model, method, regime,
    calibration, benchmark) of one method and its variants with the same entries in ``seed`` and
    ``against``: one question a method, so that another method in the run changes nothing. A
    benchmark that one of the two checkpoints does not have, or that is no clean test of them, is
    not compared.
    """
    cells = tested_metrics(run_sheet)
    # A dense model is the other half of many pairs, and comes again and again.
    read = functools.lru_cache(maxsize=64)(functools.partial(dto.part_scores, run_sheet))
    distances = dto.definitions(run_sheet)
    own = {point: clean_benchmarks(run_sheet, point) for point in run_sheet.files}
    rows: list[dict[str, Any]] = []
    asked = {METHOD: pairs(run_sheet), DENSE: dense_pairs(run_sheet)}
    total = sum(map(len, asked.values()))
    progress = Progress(total * (len(cells) + len(distances)), "paired tests")
    grouped = [
        (against, list(members))
        for against, found in asked.items()
        for _, members in itertools.groupby(found, key=lambda pair: _grid_point(pair[0]))
    ]
    for against, members in grouped:
        point, base = members[0]
        head = {
            "model": point.model,
            "method": point.method,
            "baseline": base.method,
            "regime": point.regime,
            "calibration": point.calibration,
            "against": against,
        }
        for slug, metric in cells:
            scored = having(members, [slug], own)
            both = [
                tuple(read(one, dto.Component(slug, metric)) for one in pair) for pair in scored
            ]
            tests = list(zip(seeds_of(scored), both, strict=True))
            if len(both) > 1:
                mean = tuple(average([pair[k] for pair in both]) for k in range(2))
                tests.append((MEAN, mean))
            for seed, (ours, theirs) in tests:
                cell = {"seed": seed, "benchmark": slug, "metric": metric}
                rows.append({**head, **cell, **compare(ours, theirs)})
            progress.update(len(members))
        for definition in distances:
            scored = having(members, [part.benchmark for part in definition.parts], own)
            parts_read = [
                tuple([read(one, part) for part in definition.parts] for one in pair)
                for pair in scored
            ]
            dto_tests = list(zip(seeds_of(scored), parts_read, strict=True))
            if len(parts_read) > 1:
                dto_mean = tuple(
                    [average([pair[k][part] for pair in parts_read]) for part in range(2)]
                    for k in range(2)
                )
                dto_tests.append((MEAN, dto_mean))
            for seed, (candidate, baseline) in dto_tests:
                cell = {"seed": seed, "benchmark": dto.SLUG, "metric": definition.name}
                rows.append({**head, **cell, **compare_dto(definition, candidate, baseline)})
            progress.update(len(members))
    frame = make_frame(rows, COLUMNS)
    headlines = {slug: run_sheet.headline(slug) for slug in run_sheet.benchmarks()}
    family = (frame["metric"] == frame["benchmark"].map(headlines)) & frame["p_t"].notna()
    methods = frame["method"].map(run_sheet.base_method)
    for _, tested in frame[family].groupby([methods, frame["seed"], frame["against"]]):
        frame.loc[tested.index, "p_holm"] = stats.holm(tested["p_t"].tolist())
        half = stats.family_half_width(tested["stderr"], tested["n"], len(tested))
        frame.loc[tested.index, "family_low"] = tested["diff"] - half
        frame.loc[tested.index, "family_high"] = tested["diff"] + half
    return frame


def clean_benchmarks(run_sheet: RunSheet, point: Checkpoint) -> list[str]:
    """Return a checkpoint's benchmarks whose data are not in its calibration pairs."""
    return [
        slug
        for slug in benchmarks_of(run_sheet.config, point)
        if not in_calibration(run_sheet.config, point, slug)
    ]


Pair = tuple[Checkpoint, Checkpoint]


def having(
    members: Sequence[Pair], slugs: Iterable[str], own: Mapping[Checkpoint, Container[str]]
) -> list[Pair]:
    """Return the pairs of which both checkpoints have all these benchmarks."""
    needed = list(slugs)
    return [pair for pair in members if all(slug in own[one] for one in pair for slug in needed)]


def seeds_of(members: Sequence[Pair]) -> list[str]:
    """Return the seeds of pairs as significance.csv has them."""
    return [str(point.seed) for point, _ in members]


def _grid_point(point: Checkpoint) -> tuple[str, str, str, str]:
    return point.model, point.method, point.regime, point.calibration


def configuration_rows(run_sheet: RunSheet, results: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the tests over configurations from results.csv.

    A configuration is a model, regime and calibration; the values of its seeds are averaged.
    Metrics are those of ``metrics_of`` and the distances to the optimum, without configurations
    whose calibration pairs are the benchmark's data. One configuration is no test: such a
    metric has no row.
    """
    totals = {
        (Checkpoint(*row[:5]), row.benchmark, row.metric): row.value
        for row in results[results["category"] == ""].dropna(subset="value").itertuples(index=False)
    }
    cells = [
        (slug, metric, entry.task)
        for slug, entry in run_sheet.benchmarks().items()
        for metric in metrics_of(run_sheet, slug, entry)
        if direction(entry.task, metric)
    ]
    cells += [(dto.SLUG, definition.name, dto.SLUG) for definition in dto.definitions(run_sheet)]
    gains: dict[tuple[str, str, str, str], dict[tuple, list[float]]] = {}
    for ours, theirs in pairs(run_sheet):
        for slug, metric, task in cells:
            a, b = totals.get((ours, slug, metric)), totals.get((theirs, slug, metric))
            clean = not in_calibration(run_sheet.config, ours, slug)
            if clean and a is not None and b is not None:
                found = gains.setdefault((ours.method, theirs.method, slug, metric), {})
                found.setdefault(_grid_point(ours), []).append(gain(task, metric, a, b))
    rows = []
    for (method, baseline, slug, metric), found in gains.items():
        if len(found) < 2:
            continue
        # Rounded, so that equal values are ties whatever their binary fractions.
        mean = [round(float(np.mean(one)), 12) for one in found.values()]
        wins, _, losses, p_sign = stats.sign_test(mean)
        rows.append(
            {
                **dict.fromkeys(("model", "regime", "calibration", "seed"), ALL),
                "against": METHOD,
                "method": method,
                "baseline": baseline,
                "benchmark": slug,
                "metric": metric,
                "n": len(mean),
                "wins": wins,
                "losses": losses,
                "diff": float(np.mean(mean)),
                "p_sign": p_sign,
                "p_wilcoxon": stats.wilcoxon_signed_rank(mean),
            }
        )
    return rows
