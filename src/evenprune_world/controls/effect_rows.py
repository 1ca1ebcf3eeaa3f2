"""The rows of controls.csv and frontier.csv."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from evenprune.plan.config import Config

from .contrasts import strength
from .effects import Effect

COLUMNS = (
    "contrast", "model", "method", "strength", "regime", "calibration", "seed",
    "reference_method", "reference_calibration", "metric", "worlds", "value", "reference",
    "effect", "ci_low", "ci_high", "t_low", "t_high", "p", "p_holm", "t_p",
    "t_p_holm", "by_world", "verdict",
)  # fmt: skip


FRONTIER_COLUMNS = (
    "model", "method", "regime", "calibration", "seed", "strengths", "against", "budget", "metric",
    "worlds", *COLUMNS[COLUMNS.index("value"):],
)  # fmt: skip


def number(value: float) -> str:
    """Return eight decimals, nothing where undefined."""
    return "" if math.isnan(value) else f"{value:.8f}"


def _numbers(one: Effect) -> dict[str, Any]:
    adjusted = one.adjusted or (math.nan, math.nan)
    return {
        "metric": one.metric.name,
        "worlds": len(one.by_world),
        "value": number(one.value),
        "reference": number(one.reference),
        "effect": number(one.effect),
        "ci_low": number(one.ci.low),
        "ci_high": number(one.ci.high),
        "t_low": number(one.student.low),
        "t_high": number(one.student.high),
        "p": number(one.p[0]),
        "p_holm": number(adjusted[0]),
        "t_p": number(one.p[1]),
        "t_p_holm": number(adjusted[1]),
        "by_world": " ".join(map(number, one.by_world)),
        "verdict": one.verdict,
    }


def rows(config: Config, found: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of controls.csv."""
    for one in found:
        candidate, reference = one.contrast.candidate, one.contrast.reference
        amount = strength(config, candidate.method)
        yield {
            "contrast": one.contrast.kind,
            "model": candidate.model,
            "method": candidate.method,
            "strength": "" if amount is None else f"{amount:g}",
            "regime": candidate.regime,
            "calibration": candidate.calibration,
            "seed": candidate.seed,
            "reference_method": reference.method,
            "reference_calibration": reference.calibration,
            **_numbers(one),
        }


def frontier_rows(found: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of frontier.csv; ``against`` is "plain" or what makes a control of a line."""
    for one in found:
        line, other = one.contrast.candidate, one.contrast.reference
        point = line.points[1]
        yield {
            "model": point.model,
            "method": line.method,
            "regime": point.regime,
            "calibration": line.calibration,
            "seed": point.seed,
            "strengths": " ".join(f"{value:g}" for value in line.weights),
            "against": other.control or "plain",
            "budget": f"{one.contrast.budget:g}",
            **_numbers(one),
        }
