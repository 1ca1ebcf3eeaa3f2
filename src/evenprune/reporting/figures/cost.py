"""What generation costs by method: seconds and joules."""

from typing import Any

from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..labels import COLORS, REGIME_LABELS, method_label, model_label
from ..plots import WIDTH, Drawing
from ..results import Measured, Quantity, Results, groups

SPEED, ENERGY = Quantity("serving", "decode_tok_per_s"), Quantity("serving", "j_per_token")
TOKENS = 1000  # generated tokens that a bar stands for


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return seconds and joules for 1,000 generated tokens at the first batch size.

    A bar a checkpoint that was served, with the standard deviation over seeds where there are
    several. Raises UserError where nothing was measured.
    """
    grid = run_sheet.experiments.get(run_sheet.config.serving.experiment or "", [])
    shown = [group for group in groups(grid) if results.of(group, SPEED) is not None]
    if not shown:
        raise UserError(
            f"the figure {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the figure out"
        )
    several = len({group.model for group in shown}) > 1
    rows: list[dict[str, Any]] = []
    labels, seconds, joules, colors = [], [], [], []
    for group in shown:
        label = method_label(run_sheet, group.method)
        if not group.is_base:
            label += f" {REGIME_LABELS[group.regime]}"
        labels.append(f"{model_label(run_sheet, group.model)}: {label}" if several else label)
        colors.append(COLORS[run_sheet.base_method(group.method)])
        speed, energy = results.of(group, SPEED), results.of(group, ENERGY)
        seconds.append(_inverse(speed))
        joules.append(None if energy is None else TOKENS * energy.value)
        rows.append(
            {
                "model": group.model,
                "method": group.method,
                "regime": group.regime,
                "calibration": group.calibration,
                "seconds_per_1000_tokens": _text(seconds[-1]),
                "joules_per_1000_tokens": _text(joules[-1]),
            }
        )
    figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(shown)))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, values, unit in ((axes[0], seconds, "seconds"), (axes[1], joules, "joules")):
        lengths = [value or 0.0 for value in values]
        axis.barh(range(len(lengths)), lengths, color=colors, height=0.6)
        for place, value in enumerate(values):
            text = "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
            axis.annotate(text, (value or 0.0, place), xytext=(3, 0), textcoords="offset points",
                          va="center", fontsize=7)  # fmt: skip
        axis.set_xlim(0, 1.2 * max(lengths) or 1.0)
        axis.set_xlabel(f"{unit} for {TOKENS:,} tokens")
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].invert_yaxis()
    return Drawing(figure, tuple(rows[0]), rows)


def _inverse(speed: Measured | None) -> float | None:
    return None if speed is None or speed.value == 0 else TOKENS / speed.value


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
