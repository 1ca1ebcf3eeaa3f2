"""DTO, throughput and CO2: the paper's table:mfu_sparsity_results, and how they were measured."""

from collections.abc import Sequence
from dataclasses import replace

from ...base.errors import UserError
from ...stats.directions import direction
from ..cells import embolden, identity
from ..described import blocks, checkpoint_row, fields_of, made
from ..efficiency import (
    SPEED,
    disturbance_notes,
    ratio_cells,
    ratio_columns,
    serving_notes,
    serving_stack,
)
from ..fields import DTO, Field, Run, fitted
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes
from ..plausibility import printed_anomaly
from ..render import Column, Rule, Table, TableRow
from ..results import Group, groups

STACK = ("Backend", "Kernel", "Energy is")  # how a checkpoint was measured


def served(run: Run, slug: str, printed: bool) -> list[Group]:
    """Return what was measured, in the order of the experiment's grid; UserError for nothing.

    ``printed``: the paper's numbers too, behind which there are no files.
    """
    grid = run.sheet.experiments.get(run.sheet.config.serving.experiment or "", [])
    if not printed:
        grid = [point for point in grid if run.sheet.files[point]["serving"]]
        run.results.require(grid)
    shown = [group for group in groups(grid) if run.results.of(group, SPEED) is not None]
    if not shown:
        raise UserError(
            f"the table {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the table out"
        )
    return shown


def build(run: Run, slug: str) -> Table:
    """Return DTO, throughput and CO2 of dense and 2:4 models at the first batch size.

    Where they were measured the paired ratio to the dense model's throughput follows, with a
    verdict.
    """
    sheet, shown = run.sheet, served(run, slug, printed=True)
    fields = [fitted(run, shown, field) for field in fields_of(run, slug)]
    stacks = {group: serving_stack(run, group) for group in shown}
    known = [stack for stack in stacks.values() if stack]
    ratio, verdict = ratio_columns()
    rows: list[TableRow] = []
    for (model,), mine in blocks(shown, "model"):
        start = len(rows)
        for group in mine:
            label = f"{model_label(sheet, model)} (Dense)"
            if not group.is_base:
                label = f"{method_label(sheet, group.method)} ({REGIME_LABELS[group.regime]})"
            rule: Rule = "full" if rows and len(rows) == start else ""
            row = checkpoint_row(run, group, fields, (label,), rule, marks=False)
            more = ratio_cells(run, group) if known else {}
            rows.append(replace(row, cells={**row.cells, **more}))
        pruned = [start + i for i, group in enumerate(mine) if not group.is_base]
        embolden(rows, [field for field in fields if field.quantity == DTO], pruned)
        if sparse_kernel(mine, {one: stack.get("kernel") for one, stack in stacks.items()}):
            for position in pruned:
                found = rows[position].cells.get(verdict.key)
                if found is None or found.display == "faster":
                    rows[position] = with_bold(rows[position], fields)
    columns = [*(field.column for field in fields), *((ratio, verdict) if known else ())]
    said = [*notes(run, fields, shown, rows), *disturbance_notes(run, shown)]
    return made(run, slug, rows, columns, [*said, *(serving_notes(sheet, known) if known else ())])


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
    cells = {key: replace(one, bold=key in keys or one.bold) for key, one in row.cells.items()}
    return replace(row, cells=cells)


def details(run: Run, slug: str) -> Table:
    """Return throughput, energy and CO2 of every batch size, and how they were measured.

    The headline metrics are those of the first batch size and have the printed counterparts.
    """
    sheet, shown = run.sheet, served(run, slug, printed=False)
    found = run.results.categories(*SPEED[:2])
    batches = sorted(found, key=lambda name: (len(name), name)) or [""]
    speeds = [
        Field(
            Column(
                f"{SPEED.metric}_{name.replace(' ', '_')}".rstrip("_"), name or "decode",
                "performance", direction("serving", SPEED.metric), span="Throughput (tokens/s)",
            ),
            SPEED._replace(category=name),
        )
        for name in batches
    ]  # fmt: skip
    fields = fields_of(run, slug)
    dto = [field for field in fields if field.quantity == DTO]
    fields = [fitted(run, shown, one) for one in [*dto, *speeds, *fields[len(dto) :]]]
    paired = [ratio_columns(name) for name in batches]
    stacks = {group: serving_stack(run, group) for group in shown}
    # Measured all alike, it is a sentence beneath the table.
    alike = len({tuple(stack.values()) for stack in stacks.values()}) == 1
    rows: list[TableRow] = []
    for (model,), mine in blocks(shown, "model"):
        start = len(rows)
        for group in mine:
            labels: tuple[str, ...] = (model_label(sheet, model), "–")
            if not group.is_base:
                name = f"+ {method_label(sheet, group.method)} ({REGIME_LABELS[group.regime]})"
                labels = (name, calibration_label(sheet, group.calibration))
            stack = stacks[group]
            labels = labels if alike else (*labels, *stack.values())
            rule: Rule = "full" if rows and len(rows) == start else ""
            row = checkpoint_row(run, group, fields, labels, rule)
            cells = dict(row.cells)
            # The paper's throughput is printed without a batch size: it stands beside the first's.
            headline, first = run.results.of(group, SPEED), speeds[0].column.key
            if headline is not None:
                cells[first] = replace(cells[first], printed=headline.printed)
            for name in batches:
                cells |= ratio_cells(run, group, name, printed=name == batches[0])
            rows.append(replace(row, cells=cells, identity=identity(group) | stack))
        pruned = [start + i for i, group in enumerate(mine) if not group.is_base]
        # On one and the same kernel no pruned model is faster than another: differences are noise.
        same = len({rows[i].identity["kernel"] for i in pruned}) == 1
        embolden(rows, [f for f in fields if not same or f.quantity == DTO], pruned)
    words = zip(STACK, next(iter(stacks.values())).values(), strict=True) if alike else ()
    said = [f"{'; '.join(f'{head} {value}' for head, value in words)}."] * alike
    said += [*notes(run, fields, shown, rows), *disturbance_notes(run, shown)]
    said += [*serving_notes(sheet, list(stacks.values())), printed_anomaly()]
    columns = [field.column for field in fields]
    columns += [*(column for column, _ in paired), *(column for _, column in paired)]
    table = made(run, slug, rows, columns, said)
    return table if alike else replace(table, heads=(*table.heads, *STACK))
