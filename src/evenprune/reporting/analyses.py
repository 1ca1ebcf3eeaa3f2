"""Tables of analyses: matrices by their masks, groups by association, speed and energy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..analysis import labels, mask_diffs
from ..analysis.labels import model_label, pair_label
from ..analysis.measurements import ratio_to_dense, read_part
from ..analysis.results import Group, Quantity, Run, dense_group, groups
from ..config.finished import ITEMS
from ..config.run_sheet import RunSheet
from ..config.table_registry import TABLES
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats import inference
from ..stats.records import read_records
from . import tables
from .notes import notes, provenance_notes
from .rows import blocks, checkpoint_row, embolden, emboldened, made, make_cell, points_of
from .tables import DTO, Cell, Column, Row, Rule, Table, columns_of

MOST = 20  # groups
FEWEST = 5  # items, for an interval that says something
MASKS_BOLD = "Bold: largest disagreement or difference, smallest Jaccard index."
ZEROS = "Weights that were zero before pruning count as pruned."


def masks(run: Run, slug: str) -> Table:
    """Return the matrices whose masks differ most from SparseGPT's (tab:sparsity-pattern-analysis).

    A block a grid point of the experiment. The directions of the columns say what is bold, as in
    the paper, not what is good: largest differences, the smallest Jaccard index.
    """
    sheet, columns = run.sheet, columns_of(run, slug)
    shown = mask_diffs.compared(sheet, f"the table {slug}")
    rows, sentences = list[Row](), list[str]()
    for group in shown:
        run.results.require(group.checkpoints())
        label = pair_label(sheet, group) if len(shown) > 1 else ""
        if label:
            rows.append(Row((label,), kind="heading", rule="full" if rows else ""))
        values = mask_diffs.by_matrix(run.results, group)
        start = len(rows)
        for name in mask_diffs.ranked(values)[: mask_diffs.TOP]:
            layer, _, kind = name.partition(".")
            own = [replace(one, quantity=one.quantity._replace(category=name)) for one in columns]
            cells = {one.key: make_cell(run, group, one, marks=False) for one in own}
            named = group.identity | {"layer": layer, "module": kind}
            rows.append(Row((layer, kind), cells, named))
        embolden(rows, columns, range(start, len(rows)))
        sentence = mask_sentence(run, group, values, rows[start:])
        sentences.append(f"{label}: {sentence}" if label else sentence)
    columns = [replace(column, direction="") for column in columns]
    fixed = "" if len(shown) > 1 else f" ({pair_label(sheet, shown[0])})"
    bold = any(cell.bold for row in rows for cell in row.cells.values())
    said = [*sentences, *[MASKS_BOLD] * bold, ZEROS, *provenance_notes(sheet)]
    return made(run, slug, rows, columns, said, fixed=fixed)


def mask_sentence(run: Run, group: Group, values: Mapping[str, float], rows: Sequence[Row]) -> str:
    """Return of which modules the listed matrices are, how that compares to chance, the whole."""
    kinds = [row.identity["module"] for row in rows]
    order = sorted(dict.fromkeys(kinds), key=lambda kind: (-kinds.count(kind), kind))
    listed = ", ".join(f"{kinds.count(kind)} {kind}" for kind in order)
    text = f"{len(kinds)} of {len(values)} matrices are listed: {listed}"
    if spread := mask_diffs.concentration(values):
        text += f" (the model has {spread.kind} {mask_diffs.OUTPUT}; "
        text += f"{inference.p_text(spread.p_value)} by Fisher's exact test)"
    printed = [row.cells[mask_diffs.PATTERN].printed is not None for row in rows]
    if any(printed):
        text += f"; {sum(printed)} of them are among the paper's {mask_diffs.TOP}"
    if whole := run.results.of(group, Quantity(mask_diffs.SLUG, mask_diffs.PATTERN)):
        text += f"; pattern disagreement of all matrices together {whole.value:.4f}"
    return f"{text}."


# Groups by association


def associations(run: Run, slug: str) -> Table:
    """Return the groups with the largest association in the dense model, and what became of it.

    A row a group of at least ``FEWEST`` items: its bias type, the number of its items and its mean
    association in each checkpoint, with the 95 % interval of t over its items. Of several seeds an
    item has their mean.
    """
    sheet, task, metric = run.sheet, TABLES[slug]["task"], TABLES[slug]["metric"]
    benchmark = tables.benchmark_with(sheet, task, metric)
    if benchmark is None:
        raise tables.refused(slug, [task])
    shown = groups(points_of(run, slug))
    base = next((one for one in (dense_group(sheet, group.model) for group in shown) if one), None)
    if base is None:
        raise UserError(f"the table {slug} is of a dense model's associations; add method dense")
    mine = [base, *(one for one in shown if one.model == base.model and not one.is_base)]
    model = model_label(sheet, base.model)
    values = [_by_group(run, one, benchmark, metric) for one in mine]
    usual = tables.benchmark_column(sheet, benchmark, metric)
    heads = [labels.point_label(sheet, one).removeprefix(f"{model}, ") for one in mine]
    columns = [replace(usual, key=f"value{k}", head=head) for k, head in enumerate(heads)]
    known = {name: found for name, found in values[0].items() if len(found) >= FEWEST}
    order = sorted(known, key=lambda name: (-abs(math.fsum(known[name]) / len(known[name])), name))
    rows = []
    for category, target in order[:MOST]:
        cells = {
            column.key: _mean_cell(column, found.get((category, target), []))
            for column, found in zip(columns, values, strict=True)
        }
        named = {**base.identity, "group": target, "category": category}
        rows.append(Row((target, category, str(len(known[category, target]))), cells, named))
    return made(run, slug, rows, columns, model=model)


def _by_group(
    run: Run, group: Group, benchmark: str, metric: str
) -> Mapping[tuple[str, str], Sequence[float]]:
    """Return the items' values of a metric, means over the seeds, by bias type and group."""
    names, frames = ["category", "cluster", "item_id"], []
    for point in group.checkpoints():
        path = run.sheet.result_folder(point, benchmark) / ITEMS
        with expected_form("records of StereoSet", path, "evaluate again"):
            records = pd.DataFrame(read_records(path, (*names, metric)), columns=[*names, metric])
            frames.append(
                records.dropna(subset=metric).astype({metric: float, **dict.fromkeys(names, str)})
            )
    items = pd.concat(frames).groupby(names, sort=False)[metric]
    means = items.agg(lambda seeds: math.fsum(seeds) / len(seeds))
    return dict(means.groupby(names[:2], sort=False).agg(list))


def _mean_cell(column: Column, values: Sequence[float]) -> Cell:
    """Return a mean with its interval."""
    mean, n = float(np.mean(values)) if values else None, len(values)
    if mean is None or n < 2:
        return Cell(mean, column.show(mean))
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    ends = inference.Estimate(mean, error, df=n - 1).interval()
    return Cell(mean, column.with_ends(mean, ends), ends=ends)


# Speed, energy and CO2 of dense and 2:4 models: the paper's table:mfu_sparsity_results

ENERGY = (
    ": assumed power times the measured seconds, so it says nothing that the speed does not.",
    ": read from a counter (NVML or RAPL).",
)
LEVEL = 0.05  # of each one-sided test of equivalence
SPEED = Quantity("serving", "decode_tok_per_s")
# Whose ratio it has: CO2 is energy times a constant.
PAIRED_AS = {"kg_co2e_per_mtok": "j_per_token"}
RATIO = Column(f"{SPEED.metric}_ratio", "Speed / dense [95 %]", "performance", "up", digits=3)
VERDICT = Column(f"{RATIO.key}_verdict", "Verdict", text=True)


def verdict(ratio: inference.PairedRatio | None, margin: float) -> str:
    """Return what a ratio of speeds to the dense model's shows, in words.

    "same within …" where both one-sided tests against the margin reject at 5 %, however precisely a
    smaller difference is known; else "faster" or "slower" where the 95 % interval lies on one side
    of 1; else "not shown". An en dash where there is no ratio.
    """
    if ratio is None:
        return "–"
    if ratio.p_same is not None and ratio.p_same < LEVEL:
        return f"same within {100 * margin:g} %"
    if ratio.low is not None and ratio.low > 1:
        return "faster"
    return "slower" if ratio.high is not None and ratio.high < 1 else "not shown"


def ratio_cells(run: Run, group: Group) -> dict[str, Cell]:
    """Return the cells of ``RATIO``, the paper's ratio beside ours, and of ``VERDICT``."""
    ratio = ratio_to_dense(run.sheet, group, SPEED.metric)
    said = Cell(None, verdict(ratio, run.sheet.config.serving.margin))
    if ratio is None:
        return {RATIO.key: Cell(None, RATIO.show(None)), VERDICT.key: said}
    ends = None if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)
    pair = (group, dense_group(run.sheet, group.model))
    both = [run.results.of(each, SPEED) for each in pair if each]
    speeds = [each.printed for each in both if each and each.printed]
    theirs = speeds[0] / speeds[1] if len(speeds) == 2 else None
    source = Quantity("serving", RATIO.key).path
    cell = Cell(ratio.value, RATIO.with_ends(ratio.value, ends), theirs, ends=ends, source=source)
    return {RATIO.key: cell, VERDICT.key: said}


def paired_cell(run: Run, group: Group, column: Column) -> Cell:
    """Return a number of speed or energy: the dense model's times the ratio within rounds.

    The median of what was measured, for the dense model and where there is no ratio.
    """
    quantity = column.quantity
    own, dense = run.results.of(group, quantity), dense_group(run.sheet, group.model)
    if own is None:
        return Cell(None, column.show(None))
    base = run.results.of(dense, quantity) if dense is not None else None
    ratio = ratio_to_dense(run.sheet, group, PAIRED_AS.get(quantity.metric, quantity.metric))
    value = base.value * ratio.value if ratio and base else own.value
    return Cell(value, column.show(value), own.printed, source=quantity.path)


def serving_stack(run: Run, group: Group) -> dict[str, str]:
    """Return how a grid point was measured: backend and device, kernel, source of the energy.

    Seeds measured in different ways are all named.
    """
    stacks = []
    for point in group.checkpoints():
        path = run.sheet.efficiency(point.model)
        content = read_part(path, point)
        with expected_form("the backend and the energy source", path, "measure it again"):
            backend, device = content["backend"], content["spec"]["device"]
            name = f"{backend['name']} {backend['version']} on {device}"
            stacks.append((name, backend["kernel"], content["energy"]["source"]))
    said = ["; ".join(dict.fromkeys(values)) for values in zip(*stacks)]
    return dict(zip(("backend", "kernel", "energy"), said))


def serving_notes(sheet: RunSheet, stacks: Sequence[Mapping[str, str]]) -> list[str]:
    """Return sentences on what was measured, on ratios, energy and kernels."""
    serving, energy = sheet.config.serving, dict.fromkeys(stack["energy"] for stack in stacks)
    values = serving.model_dump() | {
        "measured": "; ".join(dict.fromkeys(f"{s['backend']}, {s['kernel']}" for s in stacks)),
        "margin": 100 * serving.margin,
        "energy": " or ".join(energy) + ENERGY[list(energy) == ["measured"]],
        "batch": serving.batch_sizes[0],
    }
    return [words.format_map(values) for words in TABLES["efficiency"]["measured"]]


def efficiency(run: Run, slug: str) -> Table:
    """Return speed and CO2 at the first batch size, in the order of the experiment's grid.

    A pruned model's numbers are the dense model's times the ratio within rounds, so that values,
    ratio and verdict are one estimate. Energy that was only assumed is no result of its own.
    Raises UserError where nothing was measured.
    """
    sheet = run.sheet
    grid = sheet.experiments.get(sheet.config.serving.experiment or "", [])
    shown = [group for group in groups(grid) if run.results.of(group, SPEED) is not None]
    if not shown:
        raise UserError(
            f"the table {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the table out"
        )
    stacks = {group: serving_stack(run, group) for group in shown}
    assumed = any(stack["energy"] != "measured" for stack in stacks.values())
    columns = [
        tables.fitted(run, shown, column)
        for column in columns_of(run, slug)
        if not assumed or column.quantity in (DTO, SPEED)
    ]
    own = [column for column in columns if column.quantity != DTO]
    several = len({group.calibration for group in shown} - {"none"}) > 1
    rows: list[Row] = []
    for (model,), mine in blocks(shown, "model"):
        start = len(rows)
        for group in mine:
            label = f"{model_label(sheet, model)} (Dense)"
            if not group.is_base:
                regime = labels.REGIME_LABELS[group.regime]
                label = f"{labels.method_label(sheet, group.method)} ({regime})"
                label += f", {labels.calibration_label(sheet, group.calibration)}" * several
            rule: Rule = "full" if rows and len(rows) == start else ""
            row = checkpoint_row(run, group, columns, (label,), rule, marks=False)
            cells = {column.key: paired_cell(run, group, column) for column in own}
            cells |= ratio_cells(run, group)
            rows.append(replace(row, cells={**row.cells, **cells}))
        pruned = [start + k for k, group in enumerate(mine) if not group.is_base]
        embolden(rows, [column for column in columns if column.quantity == DTO], pruned)
        dense = {stacks[group]["kernel"] for group in mine if group.is_base}
        for place in pruned:
            faster = rows[place].cells[VERDICT.key].display == "faster"
            # On the dense model's kernel none is faster.
            if stacks[mine[place - start]]["kernel"] not in dense and faster:
                rows[place] = emboldened(rows[place], [column.key for column in own])
    said = [*notes(run, columns, shown, rows), *serving_notes(sheet, [*stacks.values()])]
    return made(run, slug, rows, [*columns, RATIO, VERDICT], said)
