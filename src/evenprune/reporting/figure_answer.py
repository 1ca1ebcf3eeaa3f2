"""What pruning changed, measure by measure: the figure that the page begins with."""

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from ..analysis.labels import MARKERS, NATS, point_label
from ..analysis.results import WIDEST, Group, Run, dense_group, groups
from ..io.errors import UserError
from ..stats.verdicts import LOOKS, UNDECIDED
from .answer import compared
from .figures import SMALL, WIDTH, Drawing, Row
from .tables import Column

MOST = 12  # pruned models; more are in the table
COLORS = {"good": "#009E73", "bad": "#D55E00", "": "#0072B2"}
OPEN, BAND = "0.35", "0.87"
HEADS = {"bias": "Bias", "ability": "Ability"}
Tests = dict[Group, dict[str, Any]]  # of one measure


def draw(run: Run, slug: str) -> Drawing:
    """Return the difference of each compared measure from the dense model, a panel a measure.

    A point a pruned model, with the interval that goes with its verdict; in colour where that
    decides, else grey. The band behind it is what would not have been seen. Bias stands left,
    ability right. Raises UserError where nothing was tested.
    """
    points = run.points(WIDEST, f"the figure {slug}")
    pruned = [one for one in groups(points) if not one.is_base]
    pruned = [one for one in pruned if dense_group(run.sheet, one.model)][:MOST]
    panels: dict[str, dict[Column, Tests]] = {kind: {} for kind in HEADS}
    for group in pruned:
        for column, dense, _, test in compared(run, group):
            if test and test["family_low"] is not None:
                panels[test["kind"]].setdefault(column, {})[group] = test | {"dense": dense}
    tall = max(map(len, panels.values()))
    if not tall:
        raise UserError(
            f"the figure {slug} shows pruned models next to their dense one, and this run has no "
            "measure that could be tested; leave it out"
        )
    across = [kind for kind in HEADS if panels[kind]]
    height = 0.42 + 0.11 * len(pruned)
    figure = Figure(figsize=(WIDTH, height * tall + 0.2 * len(pruned) / 2 + 0.5))
    axes = figure.subplots(tall, len(across), squeeze=False)
    rows: list[Row] = []
    for place, kind in enumerate(across):
        for axis, (column, tests) in zip(axes[:, place], panels[kind].items(), strict=False):
            rows += _panel(axis, run, column, tests, pruned)
        first = axes[0][place]
        first.set_title(f"{HEADS[kind]}\n{first.get_title(loc='left')}", loc="left")
        for spare in axes[len(panels[kind]) :, place]:
            spare.set_visible(False)
    _legend(figure, run, pruned)
    return Drawing(figure, rows)


def _look(run: Run, group: Group, pruned: list[Group]) -> dict[str, Any]:
    regimes = list(dict.fromkeys(one.regime for one in pruned))
    fill = ("full", "none", "left", "bottom", "right")[regimes.index(group.regime) % 5]
    marker = MARKERS[run.sheet.base_method(group.method)]
    return {"marker": marker, "fillstyle": fill, "linestyle": "", "markersize": 4}


def _panel(axis: Any, run: Run, column: Column, tests: Tests, pruned: list[Group]) -> list[Row]:
    """Draw one measure and return its rows."""
    rows: list[Row] = []
    ratio = any(test["form"] == "ratio" for test in tests.values())
    scale = 1.0 if ratio else column.scale
    for group, test in tests.items():
        y = -pruned.index(group)
        value, low, high = (scale * test[key] for key in ("diff", "family_low", "family_high"))
        seen = test["detectable"]
        if seen is not None:
            ends = (1 / seen, seen) if ratio else (-scale * seen, scale * seen)
            axis.fill_betweenx([y - 0.45, y + 0.45], *ends, color=BAND, linewidth=0, zorder=0)
        undecided = test["verdict"] in UNDECIDED
        color = OPEN if undecided else COLORS[LOOKS.get(test["verdict"], "")]
        axis.plot([low, high], [y, y], color=color, linewidth=1)
        axis.plot([value], [y], color=color, **_look(run, group, pruned))
        size = None if seen is None else scale * seen
        numbers = {"difference": value, "low": low, "high": high, "detectable": size}
        shown = {k: "" if one is None else f"{one:.4f}" for k, one in numbers.items()}
        rows.append(
            {**group.key._asdict(), "measure": column.head, **shown, "verdict": test["verdict"]}
        )
    axis.axvline(1.0 if ratio else 0.0, color="0.2", linewidth=0.7)
    dense = next(iter(tests.values()))["dense"]
    unit = "ratio" if ratio else "nats" if column.quantity.metric in NATS else "points"
    title = f"{column.head}, {unit}, dense {column.show(dense)}"
    axis.set_title(title, loc="left", fontsize=SMALL)
    if ratio:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 1.2, 1.5, 2, 3, 5)))
        axis.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axis.set_ylim(-len(pruned) + 0.3, 0.7)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    return rows


def _legend(figure: Figure, run: Run, pruned: list[Group]) -> None:
    """Name the models, in the order of every panel, and what the colours say."""
    line = mpl.lines.Line2D
    labels = [point_label(run.sheet, group) for group in pruned]
    handles: list[Any] = [
        line([], [], color=OPEN, label=label, **_look(run, group, pruned))
        for group, label in zip(pruned, labels)
    ]
    words = {
        "better or fairer": COLORS["good"],
        "worse, less fair; fairer, ability lost": COLORS["bad"],
        "within the margin": COLORS[""],
        "no change shown": OPEN,
    }
    handles += [line([], [], color=color, label=word) for word, color in words.items()]
    handles.append(mpl.patches.Patch(color=BAND, label="too small to be seen"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
