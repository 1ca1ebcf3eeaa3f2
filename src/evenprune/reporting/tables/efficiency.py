"""DTO, throughput and CO2: the paper's table:mfu_sparsity_results."""

import dataclasses
from collections.abc import Sequence

from ...base.errors import UserError
from ...stats.directions import direction
from ..cells import embolden, identity, make_cells
from ..efficiency import (
    disturbance_notes,
    ratio_cells,
    ratio_columns,
    serving_notes,
    serving_stack,
)
from ..fields import DTO, Field, Run, dto_field, fitted, has_dto
from ..labels import REGIME_LABELS, method_label, model_label
from ..notes import notes
from ..render import Column, Table, TableRow
from ..results import Group, Quantity, groups

SPEED = Quantity("serving", "decode_tok_per_s")


def build(run: Run, slug: str) -> Table:
    """Return DTO, throughput and CO2 of dense and 2:4 models (table:mfu_sparsity_results).

    Throughput and CO2 are those of the first batch size; all of them, and how they were measured,
    are in the table ``efficiency_details``. Where they were measured the paired ratio to the dense
    model's throughput follows, with a verdict.
    """
    run_sheet = run.sheet
    experiment = run_sheet.config.serving.experiment
    grid = run_sheet.experiments.get(experiment or "", [])
    shown = [group for group in groups(grid) if run.results.of(group, SPEED) is not None]
    if not shown:
        raise UserError(
            f"the table {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the table out"
        )
    carbon = Quantity("serving", "kg_co2e_per_mtok")
    fields = [dto_field()] if has_dto(run_sheet) else []
    fields += [
        Field(
            Column("decode_tok_per_s", "Throughput (tok/s)", "performance",
                   direction("serving", SPEED.metric)),
            SPEED,
        ),
        Field(
            Column("kg_co2e_per_mtok", "CO₂ (kg/Mtok)", "performance",
                   direction("serving", carbon.metric), digits=4),
            carbon,
        ),
    ]  # fmt: skip
    fields = [fitted(run, shown, field) for field in fields]
    stacks = [serving_stack(run, group) for group in shown]
    known = [stack for stack in stacks if stack]
    ratio, verdict = ratio_columns()
    kernels = {group: _kernel(run, group) for group in shown}
    rows: list[TableRow] = []
    for model in dict.fromkeys(group.model for group in shown):
        start = len(rows)
        mine = [group for group in shown if group.model == model]
        for group in mine:
            label = model_label(run_sheet, model)
            if group.is_base:
                label += " (Dense)"
            else:
                label = f"{method_label(run_sheet, group.method)} ({REGIME_LABELS[group.regime]})"
            ours = run_sheet.base_method(group.method) == "debias-sparsegpt"
            cells = make_cells(run, group, fields, marks=False)
            cells |= ratio_cells(run, group) if known else {}
            rule = "full" if rows and group == mine[0] else ""
            rows.append(
                TableRow((label,), cells, identity(group), rule=rule, strong=ours)  # type: ignore[arg-type]
            )
        pruned = [start + i for i, group in enumerate(mine) if not group.is_base]
        embolden(rows, [field for field in fields if field.quantity == DTO], pruned)
        if sparse_kernel(mine, kernels):
            for position in pruned:
                found = rows[position].cells.get(verdict.key)
                if found is None or found.display == "faster":
                    rows[position] = with_bold(rows[position], fields)
    return Table(
        slug,
        "Throughput and CO₂e of dense and pruned models.",
        ("Model",),
        (*(field.column for field in fields), *((ratio, verdict) if known else ())),
        tuple(rows),
        (
            *notes(run, fields, shown, rows),
            *disturbance_notes(run, shown),
            *(serving_notes(run_sheet, known) if known else ()),
        ),
    )


def _kernel(run: Run, group: Group) -> str | None:
    stack = serving_stack(run, group)
    return stack["kernel"] if stack else None


def sparse_kernel(mine: Sequence[Group], kernels: dict[Group, str | None]) -> bool:
    """Return whether the pruned models of a block ran on another kernel than the dense one.

    Then those that are faster are so for the same reason, and bold together: on one kernel no
    pruned model is faster than another. Of printed numbers, whose kernel is not known, it is taken
    to be so.
    """
    dense = {kernels[group] for group in mine if group.is_base}
    pruned = {kernels[group] for group in mine if not group.is_base}
    return len(pruned) == 1 and (pruned == {None} or not pruned & dense)


def with_bold(row: TableRow, fields: Sequence[Field]) -> TableRow:
    """Return a row with its throughput and CO2 in bold."""
    keys = {field.column.key for field in fields if field.quantity != DTO}
    cells = {
        key: dataclasses.replace(cell, bold=key in keys or cell.bold)
        for key, cell in row.cells.items()
    }
    return dataclasses.replace(row, cells=cells)
