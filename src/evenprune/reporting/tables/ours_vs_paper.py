"""Every number of the run that the paper prints too, a row each: not in the paper."""

from ...base.errors import UserError
from ..beside import agreement, show_difference, show_interval, signs
from ..fields import Run
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import provenance_notes
from ..paired import Pair, pairs
from ..render import Cell, Column, Table, TableRow, covered, interval

COLUMNS = (
    Column("ours", "Ours"),
    Column("interval", "95 % interval"),
    Column("printed", "Paper"),
    Column("difference", "Ours − paper"),
)


def build(run: Run, slug: str) -> Table:
    """Return ours, its interval, the paper's value and the difference of every shared number.

    Raises UserError where no number has a printed counterpart, as in an invented world.
    """
    found = pairs(run.sheet, run.results)
    if not found:
        raise UserError(
            f"the table {slug} shows numbers that the paper prints too, and this run has none: "
            "expected the paper's models, methods and calibrations by their catalogue names, "
            "measured as in plan/declared.py; leave the table out of other runs"
        )
    rows: list[TableRow] = []
    previous = None
    for pair in found:
        group = (pair.group.model, pair.group.method, pair.group.regime, pair.group.calibration)
        labels = _labels(run, pair) if group != previous else ("", "")
        rows.append(
            TableRow(
                (*labels, pair.name),
                _cells(pair.column, pair.cell),
                _identity(pair),
                rule="dashed" if group != previous and rows else "",
            )
        )
        previous = group
    whole = agreement((pair.column, pair.cell) for pair in found)
    return Table(
        slug,
        f"Every number of this run that the paper prints too. {whole.words()}",
        ("Model", "Checkpoint", "Number"),
        COLUMNS,
        tuple(rows),
        (
            f"Differences are computed before rounding. {signs(whole)}".strip(),
            *provenance_notes(run.sheet),
        ),
        widths=(0.14, 0.25, 0.17),
    )


def _labels(run: Run, pair: Pair) -> tuple[str, str]:
    sheet, group = run.sheet, pair.group
    if group.is_base:
        return model_label(sheet, group.model), "dense"
    words = [method_label(sheet, group.method), REGIME_LABELS[group.regime]]
    if group.calibration != "none":
        words.append(calibration_label(sheet, group.calibration))
    return model_label(sheet, group.model), ", ".join(words)


def _cells(column: Column, cell: Cell) -> dict[str, Cell]:
    return {
        "ours": Cell(cell.value, column.show(cell.value)),
        "interval": Cell(None, show_interval(column, cell)),
        "printed": Cell(cell.printed, column.show(cell.printed)),
        "difference": Cell(None, show_difference(column, cell)),
    }


def _identity(pair: Pair) -> dict[str, str]:
    """Return a row of the CSV: the numbers in the units of the tables."""
    column, cell = pair.column, pair.cell
    ends, inside = interval(cell) or (None, None), covered(column, cell)
    group = pair.group
    return {
        "tables": pair.tables,
        "model": group.model,
        "method": group.method,
        "regime": group.regime,
        "calibration": group.calibration,
        "seeds": " ".join(map(str, group.seeds)),
        "benchmark": pair.quantity.benchmark,
        "metric": pair.quantity.metric,
        "category": pair.quantity.category,
        "ci_low": column.plain(ends[0]),
        "ci_high": column.plain(ends[1]),
        "covered": "" if inside is None else str(int(inside)),
    }
