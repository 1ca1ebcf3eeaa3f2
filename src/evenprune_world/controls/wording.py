"""How effects are ordered and worded on the page, and the answer in sentences."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenprune.plan.config import METHODS, Config
from evenprune.plan.grids import Checkpoint, base_method, in_calibration
from evenprune.plan.run_sheet import RunSheet
from evenprune.reporting.labels import REGIME_LABELS, calibration_label, method_label

from .contrasts import control_kind, control_of, is_control, strength
from .effects import Effect
from .frontier import Line, Matched
from .sums import BY_NAME, PAIRS, Measure

REGIME_ORDER = tuple(REGIME_LABELS)
MARKS = {
    "better": "▲",
    "worse": "▼",
    "better in these worlds": "△",
    "worse in these worlds": "▽",
    "undefined": "undefined",
}
# What a measure of bias is called in a sentence.
SPOKEN = {
    "abs_slope_stereoset": "slope in StereoSet's sentences",
    "abs_slope_crows_pairs": "slope in CrowS-Pairs' sentences",
    "abs_r_bbq": "R of BBQ's questions",
    "abs_r_unqover": "R of UnQover's questions",
}
CONTROL_LABELS = {
    "shuffled-pairs": "shuffled partners",
    "random-delta": "random partners",
    "reversed": "reversed sign",
    "text": "steps on text alone",
}


def shown(value: float, metric: Measure, signed: bool = True) -> str:
    """Return a value on the printed scale, with a real minus sign."""
    decimals = 1 if metric.scale == 100 else 3
    text = f"{metric.scale * value:{'+' if signed else ''}.{decimals}f}"
    return text.replace("-", "−")


def effect_text(one: Effect) -> str:
    """Return ``+1.2 [−0.3, +2.6] ▲``."""
    if math.isnan(one.effect):
        return "undefined"
    ends = ", ".join(shown(end, one.metric) for end in (one.ci.low, one.ci.high))
    return f"{shown(one.effect, one.metric)} [{ends}] {MARKS.get(one.verdict, '')}".strip()


def percent(value: float, decimals: int = 0) -> str:
    """Return a share as ``−60 %``; "undefined" for NaN."""
    if math.isnan(value):
        return "undefined"
    return f"{100 * value:+.{decimals}f} %".replace("-", "−")


def order(config: Config, point: Checkpoint) -> tuple[Any, ...]:
    """Return what checkpoints are sorted by: regime, method, strength, then the rest."""
    base = METHODS.index(base_method(config, point.method))
    amount = strength(config, point.method)
    place = REGIME_ORDER.index(point.regime)
    return place, base, is_control(config, point), abs(amount or 0), point


def select(
    run_sheet: RunSheet, found: Sequence[Effect], kind: str, name: str | None = None
) -> list[Effect]:
    """Return one kind's effects (of one metric) in the order of the tables."""
    config = run_sheet.config
    chosen = [one for one in found if one.contrast.kind == kind and name in (None, one.metric.name)]
    return sorted(
        chosen,
        key=lambda one: (order(config, one.contrast.candidate), one.contrast.reference),
    )


def place_words(run_sheet: RunSheet, point: Checkpoint) -> tuple[str, str, str]:
    """Return a checkpoint's regime, method and calibration in words."""
    calibration = "–"
    if point.calibration != "none":
        calibration = calibration_label(run_sheet, point.calibration)
    return REGIME_LABELS[point.regime], method_label(run_sheet, point.method), calibration


def control_words(config: Config, candidate: Checkpoint, control: Checkpoint) -> str:
    """Return in which way a control differs from its candidate."""
    kind = control_kind(config, control.method)
    if kind is None or control.method == candidate.method:
        kind = config.calibrations[control.calibration].control
    return CONTROL_LABELS[kind]


def primary(config: Config, point: Checkpoint) -> str:
    """Return the metric that decides: a slope in sentences that the calibration has not seen.

    Where both kinds of sentences were seen it is that of CrowS-Pairs; where the pairs are
    questions alone, or of another kind, R of BBQ, whose questions are another kind too.
    """
    sentences = [name for name in config.calibrations[point.calibration].pairs if name in PAIRS]
    if not sentences:
        return "abs_r_bbq"
    return "abs_slope_stereoset" if sentences == ["crows_pairs"] else "abs_slope_crows_pairs"


def was_seen(config: Config, point: Checkpoint, metric: Measure) -> bool:
    """Return whether a metric's items are among a checkpoint's calibration pairs."""
    return any(
        entry.task == metric.task and in_calibration(config, point, slug)
        for slug, entry in config.benchmarks.items()
    )


class Findings:
    """All effects of one candidate, and the verdict on it."""

    def __init__(self, run_sheet: RunSheet, found: Iterable[Effect], point: Checkpoint) -> None:
        """Take the candidate's own effects out of ``found``."""
        self.run_sheet, self.config, self.point = run_sheet, run_sheet.config, point
        mine = [one for one in found if one.contrast.candidate == point]
        self.plain = {one.metric.name: one for one in mine if one.contrast.kind == "plain"}
        self.metric = primary(self.config, point)
        self.controls = [
            one for one in mine if one.contrast.kind == "control" and one.metric.name == self.metric
        ]

    def verdict(self) -> tuple[str, str]:
        """Return ``yes``, ``yes, in these worlds``, ``not shown`` or ``no``, and why."""
        own = self.plain[self.metric].verdict
        if own.startswith("worse"):
            return "no", "higher than without the method"
        if not own.startswith("better"):
            return "not shown", "not lower than without the method"
        lost = [
            control_words(self.config, self.point, one.contrast.reference)
            for one in self.controls
            if not one.verdict.startswith("better")
        ]
        if lost:
            return "not shown", f"not lower than the control ({', '.join(lost)})"
        if not self.controls:
            return "not shown", "lower than without the method, but no control was run"
        said = [own, *(one.verdict for one in self.controls)]
        why = f"lower than without the method and than {len(self.controls)} controls"
        return ("yes" if set(said) == {"better"} else "yes, in these worlds"), why

    def costs(self) -> str:
        """Return what the method costs beside what it is without, in words."""
        points = [
            f"{shown(self.plain[name].effect, BY_NAME[name])} points {label}"
            for name, label in (("mmlu", "MMLU"), ("acc_dis", "disambiguated"))
        ]
        return ", ".join([f"{percent(np.expm1(self.plain['nll'].effect), 1)} perplexity", *points])

    def spills(self) -> str:
        """Return how the other measures of bias change, where a difference is shown."""
        changed = [
            f"{SPOKEN[name]} {percent(one.relative)}"
            + (" (seen in calibration)" if was_seen(self.config, self.point, one.metric) else "")
            for name, one in self.plain.items()
            if name in SPOKEN
            and name != self.metric
            and one.verdict.startswith(("better", "worse"))
        ]
        return "; ".join(changed) or "no other measure"

    def row(self) -> list[str]:
        """Return the verdict's row on the page."""
        own = self.plain[self.metric]
        verdict, why = self.verdict()
        change = (
            f"{shown(own.reference, own.metric, False)} → {shown(own.value, own.metric, False)} "
            f"({percent(own.relative)})"
        )
        abstained = shown(self.plain["abstained"].effect, BY_NAME["abstained"])
        measure = f"{SPOKEN[self.metric]}: {change}"
        words = place_words(self.run_sheet, self.point)
        return [*words, verdict, why, measure, self.costs(), abstained, self.spills()]


ROW_HEADS = (
    "regime", "method", "calibration", "lowers bias", "why", "measured by", "costs",
    "over-abstention", "spills over to",
)  # fmt: skip


def findings(run_sheet: RunSheet, found: Sequence[Effect]) -> list[Findings]:
    """Return the findings on every candidate that has a checkpoint without the method."""
    config = run_sheet.config
    points = {one.contrast.candidate for one in found if one.contrast.kind == "plain"}
    chosen = [point for point in points if not is_control(config, point)]
    chosen = [point for point in chosen if strength(config, point.method)]
    return [
        Findings(run_sheet, found, point)
        for point in sorted(chosen, key=lambda point: order(config, point))
    ]


def answer(run_sheet: RunSheet, found: Sequence[Effect]) -> list[str]:
    """Return the verdicts in sentences, one a candidate that lowers bias, and one on the rest."""
    every = findings(run_sheet, found)
    if not every:
        return [
            "This run has no method against bias beside what it is without, so nothing is said."
        ]
    lines = []
    for one in every:
        verdict, _ = one.verdict()
        if verdict.startswith("yes"):
            regime, method, calibration = place_words(run_sheet, one.point)
            own = one.plain[one.metric]
            lines.append(
                f"{method} ({regime}, {calibration}) lowers bias: {verdict}: "
                f"{SPOKEN[one.metric]} {percent(own.relative)}; costs {one.costs()}; spills over "
                f"to {one.spills()}."
            )
    rest = [one for one in every if not one.verdict()[0].startswith("yes")]
    if rest:
        names = [
            "{1} ({0}, {2}): {3}".format(*place_words(run_sheet, one.point), one.verdict()[0])
            for one in rest
        ]
        lines.append(f"Of {len(every)} checkpoints {len(rest)} are not shown to lower bias: "
                     + "; ".join(names) + ".")  # fmt: skip
    return lines


def checks(run_sheet: RunSheet, found: Sequence[Effect]) -> list[str]:
    """Return what the controls that must do something did: reversed signs raise bias."""
    config = run_sheet.config
    lines = []
    for one in select(run_sheet, found, "plain"):
        point = one.contrast.candidate
        if (
            control_kind(config, point.method) == "reversed"
            and control_of(config, point.calibration) is None
            and one.metric.name == primary(config, point)
        ):
            regime, method, _ = place_words(run_sheet, point)
            word = "raises" if one.verdict.startswith("worse") else "does not raise"
            lines.append(
                f"{method} ({regime}), a reversed sign, {word} the {SPOKEN[one.metric.name]}: "
                f"{effect_text(one)}."
            )
    return lines


def line_label(line: Line) -> str:
    """Return a line's name beside the others of its method."""
    return CONTROL_LABELS[line.control] if line.control else "the method"


def matched_rows(run_sheet: RunSheet, found: Sequence[Effect]) -> list[list[str]]:
    """Return the table of lines at matched perplexity, head first."""
    pairs: dict[Matched, dict[str, Effect]] = {}
    for one in found:
        pairs.setdefault(one.contrast, {})[one.metric.name] = one
    rows = [["regime", "method", "calibration", "budget", "against", *SPOKEN.values()]]
    for pair, by_name in pairs.items():
        line, other = pair.candidate, pair.reference
        regime = REGIME_LABELS[line.points[1].regime]
        against = line_label(other) if other.control else "without it"
        rows.append(
            [
                regime,
                line.method,
                calibration_label(run_sheet, line.calibration),
                f"{percent(pair.budget)} perplexity",
                against,
                *(effect_text(by_name[name]) for name in SPOKEN),
            ]
        )
    return rows
