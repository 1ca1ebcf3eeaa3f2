"""Decode throughput over the batch size, with the device's bounds."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import matplotlib.ticker
from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..labels import (
    COLORS,
    MARKERS,
    REGIME_LABELS,
    calibration_label,
    method_label,
    model_label,
)
from ..plots import WIDTH, Drawing, add_legend
from ..results import Group, Quantity, Results, groups

TICKS = (1, 1.5, 2, 3, 5, 7)  # of each power of ten, where there is hardly one
BOUNDS = {
    "bound_decode_tok_per_s": ("Bound, dense weights", "--"),
    "bound_2of4_decode_tok_per_s": ("Bound, 2:4 weights", ":"),
}


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return decode tokens/s over the batch size with the device's bounds: one panel a model.

    The bounds are those measured with the model's first checkpoint, dense where there is one.
    """
    served = [point for point, files in run_sheet.files.items() if files["serving"]]
    if not served:
        raise UserError(
            f"the figure {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the figure out"
        )
    results.require(served)
    batches = {
        int(name.removeprefix("batch ")): name
        for name in results.categories("serving", "decode_tok_per_s")
    }
    sizes = sorted(batches)
    lines = sorted(groups(served), key=lambda group: not group.is_base)
    models = list(dict.fromkeys(group.model for group in lines))
    several = len({group.calibration for group in lines if not group.is_base}) > 1
    figure = Figure(figsize=(WIDTH, 2.8 + 0.1 * len(lines)))
    axes = figure.subplots(1, len(models), squeeze=False, sharey=True)
    rows: list[dict[str, Any]] = []
    for axis, model in zip(axes[0], models, strict=True):
        mine = [group for group in lines if group.model == model]
        for group in mine:
            base = run_sheet.base_method(group.method)
            look = {"color": COLORS[base], "marker": MARKERS[base]}
            label = method_label(run_sheet, group.method)
            if not group.is_base:
                label += f" {REGIME_LABELS[group.regime]}"
                if several:
                    label += f", {calibration_label(run_sheet, group.calibration)}"
            rows += _throughput_line(axis, results, group, "decode_tok_per_s", batches, label, look)
        for metric, (label, style) in BOUNDS.items():
            look = {"color": "0.6", "linestyle": style}
            rows += _throughput_line(axis, results, mine[0], metric, batches, label, look)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()
        low, high = axis.get_ylim()
        subs = TICKS if high < 20 * low else (1,)
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=subs))
        axis.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.grid(axis="y")
        axis.set_xlabel("batch size (sequences)")
        axis.set_title(model_label(run_sheet, model))
    axes[0][0].set_ylabel("decode throughput (tokens/s, log scale)")
    add_legend(figure, axes, columns=2)
    return Drawing(figure, tuple(rows[0]), rows)


def _throughput_line(
    axis: Any, results: Results, group: Group, metric: str, batches: Mapping[int, str],
    label: str, look: Mapping[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    found = {
        size: one.value
        for size, name in sorted(batches.items())
        if (one := results.of(group, Quantity("serving", metric, name))) is not None
    }
    axis.plot(list(found), list(found.values()), label=label, **look)
    return [
        {
            "model": group.model,
            "method": group.method,
            "regime": group.regime,
            "calibration": group.calibration,
            "metric": metric,
            "batch_size": size,
            "tok_per_s": f"{value:.4f}",
        }
        for size, value in found.items()
    ]
