"""Speed, energy and CO2 of dense and 2:4 models: the paper's table:mfu_sparsity_results."""

from collections.abc import Sequence
from dataclasses import replace

from ...analysis.results import Group, groups
from ...base.errors import UserError
from ...plan.table_registry import TABLES
from ...stats.directions import direction
from ..cells import DTO, Field, Run, checkpoint_row, embolden, fitted, identity
from ..described import blocks, fields_of, made
from ..efficiency import (
    SPEED,
    paired_cell,
    ratio_cells,
    ratio_columns,
    serving_notes,
    serving_stack,
)
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes
from ..render import Column, Rule, Table, TableRow


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
    """Return speed and CO2 at the first batch size, or with ``batches`` as measured at each.

    At the first one a pruned model's numbers are the dense model's times the ratio within rounds,
    so that values, ratio and verdict are one estimate; medians of what was measured are in the
    table with ``batches``. Energy that was only assumed is no result of its own: there alone.
    """
    sheet, shown, entry = run.sheet, served(run, slug), TABLES[slug]
    stacks = {group: serving_stack(run, group) for group in shown}
    known = [stack for stack in stacks.values() if stack]
    names = [""]
    fields = fields_of(run, slug)
    if "batches" in entry:
        names = sorted(run.results.categories(*SPEED[:2]), key=lambda name: (len(name), name))
        dto = [field for field in fields if field.quantity == DTO]
        fields = [*dto, *map(_speed, names or [""]), *fields[len(dto) :]]
    elif any(stack["energy"] != "measured" for stack in known):
        fields = [field for field in fields if field.quantity in (DTO, SPEED)]
    fields = [fitted(run, shown, field) for field in fields]
    paired = [ratio_columns(name) for name in names] if known else []
    several = len({group.calibration for group in shown} - {"none"}) > 1
    rows: list[TableRow] = []
    for (model,), mine in blocks(shown, "model"):
        start = len(rows)
        for group in mine:
            label = f"{model_label(sheet, model)} (Dense)"
            if not group.is_base:
                label = f"{method_label(sheet, group.method)} ({REGIME_LABELS[group.regime]})"
                label += f", {calibration_label(sheet, group.calibration)}" * several
            rule: Rule = "full" if rows and len(rows) == start else ""
            row = checkpoint_row(run, group, fields, (label,), rule, marks=False)
            cells = dict(row.cells)
            for field in fields:
                if "batches" not in entry and field.quantity != DTO:
                    cells[field.column.key] = paired_cell(run, group, field)
            # The paper's throughput is printed without a batch size: it stands beside the first's.
            headline, first = run.results.of(group, SPEED), _speed(names[0]).column.key
            if headline is not None:
                cells[first] = replace(cells[first], printed=headline.printed)
            for name in names if known else []:
                cells |= ratio_cells(run, group, name, printed=name == names[0])
            named = identity(group) | (stacks[group] if "batches" in entry else {})
            rows.append(replace(row, cells=cells, identity=named))
        pruned = [start + k for k, group in enumerate(mine) if not group.is_base]
        embolden(rows, [field for field in fields if field.quantity == DTO], pruned)
        dense = {stacks[group].get("kernel", "dense") for group in mine if group.is_base}
        for place in pruned:
            said = [rows[place].cells[column.key].display for _, column in paired]
            # On the dense model's kernel none is faster; that of printed numbers is another one.
            if stacks[mine[place - start]].get("kernel") not in dense and set(said) <= {"faster"}:
                rows[place] = _with_bold(rows[place], fields)
    columns = [*(field.column for field in fields), *(column for column, _ in paired)]
    columns += [column for _, column in paired]
    notes_made = [*notes(run, fields, shown, rows), *(serving_notes(sheet, known) if known else [])]
    return made(run, slug, rows, columns, notes_made)


def _speed(batch: str) -> Field:
    """Return the column of decode throughput at one batch size; "" is the first one."""
    key = f"{SPEED.metric}_{batch.replace(' ', '_')}".rstrip("_")
    way = direction("serving", SPEED.metric)
    column = Column(key, batch or "decode", "performance", way, span="Throughput (tokens/s)")
    return Field(column, SPEED._replace(category=batch))


def _with_bold(row: TableRow, fields: Sequence[Field]) -> TableRow:
    """Return a row with its throughput and CO2 in bold."""
    keys = {field.column.key for field in fields if field.quantity != DTO}
    cells = {key: replace(one, bold=key in keys or one.bold) for key, one in row.cells.items()}
    return replace(row, cells=cells)
