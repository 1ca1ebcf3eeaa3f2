"""Paired tests of checkpoints against what they start from, on the same items.

The column ``against`` says which question a row answers: ``method``, a debiasing method against
the same pruning without the debiasing, or ``dense``, a pruned checkpoint against its dense model
(headline metrics only, which the table ``answer`` reads).

One row per model, method, regime, calibration, seed and benchmark: the items that both
checkpoints answered are paired, ``diff`` is the candidate's value minus the baseline's on the scale
of results.csv. The baseline (``counterpart``) of a debiasing method is the same pruning without the
debiasing: SparseGPT with the same options, refitted against refitted, or another solver where the
method has one. With several calibration seeds a row ``mean`` tests the items' scores averaged over
the seeds. The benchmark ``dto`` has the distances to the optimum. A benchmark that shares its data
with the calibration pairs is not tested (``grids.in_calibration``).

``stderr``, ``low``, ``high`` and ``p`` are those of ``stats.paired``, over ``units``: clusters of
items, or items, of which ``changed`` differ. ``p`` is of what tables announce: how much better the
candidate is, of a share of stereotypes how much nearer to one half. ``p_holm`` is corrected over
the family of the row (``tests``); ``family_low`` and ``family_high`` are the interval of ``diff``
corrected alike, by Bonferroni over that family.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..base.progress import Progress
from ..plan.facts import DENSE, METHODS, NO_CALIBRATION, is_calibrated
from ..plan.grids import Checkpoint, benchmarks_of, in_calibration, method_options
from ..plan.run_sheet import RunSheet, has_paper_form
from ..stats import inference
from ..stats.directions import gain
from ..stats.inference import Estimate
from ..stats.measures import ITEM_SCORES
from ..stats.paired import Sums, average, jackknife
from . import dto
from .frames import make_frame

COLUMNS = (
    "model", "method", "baseline", "regime", "calibration", "seed", "benchmark", "metric",
    "n", "units", "changed", "wins", "losses", "diff", "stderr", "low", "high", "p", "p_holm",
    "family_low", "family_high", "against",
)  # fmt: skip
METHOD = "method"  # in the column against; the other one is DENSE
# Compared with the same pruning without the debiasing.
DEBIASING = tuple(name for name in METHODS if name.startswith("debias-"))
MEAN = "mean"  # in the column seed: scores averaged over the calibration seeds
PARTS = {
    "bbq": ("acc_all", "acc_amb", "acc_dis"),
    "stereoset": ("lms", "ss"),
    "crows_pairs": ("pct_stereotype", "pct_stereotype_shared"),
}


class Question(NamedTuple):
    """What is compared: the name of the row, its task, and whose items are read for it."""

    benchmark: str
    metric: str
    task: str
    parts: Sequence[dto.Component]
    joined: Callable[[Sequence[Sums]], Sums]


def compare(candidate: Sums, baseline: Sums, task: str, metric: str) -> dict[str, Any]:
    """Return the test columns for two checkpoints' scores on the same items.

    An item that either leaves undecided is not compared; without any other there is only
    ``n`` = 0. Wins and losses only for 0/1 scores. Raises UserError when the items differ.
    """
    found = jackknife(candidate, baseline)
    if found is None:
        return {"n": 0}
    difference = found.estimate()
    row: dict[str, Any] = {
        "n": found.n,
        "units": found.units,
        "changed": found.changed,
        "diff": difference.value,
        "stderr": difference.stderr,
        "p": found.estimate(functools.partial(gain, task, metric)).p(),
    }
    interval = found.interval()
    if interval is not None:
        row |= {"low": interval.low, "high": interval.high}
    if len(candidate.measure.terms) == 1:
        change = (candidate.parts - baseline.parts)[:, 0]
        change = change[np.isfinite(change)]
        if np.isin(change, (-1, 0, 1)).all():
            row |= {"wins": int((change > 0).sum()), "losses": int((change < 0).sum())}
    return row


def pairs(run_sheet: RunSheet, against: str = METHOD) -> list[tuple[Checkpoint, Checkpoint]]:
    """Return (checkpoint, its counterpart or dense model) of all that have one in the run."""
    other = counterpart if against == METHOD else dense_of
    found = [(point, other(run_sheet, point)) for point in sorted(run_sheet.files)]
    return [(point, baseline) for point, baseline in found if baseline is not None]


def dense_of(run_sheet: RunSheet, point: Checkpoint) -> Checkpoint | None:
    """Return the dense model of a pruned checkpoint, None where the run lacks it."""
    dense = Checkpoint(point.model, DENSE, DENSE, NO_CALIBRATION, 0)
    return None if point.is_base or dense not in run_sheet.files else dense


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
        return dense_of(run_sheet, point)
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


def questions(run_sheet: RunSheet, against: str) -> list[Question]:
    """Return what is compared of two checkpoints: headlines, their parts, the paper's unsafe.

    With the dense model headlines only.
    """
    found = []
    for slug, entry in run_sheet.benchmarks().items():
        names = [run_sheet.headline(slug)]
        if against == METHOD:
            names += PARTS.get(entry.task, ())
            names += ["says_unsafe_paper"] if has_paper_form(entry) else []
        for name in dict.fromkeys(names):
            if (entry.task, name) in ITEM_SCORES:
                part = dto.Component(slug, name)
                found.append(Question(slug, name, entry.task, (part,), lambda parts: parts[0]))
    if against == METHOD:
        found += [
            Question(dto.SLUG, one.name, dto.SLUG, one.parts, one.joined)
            for one in dto.definitions(run_sheet)
        ]
    return found


def tests(run_sheet: RunSheet) -> pd.DataFrame:
    """Return significance.csv, sorted, with Holm over each seed's family.

    The family of the Holm correction is every headline cell (model, method, regime,
    calibration, benchmark) of one method and its variants with the same entries in ``seed`` and
    ``against``: one question a method, so that another method in the run changes nothing. A
    benchmark that one of the two checkpoints does not have, or that is no clean test of them, is
    not compared.
    """
    # A dense model is the other half of many pairs, and comes again and again.
    read = functools.lru_cache(maxsize=64)(functools.partial(dto.part_sums, run_sheet))
    own = {
        point: {
            slug
            for slug in benchmarks_of(run_sheet.config, point)
            if not in_calibration(run_sheet.config, point, slug)
        }
        for point in run_sheet.files
    }
    asked = {against: pairs(run_sheet, against) for against in (METHOD, DENSE)}
    progress = Progress(sum(map(len, asked.values())), "paired tests")
    rows: list[dict[str, Any]] = []
    for against, found in asked.items():
        wanted = questions(run_sheet, against)
        for _, grouped in itertools.groupby(
            found, key=lambda pair: dataclasses.astuple(pair[0])[:4]
        ):
            members = list(grouped)
            point, base = members[0]
            head = {**dataclasses.asdict(point), "baseline": base.method, "against": against}
            for question in wanted:
                needed = {part.benchmark for part in question.parts}
                tested = {
                    str(pair[0].seed): [
                        question.joined([read(one, part) for part in question.parts])
                        for one in pair
                    ]
                    for pair in members
                    if all(needed <= own[one] for one in pair)
                }
                if len(tested) > 1:
                    tested[MEAN] = [average(one) for one in zip(*tested.values(), strict=True)]
                for seed, (ours, theirs) in tested.items():
                    cell = {"benchmark": question.benchmark, "metric": question.metric}
                    columns = compare(ours, theirs, question.task, question.metric)
                    rows.append({**head, "seed": seed, **cell, **columns})
            progress.update(len(members))
    frame = make_frame(rows, COLUMNS)
    headlines = {slug: run_sheet.headline(slug) for slug in run_sheet.benchmarks()}
    family = (frame["metric"] == frame["benchmark"].map(headlines)) & frame["p"].notna()
    methods = frame["method"].map(run_sheet.base_method)
    for _, one in frame[family].groupby([methods, frame["seed"], frame["against"]]):
        frame.loc[one.index, "p_holm"] = pd.Series(inference.holm(one["p"].to_dict()))
        for row in one.itertuples():
            difference = Estimate(row.diff, row.stderr, row.n, row.units - 1)
            half = difference.half_width(tests=len(one)) or 0.0
            ends = [row.diff - half, row.diff + half]
            frame.loc[row.Index, ["family_low", "family_high"]] = ends
    return frame
