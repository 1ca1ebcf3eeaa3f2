"""Speed, energy and CO2 of dense and 2:4 models: the paper's table:mfu_sparsity_results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..analysis.labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..analysis.measurements import ratio_to_dense, read_part
from ..analysis.results import Group, Quantity, Run, dense_group, groups
from ..config.run_sheet import RunSheet
from ..config.table_registry import TABLES
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats.inference import PairedRatio
from .notes import notes
from .rows import blocks, checkpoint_row, embolden, emboldened, made
from .table_columns import DTO, columns_of, fitted
from .tables import Cell, Column, Row, Rule, Table

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


def verdict(ratio: PairedRatio | None, margin: float) -> str:
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
    """Return sentences on what was measured, on ratios, energy and kernels; none of no stack."""
    serving, energy = sheet.config.serving, dict.fromkeys(stack["energy"] for stack in stacks)
    values = {
        "measured": "; ".join(dict.fromkeys(f"{s['backend']}, {s['kernel']}" for s in stacks)),
        "margin": 100 * serving.margin,
        "energy": " or ".join(energy) + ENERGY[list(energy) == ["measured"]],
        "batch": serving.batch_sizes[0],
    }
    said = TABLES["efficiency"]["measured"] if stacks else ()
    return [words.format(**serving.model_dump() | values) for words in said]


def served(run: Run, slug: str) -> list[Group]:
    """Return what was measured, in the order of the experiment's grid; UserError for nothing."""
    grid = run.sheet.experiments.get(run.sheet.config.serving.experiment or "", [])
    shown = [group for group in groups(grid) if run.results.of(group, SPEED) is not None]
    if not shown:
        raise UserError(
            f"the table {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the table out"
        )
    return shown


def build(run: Run, slug: str) -> Table:
    """Return speed and CO2 at the first batch size.

    A pruned model's numbers are the dense model's times the ratio within rounds, so that values,
    ratio and verdict are one estimate. Energy that was only assumed is no result of its own.
    """
    sheet, shown = run.sheet, served(run, slug)
    stacks = {group: serving_stack(run, group) for group in shown}
    assumed = any(stack["energy"] != "measured" for stack in stacks.values())
    columns = [
        fitted(run, shown, column)
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
                label = f"{method_label(sheet, group.method)} ({REGIME_LABELS[group.regime]})"
                label += f", {calibration_label(sheet, group.calibration)}" * several
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
