"""The rows of controls.csv."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..plan.config import Config
from .contrasts import bias_of
from .effects import Effect

COLUMNS = (
    "contrast", "model", "method", "bias_weight", "bias_scaling", "regime", "calibration", "seed",
    "reference_method", "reference_calibration", "metric", "worlds", "value", "reference",
    "effect", "ci_low", "ci_high", "t_low", "t_high", "by_world", "verdict",
)  # fmt: skip


def rows(config: Config, found: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of controls.csv; undefined numbers are empty, eight decimals the rest."""

    def number(value: float) -> str:
        return "" if math.isnan(value) else f"{value:.8f}"

    for one in found:
        candidate, reference = one.contrast.candidate, one.contrast.reference
        weight, scaling = bias_of(config, candidate.method)
        yield {
            "contrast": one.contrast.kind,
            "model": candidate.model,
            "method": candidate.method,
            "bias_weight": weight,
            "bias_scaling": scaling,
            "regime": candidate.regime,
            "calibration": candidate.calibration,
            "seed": candidate.seed,
            "reference_method": reference.method,
            "reference_calibration": reference.calibration,
            "metric": one.metric.name,
            "worlds": len(one.by_world),
            "value": number(one.value),
            "reference": number(one.reference),
            "effect": number(one.effect),
            "ci_low": number(one.ci.low),
            "ci_high": number(one.ci.high),
            "t_low": number(one.student.low),
            "t_high": number(one.student.high),
            "by_world": " ".join(map(number, one.by_world)),
            "verdict": one.verdict,
        }
