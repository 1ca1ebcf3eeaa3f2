"""The stages of the run, drawn from its own graph of jobs."""

import itertools
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ...plan import grids
from ...plan.facts import NO_CALIBRATION
from ...plan.paths import Paths
from ...plan.run_sheet import RunSheet
from ..plots import WIDTH, Drawing
from ..results import Results

HIGH, STEP = 0.27, 0.4  # of a box, and from one level to the next, in inches
BOX = 1.42  # width of a box
ROUNDS = 8  # of ordering a level by the places of its neighbours
# What a rule works on, by its colour; of other rules it is white.
COLORS = {
    "#E3EEF7": ("generate_world", "world_model", "train_world", "fetch_dataset", "fetch_model"),
    "#E6F4EC": ("build_calibration", "prune_model", "prune_uncalibrated", "check_pruned"),
    "#FBEADF": ("evaluate_checkpoint", "benchmark_serving", "export_sparse24", "compare_masks"),
    "#F0F0F0": (
        "collect_results",
        "make_table",
        "make_figure",
        "make_items",
        "make_page",
        "make_paper",
    ),
}
Edges = Mapping[str, set[str]]


# Which rules each rule reads from; the order is that of a run.
READS = {
    "generate_world": (),
    "fetch_dataset": ("generate_world",),
    "world_model": ("generate_world",),
    "fetch_model": ("world_model",),
    "build_calibration": ("fetch_dataset", "fetch_model"),
    "prune_model": ("build_calibration",),
    "prune_uncalibrated": ("fetch_model",),
    "check_pruned": ("prune_model", "prune_uncalibrated"),
    "compare_masks": ("check_pruned",),
    "evaluate_checkpoint": ("check_pruned", "fetch_model", "fetch_dataset"),
    "export_sparse24": ("check_pruned",),
    "benchmark_serving": ("export_sparse24", "check_pruned", "fetch_model", "fetch_dataset"),
    "write_run_sheet": (),
    "list_checkpoints": (),
    "collect_results": (
        *("list_checkpoints", "evaluate_checkpoint", "compare_masks", "benchmark_serving"),
        *("check_pruned", "build_calibration"),
    ),
    "make_table": ("write_run_sheet", "collect_results"),
    "make_figure": ("write_run_sheet", "collect_results"),
    "make_items": ("list_checkpoints", "evaluate_checkpoint", "fetch_dataset"),
    "report_world": ("evaluate_checkpoint",),
    "make_page": ("make_table", "make_figure", "make_items", "report_world"),
    "make_paper": ("make_page",),
}


def rule_graph(run_sheet: RunSheet) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return the jobs of each rule in this run, and which rules each rule reads from.

    An arrow that follows from others is left out.
    """
    counts = rule_counts(Paths(run_sheet.config))
    reads = {rule: {one for one in READS[rule] if one in counts} for rule in counts}
    return counts, {rule: _direct(rule, reads) for rule in counts}


def rule_counts(paths: Paths) -> dict[str, int]:
    """Return the number of jobs of each rule, in order."""
    config, pruned = paths.config, [one for one in paths.checkpoints if not one.is_base]
    calibrated = sum(point.calibration != NO_CALIBRATION for point in pruned)
    models, is_world = len(grids.needed_models(config)), config.source == "world"
    counts = {
        "generate_world": int(is_world),
        "fetch_dataset": len(grids.needed_datasets(config)),
        "world_model": models if is_world else 0,
        "fetch_model": models,
        "build_calibration": len(paths.calibration_files()),
        "prune_model": calibrated,
        "prune_uncalibrated": len(pruned) - calibrated,
        "check_pruned": len(pruned),
        "compare_masks": len(paths.mask_references),
        "evaluate_checkpoint": len(paths.checkpoints),
        "export_sparse24": sum(map(paths.is_exported, paths.checkpoints)),
        "benchmark_serving": len(paths.serving_files()),
        "make_table": len(config.tables),
        "make_figure": len(config.figures),
        "make_items": len(paths.item_files()),
        "report_world": len(paths.world_files()),
    }
    return {rule: counts.get(rule, 1) for rule in READS if counts.get(rule, 1)}


def _above(rule: str, reads: Edges) -> set[str]:
    found: set[str] = set()
    waiting = list(reads[rule])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += reads[one]
    return found


def _direct(rule: str, reads: Edges) -> set[str]:
    return {
        one
        for one in reads[rule]
        if not any(one in _above(other, reads) for other in reads[rule] - {one})
    }


def levels(reads: Edges) -> dict[str, int]:
    """Return how many steps stand before each rule on the longest way to it.

    A rule that reads from none stands right above the first that reads from it.
    """
    found: dict[str, int] = {}

    def level(rule: str) -> int:
        if rule not in found:
            found[rule] = 1 + max((level(one) for one in reads[rule]), default=-1)
        return found[rule]

    for rule in reads:
        level(rule)
    for rule in reads:
        below = [found[other] for other, needs in reads.items() if rule in needs]
        if not reads[rule] and below:
            found[rule] = min(below) - 1
    return found


def arranged(reads: Edges) -> tuple[list[list[str]], list[list[str]]]:
    """Return the nodes of each level from left to right, and the arrows as chains of nodes.

    An arrow over several levels has a node of its own (its name begins with ``>``) on each
    between, so that it runs beside the boxes there.
    """
    place = levels(reads)
    rows: list[list[str]] = [[] for _ in range(1 + max(place.values()))]
    for rule, level in place.items():
        rows[level].append(rule)
    chains = []
    for rule in reads:
        for one in sorted(reads[rule]):
            between = [f">{one}>{rule}>{k}" for k in range(place[one] + 1, place[rule])]
            for level, name in enumerate(between, place[one] + 1):
                rows[level].append(name)
            chains.append([one, *between, rule])
    beside: dict[str, list[str]] = {}
    for chain in chains:
        for one, other in itertools.pairwise(chain):
            beside.setdefault(one, []).append(other)
            beside.setdefault(other, []).append(one)
    for turn in range(ROUNDS):
        order = list(range(len(rows)))
        for level in order if turn % 2 == 0 else order[::-1]:
            near = {*rows[level - 1]} if level and turn % 2 == 0 else set()
            if turn % 2 and level + 1 < len(rows):
                near = {*rows[level + 1]}
            spots = positions(rows)
            rows[level].sort(key=lambda name: _mean(name, beside.get(name, []), near, spots))
    return rows, chains


def _mean(
    name: str, others: Sequence[str], near: set[str], spots: Mapping[str, float]
) -> tuple[float, float]:
    found = [spots[one] for one in others if one in near]
    return (sum(found) / len(found) if found else spots[name], spots[name])


def positions(rows: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the place of each node across the figure, in inches; boxes take more room."""
    found = {}
    for row in rows:
        widths = [0.25 if name.startswith(">") else BOX + 0.12 for name in row]
        left = (WIDTH - sum(widths)) / 2
        for name, width in zip(row, widths, strict=True):
            found[name] = left + width / 2
            left += width
    return found


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the rules of the run from top to bottom, each with its number of jobs."""
    counts, reads = rule_graph(run_sheet)
    rows, chains = arranged(reads)
    spots = positions(rows)
    height = STEP * len(rows) - (STEP - HIGH) + 0.1
    figure = Figure(figsize=(WIDTH, height))
    figure.set_layout_engine("none")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_xlim(0, WIDTH)
    axis.set_ylim(0, height)
    axis.axis("off")
    top = {name: height - 0.05 - STEP * level for level, row in enumerate(rows) for name in row}
    fills = {rule: color for color, rules in COLORS.items() for rule in rules}
    for chain in chains:
        points = [(spots[chain[0]], top[chain[0]] - HIGH)]
        for name in chain[1:-1]:
            points += [(spots[name], top[name]), (spots[name], top[name] - HIGH)]
        end = (spots[chain[-1]], top[chain[-1]])
        axis.plot(*zip(*[*points, end], strict=True), color="0.45", linewidth=0.7, zorder=0)
        arrow = {"arrowstyle": "-|>", "color": "0.45", "linewidth": 0.7}
        axis.annotate("", end, points[-1], zorder=0, arrowprops=arrow)
    for rule, count in counts.items():
        left = spots[rule] - BOX / 2
        axis.add_patch(
            FancyBboxPatch(
                (left, top[rule] - HIGH), BOX, HIGH, linewidth=0.7, edgecolor="0.4",
                boxstyle="round,pad=0,rounding_size=0.05", facecolor=fills.get(rule, "white"),
            )
        )  # fmt: skip
        words = rule.replace("_", " ")
        number = f"{count:,} job{'s' if count > 1 else ''}"
        axis.text(spots[rule], top[rule] - 0.09, words, fontsize=7.5, fontweight="bold",
                  ha="center", va="center")  # fmt: skip
        axis.text(spots[rule], top[rule] - 0.195, number, fontsize=7, ha="center", va="center")
    lines = [
        {"rule": rule, "jobs": count, "reads_from": " ".join(sorted(reads[rule]))}
        for rule, count in counts.items()
    ]
    return Drawing(figure, tuple(lines[0]), lines)
