"""Paired tests of checkpoints against what they start from, on the same items.

The column ``against`` says which question a row answers: ``method``, a debiasing method against
the same pruning without the debiasing, or ``dense``, a pruned checkpoint against its dense model.

One row per model, method, regime, calibration, seed, benchmark and metric: the items that both
checkpoints answered are paired. ``diff`` is the candidate's value minus the baseline's on the scale
of results.csv, of a perplexity (``form`` is ``ratio``) the candidate's over the baseline's. The
baseline (``counterpart``) of a debiasing method is the same pruning without the debiasing:
SparseGPT with the same options, refitted against refitted, or another solver where the method has
one. With several calibration seeds a row ``mean`` tests the means over the seeds; its errors cover
the choice of the seeds too, those of ``low_fixed``, ``high_fixed`` and ``p_fixed`` do not.
The benchmark ``dto`` has the distance to the optimum. A benchmark that shares its data with the
calibration pairs is not tested (``grids.in_calibration``).

Tests and verdicts are those of ``stats.verdicts``, over ``units``: clusters of items, or items, of
which ``changed`` differ. ``p_holm``, ``family_low``, ``family_high`` and ``verdict`` are corrected
over the compared metrics of one checkpoint with the same entry in ``against``; metrics that mix
others (BBQ's ``acc_all``, ``icat``, ``dto``) are tested and have no verdict. ``detectable`` is the
smallest change for the worse that would be seen in 80 % of runs, by one test at 5 %, in the unit of
``diff``; ``detectable_better`` the same for the better, empty where none would be.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..config.facts import DENSE, METHODS, NO_CALIBRATION, is_calibrated
from ..config.finished import ITEMS
from ..config.grids import Checkpoint, benchmarks_of, dense, in_calibration, method_options
from ..config.run_sheet import RunSheet, has_paper_form
from ..io.progress import Progress
from ..io.reading import expected_form
from ..stats import verdicts
from ..stats.measures import MEASURES
from ..stats.paired import Sums
from ..stats.verdicts import PairedTest, kind, metrics_of, paired_test
from .frames import Quantity, make_frame
from .item_sums import DTO, ItemSums, benchmarks_behind, dto_parts

COLUMNS = (
    "model", "method", "baseline", "regime", "calibration", "seed", "benchmark", "metric",
    "n", "units", "changed", "wins", "losses", "form", "diff", "stderr", "low", "high", "p",
    "low_fixed", "high_fixed", "p_fixed", "p_holm", "family_low", "family_high", "detectable",
    "detectable_better", "kind", "verdict", "reason", "against",
)  # fmt: skip
METHOD = "method"  # in the column against; the other one is DENSE
NO_ENDS = (None, None)
MEAN = "mean"  # in the column seed: scores averaged over the calibration seeds
# Of a debiasing method also tested, beside the compared metrics.
PARTS = {"crows_pairs": ("pct_stereotype_shared",)}


class Question(NamedTuple):
    """What is compared: the name of the row, and its task.

    ``kind``: what it is judged as if it is one of the compared metrics, over which verdicts are
    corrected, else "".
    """

    benchmark: str
    metric: str
    task: str
    kind: str = ""


def clean_sums(sums: ItemSums, question: Question, point: Checkpoint) -> Sums | None:
    """Return what is compared of a checkpoint; None where no item has a score of it.

    Nor has a benchmark that the checkpoint does not have, or that is no clean test of it.
    """
    config = sums.run_sheet.config
    for slug in benchmarks_behind(sums.run_sheet, question.benchmark):
        if slug not in benchmarks_of(config, point) or in_calibration(config, point, slug):
            return None
    return sums.scored(point, Quantity(question.benchmark, question.metric))


def constant(sums: ItemSums, question: Question, point: Checkpoint) -> str:
    """Return whether a model answers a question's benchmark by one letter, in words."""
    path = sums.run_sheet.result_folder(point, question.benchmark) / ITEMS
    with expected_form("records of answers", path, "evaluate again"):
        rows = sums.rows(point, question.benchmark)
        return verdicts.constant_answer(question.task, question.metric, rows)


def columns_of(test: PairedTest | None, ours: list[Sums], theirs: list[Sums]) -> dict[str, Any]:
    """Return the columns of a test; only ``n`` = 0 where no item is decided by both.

    Wins and losses are of 0/1 scores of one seed alone.
    """
    if test is None:
        return {"n": 0}
    row: dict[str, Any] = {"form": "ratio" if test.ratio else "difference", "diff": test.difference}
    row |= {name: getattr(test, name) for name in ("n", "units", "changed", "p", "p_fixed")}
    row["stderr"] = test.effect.stderr
    row["low"], row["high"] = test.interval() or NO_ENDS
    if test.fixed:
        row["low_fixed"], row["high_fixed"] = test.fixed.interval() or NO_ENDS
    if test.p is not None:
        row["detectable"], row["detectable_better"] = test.detectable()
    if len(ours) == 1 and len(ours[0].measure.terms) == 1:
        change = (ours[0].parts - theirs[0].parts)[:, 0]
        change = change[np.isfinite(change)]
        if np.isin(change, (-1, 0, 1)).all():
            row |= {"wins": int((change > 0).sum()), "losses": int((change < 0).sum())}
    return row


def pairs(run_sheet: RunSheet, against: str = METHOD) -> list[tuple[Checkpoint, Checkpoint]]:
    """Return (checkpoint, its counterpart or dense model) of all that have one in the run."""
    other = counterpart if against == METHOD else dense_of
    return [(one, base) for one in run_sheet.checkpoints if (base := other(run_sheet, one))]


def dense_of(run_sheet: RunSheet, point: Checkpoint) -> Checkpoint | None:
    """Return the dense model of a pruned checkpoint, None where the run lacks it."""
    base = dense(point.model)
    return None if point.is_base or base not in run_sheet.checkpoints else base


def counterpart(run_sheet: RunSheet, point: Checkpoint) -> Checkpoint | None:
    """Return what a debiased checkpoint would be without the debiasing, None without one here.

    That is a checkpoint of the same model, regime, calibration and seed by the method's solver
    (SparseGPT), or a variant of it, with the same value of every option that the solver has; for
    a shifted model in the regime ``dense`` it is the dense one.
    """
    base, config = run_sheet.base_method(point.method), run_sheet.config
    if not base.startswith("debias-"):
        return None
    if point.regime == DENSE:
        return dense_of(run_sheet, point)
    wanted = method_options(config, point.method)
    solver = wanted["solver"] if METHODS[base].shifts else "sparsegpt"
    for name in (solver, *config.methods):
        options = method_options(config, name)
        same = all(options[key] == wanted[key] for key in METHODS[solver].options)
        if run_sheet.base_method(name) == solver and same:
            match = dataclasses.replace(point, method=name)
            if not is_calibrated(solver, options):
                match = dataclasses.replace(match, calibration=NO_CALIBRATION, seed=0)
            if match in run_sheet.checkpoints:
                return match
    return None


def questions(run_sheet: RunSheet, against: str) -> list[Question]:
    """Return what is compared of two checkpoints: see ``stats.verdicts``, and the headlines.

    Of a debiasing method also some parts, the paper's unsafe answers and the distance.
    """
    every = []
    for slug, entry in run_sheet.benchmarks().items():
        compared = metrics_of(entry.task, entry.headline)
        names = [*compared, run_sheet.headline(slug)]
        if against == METHOD:
            names += PARTS.get(entry.task, ())
            names += ["says_unsafe_paper"] if has_paper_form(entry) else []
        every += [
            Question(slug, name, entry.task, kind(entry.task, name) if name in compared else "")
            for name in dict.fromkeys(names)
            if (entry.task, name) in MEASURES
        ]
    if against == METHOD and dto_parts(run_sheet):
        every.append(Question(*DTO[:2], DTO.benchmark))
    return every


def tests(run_sheet: RunSheet) -> pd.DataFrame:
    """Return significance.csv, sorted, with verdicts over each checkpoint's compared metrics.

    A benchmark that one of the two checkpoints does not have, or that is no clean test of them, is
    not compared.
    """
    sums = ItemSums(run_sheet)
    one_letter = functools.cache(functools.partial(constant, sums))
    asked = {against: pairs(run_sheet, against) for against in (METHOD, DENSE)}
    progress = Progress(sum(map(len, asked.values())), "paired tests")
    rows: list[dict[str, Any]] = []
    for against, all_pairs in asked.items():
        wanted = questions(run_sheet, against)
        for _, seeds in itertools.groupby(all_pairs, lambda pair: pair[0].key.rpartition("/")[0]):
            members = list(seeds)
            point, base = members[0]
            head = {**dataclasses.asdict(point), "baseline": base.method, "against": against}
            for (seed, question), columns in _family(sums, one_letter, wanted, members).items():
                rows.append({**head, "seed": seed, **question._asdict(), **columns})
            progress.update(len(members))
    return make_frame(rows, COLUMNS)


def _family(
    sums: ItemSums,
    one_letter: Callable[[Question, Checkpoint], str],
    wanted: Sequence[Question],
    members: Sequence[tuple[Checkpoint, Checkpoint]],
) -> dict[tuple[str, Question], dict[str, Any]]:
    """Return the columns of each question, seed by seed and of their mean, of one grid point."""
    families: dict[str, dict[Question, PairedTest | None]] = {}
    cells: dict[tuple[str, Question], dict[str, Any]] = {}
    for question in wanted:
        seeds: dict[str, tuple[list[Sums], ...]] = {}
        for pair in members:
            both = [each for p in pair if (each := clean_sums(sums, question, p)) is not None]
            if len(both) == 2:
                seeds[str(pair[0].seed)] = ([both[0]], [both[1]])
        if len(seeds) > 1:
            seeds[MEAN] = tuple([side[0] for side in sides] for sides in zip(*seeds.values()))
        for seed, (ours, theirs) in seeds.items():
            test = paired_test(question.task, question.metric, ours, theirs)
            cells[seed, question] = columns_of(test, ours, theirs)
            if question.kind:
                families.setdefault(seed, {})[question] = test
    for seed, family in families.items():
        same = {question: one_letter(question, members[0][1]) for question in family}
        for question, verdict in verdicts.judged(family, constant=same).items():
            low, high = verdict.interval or NO_ENDS
            said = {"verdict": verdict.word, "reason": verdict.reason, "p_holm": verdict.p_holm}
            cells[seed, question] |= said | {"family_low": low, "family_high": high}
    return cells
