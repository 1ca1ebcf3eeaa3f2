"""What figures share: sizes, intervals, grids of panels, lines, axes and legends."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import matplotlib as mpl
import matplotlib.style
import matplotlib.ticker
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from ..config.run_sheet import RunSheet
from ..io.errors import UserError
from ..io.files import atomic_path, write_csv

# Part of this module's code, see codedigest.py.
DATA_FILES = ("figures.mplstyle",)
STYLE = resources.files(__package__).joinpath("figures.mplstyle")
# No creation date and no producer version: equal numbers give equal bytes.
METADATA: dict[str, Mapping[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
WIDTH = 5.5  # inches, the text width of most papers
SMALL = 7  # points, of texts inside of panels
Row = dict[str, Any]
Point = tuple[float, float, float]  # x, y, and half the width of its bar


@dataclass(frozen=True)
class Drawing:
    """A figure and the numbers it shows as CSV rows."""

    figure: Figure
    rows: list[Row]


def benchmark(run_sheet: RunSheet, slug: str, task: str) -> str:
    """Return the benchmark of a task; UserError where the run lacks one that a figure shows."""
    if found := run_sheet.primary(task):
        return found
    raise UserError(
        f"the figure {slug} shows {task}, but the configuration has no benchmark with task {task}; "
        "add one or leave the figure out"
    )


def panel_grid(models: Sequence[str], count: int) -> tuple[Figure, list[list[Any]]]:
    """Return a figure and its axes as [model][quantity], of ``count`` quantities.

    Several models make columns, whose quantities (rows) share their scale; the quantities of
    one model are in rows of three, or in one row of four.
    """
    if len(models) == 1:
        across = count if count <= 4 else 3
        lines = math.ceil(count / across)
        figure = Figure(figsize=(WIDTH, (1.4 if count > 2 else 2.2) * lines + 0.4))
        axes = figure.subplots(lines, across, squeeze=False).ravel()
        for spare in axes[count:]:
            spare.set_visible(False)
        return figure, [list(axes[:count])]
    figure = Figure(figsize=(min(WIDTH, 2 * len(models) + 1), 1.1 * count + 0.6))
    axes = figure.subplots(count, len(models), squeeze=False, sharex=True, sharey="row")
    return figure, [list(axes[:, column]) for column in range(len(models))]


LONG = 22  # letters of a label of which no four stand side by side


def add_legend(figure: Figure, axes: Iterable[Iterable[Any]]) -> None:
    """Put one legend over all panels, each label once; the figure grows with its lines."""
    entries: dict[str, Any] = {}
    for axis in (axis for line in axes for axis in line):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = min(3 if max(map(len, entries), default=0) > LONG else 4, len(entries))
    more = -(-len(entries) // columns) - 2 if columns else 0  # lines
    figure.set_figheight(figure.get_figheight() + 0.16 * max(0, more))
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns or 1)


def save(drawing: Drawing, prefix: str) -> None:
    """Write a figure's files, each one whole or not at all."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        FigureCanvasPdf(drawing.figure)
        for suffix, metadata in METADATA.items():
            with atomic_path(f"{prefix}.{suffix}") as temporary:
                drawing.figure.savefig(temporary, format=suffix, metadata=dict(metadata))
    write_csv(f"{prefix}.csv", tuple(drawing.rows[0]), drawing.rows)
