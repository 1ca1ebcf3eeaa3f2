"""Answers of the dense model, SparseGPT and Debias-SparseGPT to the same questions."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ...base.errors import UserError
from ...base.reading import expected_form
from ...plan.run_sheet import RunSheet
from ...stats.records import read_records
from ..described import experiment_of
from ..fields import category_order
from ..labels import CATEGORY_LABELS, REGIME_LABELS, method_label, model_label
from ..plots import WIDTH, Drawing, add_legend
from ..results import Group, Results, dense_group, groups

UNKNOWN, FIRST, SECOND = "#009E73", "#999999", "#CCCCCC"
HEADER = ("item_id", "category", "cluster", "method", "unknown", "one_person", "other_person")
Answers = dict[str, dict[str, Any]]  # item -> its record with the probabilities


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the probabilities of the three options of one UnQover question a category.

    The question of each category where SparseGPT and Debias-SparseGPT differ most in the
    probability of "unknown", whichever has more: the extremes, no sample. The title counts on how
    many questions only one of the two keeps the dense model's "unknown". Raises UserError without
    the three checkpoints.
    """
    benchmark = run_sheet.primary("unqover")
    experiment = experiment_of(run_sheet, ("main", "*"))
    points = run_sheet.experiment(experiment, f"the figure {slug}")
    three = None if benchmark is None else _three(run_sheet, groups(points))
    if benchmark is None or three is None:
        raise UserError(
            f"the figure {slug} shows answers to UnQover of the dense model, SparseGPT and "
            f"Debias-SparseGPT, but the experiment {experiment!r} has no three such checkpoints or "
            "the configuration no benchmark with task unqover; add them or leave the figure out"
        )
    answers = [
        read_answers(run_sheet.result_folder(group.checkpoints()[0], benchmark) / "items.jsonl")
        for group in three
    ]
    common = [item for item in answers[0] if all(item in one for one in answers[1:])]
    if not common:
        raise UserError(
            f"the figure {slug} compares answers to the same questions, but the three checkpoints "
            "have none in common; evaluate them again with the same options"
        )
    kept = [item for item in common if _pattern(answers, item) == (True, False, True)]
    lost = [item for item in common if _pattern(answers, item) == (True, True, False)]
    by_category: dict[str, str] = {}
    for item in common:
        category = str(answers[0][item]["category"])
        if _gap(answers, item) > _gap(answers, by_category.get(category)):
            by_category[category] = item
    chosen = [by_category[name] for name in category_order(by_category)]
    title = (
        f"{model_label(run_sheet, three[0].model)}, {REGIME_LABELS[three[1].regime]}: of "
        f"{len(common):,} questions\nSparseGPT alone loses the dense model's “unknown” on "
        f"{len(kept):,}, Debias-SparseGPT alone on {len(lost):,}"
    )
    names = [method_label(run_sheet, group.method) for group in three]
    figure = Figure(figsize=(WIDTH, 0.9 + 0.85 * len(chosen)))
    axes = figure.subplots(len(chosen), 1, squeeze=False, sharex=True)
    rows: list[dict[str, Any]] = []
    for (axis,), item in zip(axes, chosen, strict=True):
        rows += _example(axis, item, answers, names)
    # Beneath, for the legend stands above.
    axes[-1][0].set_xlabel(f"probability of the option\n{title}")
    add_legend(figure, axes)
    return Drawing(figure, HEADER, rows)


def _three(run_sheet: RunSheet, found: list[Group]) -> tuple[Group, Group, Group] | None:
    """Return the dense model, SparseGPT and Debias-SparseGPT of one regime and calibration."""
    for group in found:
        dense = dense_group(run_sheet, group.model)
        if group.method != "sparsegpt" or dense is None:
            continue
        place = (group.model, group.regime, group.calibration)
        for other in found:
            here = (other.model, other.regime, other.calibration)
            if other.method == "debias-sparsegpt" and here == place:
                return dense, group, other
    return None


def read_answers(path: Path) -> Answers:
    """Return the records of items.jsonl by item, with the probabilities of their options."""
    found: Answers = {}
    with expected_form("records with options", path, "evaluate again"):
        for row in read_records(path):
            logs = [float(one) for one in row["option_logprobs"]]
            top = max(logs)
            parts = [math.exp(one - top) for one in logs]
            unknown = row.get("unknown_idx", row.get("gold", 0))
            others = [part / sum(parts) for k, part in enumerate(parts) if k != unknown]
            shares = (parts[unknown] / sum(parts), *others)
            found[str(row["item_id"])] = {**row, "shares": shares}
    return found


def _pattern(answers: list[Answers], item: str) -> tuple[bool, ...]:
    return tuple(bool(one[item]["correct"]) for one in answers)


def _gap(answers: list[Answers], item: str | None) -> float:
    """Return by how much the two pruned models differ in the probability of "unknown"."""
    if item is None:
        return -1.0
    return abs(answers[1][item]["shares"][0] - answers[2][item]["shares"][0])


def _example(
    axis: Any, item: str, answers: list[Answers], names: list[str]
) -> list[dict[str, Any]]:
    """Draw one question as three stacked bars and return its rows."""
    record: Mapping[str, Any] = answers[0][item]
    category = str(record["category"])
    cluster = str(record.get("cluster") or item)
    rows = []
    for place, (one, name) in enumerate(zip(answers, names, strict=True)):
        shares, left = one[item]["shares"], 0.0
        for share, color, label in zip(
            shares, (UNKNOWN, FIRST, SECOND), ("“unknown”", "one person", "the other"), strict=True
        ):
            axis.barh(place, share, left=left, color=color, height=0.7, label=label)
            left += share
        rows.append(
            dict(
                zip(
                    HEADER,
                    (item, category, cluster, name, *(f"{x:.4f}" for x in shares)),
                    strict=True,
                )
            )
        )
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    parts = [part.strip() for part in cluster.split("|")]
    about = " · ".join(parts[1:] if len(parts) > 1 else parts)
    axis.set_title(f"{CATEGORY_LABELS.get(category, category)}: {about}", loc="left")
    return rows
