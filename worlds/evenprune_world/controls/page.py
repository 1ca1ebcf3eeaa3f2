"""The page of ``report-controls``: verdicts, effects and how they are measured, as tables."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from evenprune.analysis.labels import REGIME_LABELS, calibration_label, method_label
from evenprune.config.config import Config
from evenprune.config.facts import METHODS
from evenprune.config.grids import Checkpoint, base_method, in_calibration
from evenprune.config.run_sheet import RunSheet
from evenprune.reporting.tables import Table

from .contrasts import KINDS, Contrast, control_words, is_control, strength
from .document import words_table
from .effects import Effect
from .measures import BY_NAME, NUMBERS, PAIRS, Number
from .runs import World

DATA_FILES = ("words.yaml",)
WORDS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
PLACE = ("regime", "method", "calibration")
JUDGED = [number for number in NUMBERS if number.good]
SIGNED = [number for number in NUMBERS if not number.name.startswith(("abs_", "off_"))]
FOUND = (
    "lowers bias", "why", "measured by", "costs", "over-abstention", "other measures of bias",
)  # fmt: skip
MARKS = {
    "better": "▲", "worse": "▼", "better in these worlds": "△", "worse in these worlds": "▽",
}  # fmt: skip


# Words for numbers and checkpoints


def shown(value: float, metric: Number, signed: bool = True) -> str:
    """Return a value on the printed scale, with a real minus sign."""
    decimals = 1 if metric.scale == 100 else 3
    text = f"{metric.scale * value:{'+' if signed else ''}.{decimals}f}"
    return "undefined" if math.isnan(value) else text.replace("-", "−")


def effect_text(one: Effect) -> str:
    """Return ``+1.2 [−0.3, +2.6] ▲``."""
    text, ends = shown(one.effect, one.metric), one.within.interval()
    if ends is not None:
        text += f" [{shown(ends.low, one.metric)}, {shown(ends.high, one.metric)}]"
    return f"{text} {MARKS.get(one.verdict, '')}".strip()


def percent(value: float, decimals: int = 0) -> str:
    """Return a share as ``−60 %``; "undefined" for NaN."""
    text = f"{100 * value:+.{decimals}f} %".replace("-", "−")
    return "undefined" if math.isnan(value) else text


def order(config: Config, point: Checkpoint) -> tuple:
    """Return what checkpoints are sorted by: regime, method, strength, then the rest."""
    method = base_method(config, point.method)
    place = [*REGIME_LABELS].index(point.regime), [*METHODS].index(method)
    amount = abs(strength(config, point.method) or 0)
    return *place, is_control(config, point), amount, point


def place_words(run_sheet: RunSheet, point: Checkpoint) -> tuple[str, str, str]:
    """Return a checkpoint's regime, method and calibration in words."""
    calibration = calibration_label(run_sheet, point.calibration)
    return REGIME_LABELS[point.regime], method_label(run_sheet, point.method), calibration


# The verdicts


def primary(config: Config, point: Checkpoint) -> str:
    """Return the number that decides: a slope in sentences that the calibration has not seen.

    Where both kinds of sentences were seen it is that of CrowS-Pairs; where the pairs are
    questions alone, or of another kind, R of BBQ, whose questions are another kind too.
    """
    sentences = [name for name in config.calibrations[point.calibration].pairs if name in PAIRS]
    if not sentences:
        return "abs_r_bbq"
    return "abs_slope_stereoset" if sentences == ["crows_pairs"] else "abs_slope_crows_pairs"


def verdict(own: Effect, controls: Sequence[Effect], config: Config) -> tuple[str, str]:
    """Return ``yes``, ``yes, in these worlds``, ``not shown`` or ``no``, and why."""
    if own.verdict.startswith("worse"):
        return "no", "higher than without the method"
    if not own.verdict.startswith("better"):
        return "not shown", "not lower than without the method"
    lost = [one for one in controls if not one.verdict.startswith("better")]
    if lost:
        names = ", ".join(control_words(config, one.contrast) for one in lost)
        return "not shown", f"not lower than the control ({names})"
    if not controls:
        return "not shown", "lower than without the method, but no control was run"
    sure = {own.verdict, *(one.verdict for one in controls)} == {"better"}
    why = f"lower than without the method and than {len(controls)} controls"
    return "yes" if sure else "yes, in these worlds", why


def finding(run_sheet: RunSheet, mine: Sequence[Effect], point: Checkpoint) -> list[str]:
    """Return a candidate's row of verdict, measure and costs, of its own effects."""
    config = run_sheet.config
    plain = {one.metric.name: one for one in mine if one.contrast.kind == "plain"}
    own = plain[primary(config, point)]
    controls = [one for one in mine if (one.contrast.kind, one.metric) == ("control", own.metric)]
    ends = (shown(value, own.metric, False) for value in (own.reference, own.value))
    spills = []
    for one in plain.values():
        judged = one.metric.kind == "bias" and one.metric.good and one is not own
        if judged and one.verdict.startswith(("better", "worse")):
            seen = any(
                entry.task == one.metric.task and in_calibration(config, point, slug)
                for slug, entry in config.benchmarks.items()
            )
            words = f"{one.metric.label} {percent(one.relative)}"
            spills.append(words + " (seen in calibration)" * seen)
    costs = (
        f"{percent(np.expm1(plain['nll'].effect), 1)} perplexity, "
        f"{shown(plain['mmlu'].effect, BY_NAME['mmlu'])} points MMLU, "
        f"{shown(plain['acc_dis'].effect, BY_NAME['acc_dis'])} points disambiguated"
    )
    return [
        *place_words(run_sheet, point), *verdict(own, controls, config),
        f"{own.metric.label}: {' → '.join(ends)} ({percent(own.relative)})", costs,
        shown(plain["abstained"].effect, BY_NAME["abstained"]), "; ".join(spills) or "none changes",
    ]  # fmt: skip


# The tables


def _effects_table(run_sheet: RunSheet, found: Sequence[Effect]) -> Table:
    config = run_sheet.config
    cells: dict[Contrast, dict[str, str]] = {}
    for one in found:
        cells.setdefault(one.contrast, {})[one.metric.name] = effect_text(one)

    def against(pair: Contrast) -> str:
        names = {"dense": "dense model", "plain": "without the method"}
        return names.get(pair.kind) or control_words(config, pair)

    def place(pair: Contrast) -> tuple:
        return -KINDS.index(pair.kind), order(config, pair.candidate), pair.reference

    rows = [
        [against(pair), *place_words(run_sheet, pair.candidate)]
        + [cells[pair][number.name] for number in JUDGED]
        for pair in sorted(cells, key=place)
    ]
    heads = ["against", *PLACE, *(number.label for number in JUDGED)]
    return words_table("effects", "What each checkpoint changes", heads, rows, [WORDS["effects"]])


def _dense_table(points: Sequence[Checkpoint], worlds: Sequence[World]) -> Table:
    index = next(k for k, point in enumerate(points) if point.is_base)
    rows = []
    for world in worlds:
        values = ((float(one.compute(world.totals)[index]), one) for one in SIGNED)
        rows.append([str(world.seed), *(shown(v, one, one.good == 0) for v, one in values)])
    heads = ["world", *(number.label for number in SIGNED)]
    return words_table("dense", "The dense models", heads, rows)


def tables(
    run_sheet: RunSheet, points: Sequence[Checkpoint], worlds: Sequence[World], found: list[Effect]
) -> list[Table]:
    """Return the page of ``report-controls``."""
    config = run_sheet.config
    plain = {one.contrast.candidate for one in found if one.contrast.kind == "plain"}
    rows = [
        finding(run_sheet, [one for one in found if one.contrast.candidate == point], point)
        for point in sorted(plain, key=lambda point: order(config, point))
        if strength(config, point.method) and not is_control(config, point)
    ]
    note = "Worlds " + ", ".join(str(world.seed) for world in worlds) + ". " + WORDS["answer"]
    items = "; ".join(
        f"{task}: {worlds[0].items[task]} items, {len(sums)} clusters"
        for task, sums in worlds[0].sums.items()
    )
    values = dict(worlds=len(worlds), items=items)
    how = [(head, text.format(**values)) for head, text in WORDS["how"].items()]
    return [
        words_table("answer", "Does a method lower bias?", (*PLACE, *FOUND), rows, [note]),
        _dense_table(points, worlds),
        _effects_table(run_sheet, found),
        words_table("how", "How it is measured", ("what", "how"), how, widths=(1, 6)),
    ]
