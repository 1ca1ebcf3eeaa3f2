"""Throughput, energy and CO2 with backend, kernel and every batch size: not in the paper."""

import dataclasses
from collections.abc import Mapping, Sequence

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
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes
from ..plausibility import printed_anomaly
from ..render import Cell, Column, Rule, Table, TableRow
from ..results import Group, Quantity, groups

STACK = ("Backend", "Kernel", "Energy is")  # how a checkpoint was measured


def build(run: Run, slug: str) -> Table:
    """Return throughput, energy and CO2 of dense and 2:4 models, and how they were measured."""
    run_sheet = run.sheet
    measured = {
        point: files["serving"] for point, files in run_sheet.files.items() if files["serving"]
    }
    if not measured:
        raise UserError(
            f"the table {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the table out"
        )
    run.results.require(list(measured))
    batches = run.results.categories("serving", "decode_tok_per_s")
    batches = sorted(batches, key=lambda name: (len(name), name))
    fields = [dto_field()] if has_dto(run_sheet) else []
    shown_batches = batches or [""]
    for name in shown_batches:
        column = Column(
            f"decode_tok_per_s_{name.replace(' ', '_')}".rstrip("_"), name or "decode",
            "performance", direction("serving", "decode_tok_per_s"), span="Throughput (tokens/s)",
        )  # fmt: skip
        fields.append(Field(column, Quantity("serving", "decode_tok_per_s", name)))
    # The headline metrics are those of the first batch size and have the printed counterparts.
    for metric, head, digits, span in (
        ("j_per_token", "all", 3, "Energy (J/token)"),
        ("j_per_token_net", "above idle", 3, "Energy (J/token)"),
        ("kg_co2e_per_mtok", "CO₂e (kg/Mtok)", 4, ""),
    ):
        column = Column(
            metric, head, "performance", direction("serving", metric), digits=digits, span=span
        )
        fields.append(Field(column, Quantity("serving", metric)))
    paired = [ratio_columns(name) for name in shown_batches]
    # The order of the experiment's grid, which lists dense models first.
    grid = run_sheet.experiments.get(run_sheet.config.serving.experiment or "", [])
    shown = groups([point for point in grid if point in measured])
    fields = [fitted(run, shown, field) for field in fields]
    stacks = {group: serving_stack(run, group) for group in shown}
    # Measured all alike, it is a sentence beneath the table.
    same_stack = len({tuple(stack.values()) for stack in stacks.values()}) == 1
    rows: list[TableRow] = []
    for model in dict.fromkeys(group.model for group in shown):
        start = len(rows)
        for group in (group for group in shown if group.model == model):
            cells = make_cells(run, group, fields)
            cells = with_printed_batch(cells, run, group, batches)
            for name in shown_batches:
                # The paper prints no batch size: its ratio stands beside the first one's.
                cells |= ratio_cells(run, group, name, printed=name == shown_batches[0])
            if group.is_base:
                labels: tuple[str, ...] = (model_label(run_sheet, model), "–")
            else:
                method = (
                    f"+ {method_label(run_sheet, group.method)} ({REGIME_LABELS[group.regime]})"
                )
                labels = (method, calibration_label(run_sheet, group.calibration))
            rule: Rule = "full" if rows and len(rows) == start else ""
            ours = run_sheet.base_method(group.method) == "debias-sparsegpt"
            stack = stacks[group]
            labels = labels if same_stack else (*labels, *stack.values())
            rows.append(TableRow(labels, cells, identity(group) | stack, rule=rule, strong=ours))
        pruned = [i for i in range(start, len(rows)) if rows[i].identity["method"] != "dense"]
        # On one and the same kernel no pruned model is faster than another: differences are noise.
        same = len({rows[i].identity["kernel"] for i in pruned}) == 1
        embolden(rows, [f for f in fields if not same or f.quantity == DTO], pruned)
    said = []
    if same_stack:
        words = zip(STACK, next(iter(stacks.values())).values(), strict=True)
        said = [f"{'; '.join(f'{head} {value}' for head, value in words)}."]
    return Table(
        slug,
        "Generation throughput, energy and CO₂e of dense and pruned models.",
        ("Model + Method", "Calibration data", *(() if same_stack else STACK)),
        (
            *(field.column for field in fields),
            *(column for column, _ in paired),
            *(words for _, words in paired),
        ),
        tuple(rows),
        (
            *said,
            *notes(run, fields, shown, rows),
            *disturbance_notes(run, shown),
            *serving_notes(run_sheet, list(stacks.values())),
            printed_anomaly(),
        ),
    )


def with_printed_batch(
    cells: Mapping[str, Cell], run: Run, group: Group, batches: Sequence[str]
) -> dict[str, Cell]:
    """Put the paper's throughput, printed without a batch size, beside the first batch's."""
    cells = dict(cells)
    headline = run.results.of(group, Quantity("serving", "decode_tok_per_s"))
    if batches and headline is not None:
        key = f"decode_tok_per_s_{batches[0].replace(' ', '_')}"
        cells[key] = dataclasses.replace(cells[key], printed=headline.printed)
    return cells
