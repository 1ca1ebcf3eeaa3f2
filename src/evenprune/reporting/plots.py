"""What figures share: colours, intervals, grids of panels, axes and legends."""

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

from ..base.files import atomic_path, write_csv
from .fields import Field
from .labels import COLORS, MARKERS
from .render import Z95
from .results import Group, Measured

# Part of this module's code, see codedigest.py.
DATA_FILES = ("figures.mplstyle",)
STYLE = resources.files(__package__).joinpath("figures.mplstyle")
# No creation date and no producer version: equal numbers give equal bytes.
METADATA: dict[str, Mapping[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
WIDTH = 6.3  # inches, the text width of A4 with usual margins


@dataclass(frozen=True)
class Drawing:
    """A figure and the numbers it shows as CSV rows."""

    figure: Figure
    header: tuple[str, ...]
    rows: list[dict[str, Any]]


def interval(measured: Measured) -> tuple[float, float] | None:
    """Return the 95 % normal interval of a number from its standard error, None without one."""
    if measured.stderr is None:
        return None
    return measured.value - Z95 * measured.stderr, measured.value + Z95 * measured.stderr


def line_rows(field: Field, group: Group, measured: Measured, x: str) -> dict[str, Any]:
    """Return the CSV row of one point of a line."""
    scale = field.column.scale
    ends = interval(measured)
    return {
        "model": group.model,
        "method": group.method,
        "regime": group.regime,
        "calibration": group.calibration,
        "x": x,
        "column": field.column.key,
        "value": f"{scale * measured.value:.4f}",
        "ci_low": "" if ends is None else f"{scale * ends[0]:.4f}",
        "ci_high": "" if ends is None else f"{scale * ends[1]:.4f}",
        "sd": "" if measured.sd is None else f"{scale * measured.sd:.4f}",
        "printed": "" if measured.printed is None else f"{scale * measured.printed:.4f}",
    }


def axis_label(field: Field) -> str:
    """Return a quantity with its unit."""
    unit = " (%)" if field.column.scale == 100 else " (0–1)" if field.column.group == "dto" else ""
    return f"{field.column.head}{unit}"


def error_bars(measured: Sequence[Measured], scale: float) -> list[float]:
    """Return half widths of the bars: 95 % from the standard error, else the sd over seeds."""
    return [
        scale * (Z95 * one.stderr if one.stderr is not None else one.sd or 0.0) for one in measured
    ]


def panel_grid(models: Sequence[str], fields: Sequence[Field]) -> tuple[Figure, list[list[Any]]]:
    """Return a figure and its axes as [model][quantity].

    Several models make columns, whose quantities (rows) share their scale; the quantities of
    one model are laid out three in a row.
    """
    if len(models) == 1:
        lines = math.ceil(len(fields) / 3)
        figure = Figure(figsize=(WIDTH, 1.35 * lines + 0.5))
        axes = figure.subplots(lines, min(3, len(fields)), squeeze=False).ravel()
        for spare in axes[len(fields) :]:
            spare.set_visible(False)
        return figure, [list(axes[: len(fields)])]
    width = min(WIDTH, 2.1 * len(models) + 1.2)
    figure = Figure(figsize=(width, 1.2 * len(fields) + 0.6))
    axes = figure.subplots(len(fields), len(models), squeeze=False, sharex=True, sharey="row")
    return figure, [list(axes[:, column]) for column in range(len(models))]


ANNOTATED = 12  # layers up to which a heat map of masks also shows its numbers


def write_values(axis: Any, values: Sequence[Sequence[float]], light: float) -> None:
    """Write each value of a heat map into its cell, in white on values above ``light``."""
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            if not math.isnan(value):
                color = "white" if value > light else "black"
                axis.text(x, y, f"{value:.1f}", ha="center", va="center", color=color, fontsize=7)


def plot_line(axis: Any, x: Sequence[float], measured: Sequence[Measured], scale: float,
          method: str, label: str, **look: Any) -> None:  # fmt: skip
    """Draw a method's line with its error bars, on the column's scale."""
    axis.errorbar(
        x,
        [scale * one.value for one in measured],
        yerr=error_bars(measured, scale),
        color=COLORS[method],
        marker=MARKERS[method],
        elinewidth=0.8,
        label=label,
        **look,
    )


def label_x(axis: Any, label: str, row: int, models: int, fields: int) -> None:
    """Label the x axis of the lowest panels only."""
    if row == fields - 1 or (models == 1 and row >= fields - 3):
        axis.set_xlabel(label)


def finish_axis(axis: Any, field: Field, column: int, title: str) -> None:
    """Set grid, scale, label and title; perplexity is logarithmic where it spans a factor of 4."""
    axis.grid(axis="y")
    low, high = axis.dataLim.intervaly
    if field.column.group == "perplexity" and low > 0 and high / low > 4:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())
    if column == 0:
        axis.set_ylabel(axis_label(field))
    if title:
        axis.set_title(title)


def add_legend(figure: Figure, axes: Iterable[Iterable[Any]], columns: int = 5) -> None:
    """Put one legend over all panels, each label once."""
    found: dict[str, Any] = {}
    for axis in (axis for line in axes for axis in line):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="outside upper center", ncols=min(columns, len(found))
    )


def save(drawing: Drawing, prefix: str) -> None:
    """Write a figure's files, each one whole or not at all."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        FigureCanvasPdf(drawing.figure)
        for suffix, metadata in METADATA.items():
            with atomic_path(f"{prefix}.{suffix}") as temporary:
                drawing.figure.savefig(temporary, format=suffix, metadata=dict(metadata))
    write_csv(f"{prefix}.csv", drawing.header, drawing.rows)
