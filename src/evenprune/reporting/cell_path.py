"""``MODEL/METHOD/REGIME/CALIBRATION/BENCHMARK[/METRIC[/CATEGORY]]``: a cell of a table."""

from collections.abc import Iterable, Sequence

from ..base.errors import UserError, nearest, shown
from .fields import Run
from .render import Cell, Column, Table
from .results import Group, Quantity, groups

FORM = "MODEL/METHOD/REGIME/CALIBRATION/BENCHMARK[/METRIC[/CATEGORY]]"
PARTS = ("model", "method", "regime", "calibration")
# Benchmarks of results.csv that are none of the configuration, with what is meant by default.
DERIVED = {"dto": "dto", "serving": "decode_tok_per_s", "masks": "pattern_disagreement"}


def near(word: str, known: Iterable[str]) -> str:
    """Return what a wrong word may have meant, as the end of a sentence."""
    names = list(dict.fromkeys(known))
    if found := nearest(word, names, 3):
        return found.removeprefix("; ")
    return f"there are {', '.join(names[:12])}" + (", …" if len(names) > 12 else "")


def parse(run: Run, text: str) -> tuple[Group, Quantity]:
    """Return the grid point and the quantity of a cell's path.

    Raises UserError, with the nearest names, for one that the run does not have.
    """
    words = text.split("/", 6)
    if len(words) < 5 or not all(words):
        raise UserError(f"expected a cell as {FORM}, got {shown(text)}")
    grid = groups(sorted(run.sheet.files))
    point = (words[0], words[1], words[2], words[3])
    slug = words[4]
    known = {(one.model, one.method, one.regime, one.calibration): one for one in grid}
    if point not in known:
        for index, (kind, word) in enumerate(zip(PARTS, point, strict=True)):
            fitting = [key[index] for key in known if key[:index] == point[:index]]
            if word not in fitting:
                before = "/".join(point[:index])
                where = f" of {before}" if before else ""
                raise UserError(
                    f"this run has no {kind} {shown(word)}{where}; {near(word, fitting)}"
                )
    benchmarks = run.sheet.config.benchmarks
    if slug not in benchmarks and slug not in DERIVED:
        raise UserError(
            f"this run has no benchmark {shown(slug)}; {near(slug, [*benchmarks, *DERIVED])}"
        )
    default = DERIVED[slug] if slug in DERIVED else run.sheet.headline(slug)
    metric = words[5] if len(words) > 5 else default
    category = words[6] if len(words) > 6 else ""
    group, quantity = known[point], Quantity(slug, metric, category)
    if run.results.of(group, quantity) is None:
        have = run.results.names(group.checkpoints()[0], slug)
        if not have:
            raise UserError(f"{'/'.join(point)} has no values of {slug} in this run")
        wanted = f"{metric}/{category}" if category else metric
        raise UserError(f"{'/'.join(words[:5])} has no {shown(wanted)}; {near(wanted, have)}")
    return group, quantity


def find(table: Table, group: Group, quantity: Quantity, value: float) -> tuple[Column, Cell]:
    """Return the column and cell of a table that shows a value.

    Raises UserError where the table has no such row, or no column of the quantity.
    """
    point = (group.model, group.method, group.regime, group.calibration)
    keyed = [row for row in table.rows if all(name in row.identity for name in PARTS)]
    if not keyed:
        raise UserError(
            f"the table {table.slug} has no cells of one checkpoint; name a table of values"
        )
    rows = [row for row in keyed if tuple(row.identity[name] for name in PARTS) == point]
    if not rows:
        have = ["/".join(row.identity[name] for name in PARTS) for row in keyed]
        raise UserError(
            f"the table {table.slug} has no row {'/'.join(point)}; {near('/'.join(point), have)}"
        )
    columns = _columns(table, quantity)
    for row in rows:
        for column in columns:
            cell = row.cells.get(column.key)
            if cell is not None and cell.value is not None and abs(cell.value - value) < 1e-12:
                return column, cell
    have = [column.key for column in table.columns]
    name = "/".join(part for part in quantity if part)
    raise UserError(f"the table {table.slug} does not show {name}; its columns are {_list(have)}")


def _columns(table: Table, quantity: Quantity) -> Sequence[Column]:
    """Return the columns whose key can stand for a quantity, the most exact one first."""
    slug, metric, category = quantity
    keys = [f"{slug}_{metric}", metric, slug, f"{slug}_{category}"]
    found = [column for key in keys for column in table.columns if column.key == key]
    return found + [one for one in table.columns if category and one.key.startswith(f"{metric}_")]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
