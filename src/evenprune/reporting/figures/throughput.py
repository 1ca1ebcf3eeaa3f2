"""Decode throughput over the batch size, with the device's bounds."""

from typing import Any

import matplotlib as mpl
import matplotlib.ticker
from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..efficiency import SPEED, paired_value
from ..labels import (
    COLORS,
    MARKERS,
    REGIME_LABELS,
    calibration_label,
    method_label,
    model_label,
)
from ..plots import WIDTH, Drawing, Row, add_legend
from ..results import Quantity, Results, groups

TICKS = (1, 1.5, 2, 3, 5, 7)  # of each power of ten, where there is hardly one
BOUNDS = {
    "bound_decode_tok_per_s": ("Bound, dense weights", "--"),
    "bound_2of4_decode_tok_per_s": ("Bound, 2:4 weights", ":"),
}


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return decode tokens/s over the batch size with the device's bounds: one panel a model.

    A pruned model's are the dense model's times the ratio within rounds. The bounds are those
    measured with the model's first checkpoint, dense where there is one.
    """
    served = [point for point, files in run_sheet.files.items() if files["serving"]]
    if not served:
        raise UserError(
            f"the figure {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the figure out"
        )
    results.require(served)
    batches = {int(one.removeprefix("batch ")): one for one in results.categories(*SPEED[:2])}
    lines = sorted(groups(served), key=lambda group: not group.is_base)
    models = list(dict.fromkeys(group.model for group in lines))
    several = len({group.calibration for group in lines if not group.is_base}) > 1
    figure = Figure(figsize=(WIDTH, 2.6 + 0.1 * len(lines)))
    axes = figure.subplots(1, len(models), squeeze=False, sharey=True)
    rows: list[Row] = []
    for axis, model in zip(axes[0], models, strict=True):
        mine = [group for group in lines if group.model == model]
        drawn: list[tuple[Any, str, str, dict[str, Any]]] = []
        for group in mine:
            base = run_sheet.base_method(group.method)
            label = method_label(run_sheet, group.method)
            if not group.is_base:
                label += f" {REGIME_LABELS[group.regime]}"
                label += f", {calibration_label(run_sheet, group.calibration)}" * several
            look = {"color": COLORS[base], "marker": MARKERS[base]}
            drawn.append((group, SPEED.metric, label, look))
        for metric, (label, style) in BOUNDS.items():
            drawn.append((mine[0], metric, label, {"color": "0.6", "linestyle": style}))
        for group, metric, label, look in drawn:
            found = {
                size: value
                for size, name in sorted(batches.items())
                if (value := paired_value(run_sheet, results, group,
                                          Quantity("serving", metric, name))) is not None
            }  # fmt: skip
            axis.plot(list(found), list(found.values()), label=label, **look)
            rows += [
                {**group.named, "metric": metric, "batch_size": size, "tok_per_s": f"{value:.4f}"}
                for size, value in found.items()
            ]
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sorted(batches), [str(size) for size in sorted(batches)])
        axis.minorticks_off()
        low, high = axis.get_ylim()
        subs = TICKS if high < 20 * low else (1,)
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=subs))
        axis.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.grid(axis="y")
        axis.set_xlabel("batch size (sequences)")
        axis.set_title(model_label(run_sheet, model))
    axes[0][0].set_ylabel("decode throughput (tokens/s, log scale) ↑")
    add_legend(figure, axes, columns=2)
    return Drawing(figure, rows)
