"""What benchmark-serving wrote: one checkpoint's part of it, and paired ratios to the dense model.

Every ratio is taken within a round, in which the checkpoints were measured one right after the
other. So a machine whose speed changes, or other work on it, moves both of its parts.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..io.checksums import again, read_sealed
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats import inference
from .frames import Number, Numbers, Quantity
from .results import Group, dense_group, groups

# Figures whose ratios to the dense model results.csv has.
PAIRED = ("decode_tok_per_s", "j_per_token")


def remedy(path: str) -> str:
    """Return what to do about a damaged measurement."""
    return f"measure again: run {again(path)}"


def read_measurement(path: str) -> dict[str, Any]:
    """Return a measurement of a model's checkpoints; UserError where it was changed since."""
    content = read_sealed(path, remedy(path))
    with expected_form("checkpoints and rounds", path, remedy(path)):
        if not content["checkpoints"] or not content["rounds"]:
            raise KeyError("rounds")
    return content


def read_part(path: str, point: Checkpoint) -> dict[str, Any]:
    """Return what a measurement says of one checkpoint, with its ``spec``."""
    content = read_measurement(path)
    if point.key not in content["checkpoints"]:
        raise UserError(
            f"expected {point.key} in {path}, which measures "
            f"{', '.join(content['checkpoints'])}; {remedy(path)}"
        )
    with expected_form("fields of each checkpoint", path, remedy(path)):
        return {**content["checkpoints"][point.key], "spec": content.get("spec")}


def log_ratios(
    content: dict[str, Any], names: Sequence[str], metric: str, base: Sequence[str]
) -> list[float]:
    """Return ln(checkpoint / base) of a figure in every round, of several their means.

    It is that of the first batch size. ``names`` and ``base`` are checkpoints of the measurement.
    """
    size = content["spec"]["batch_sizes"][0]
    rounds: dict[int, dict[str, float]] = {}
    for row in content["rounds"]:
        if row["batch"] == size and metric in row["figures"]:
            log = math.log(row["figures"][metric])
            rounds.setdefault(row["round"], {})[row["checkpoint"]] = log
    return [
        float(np.mean([logs[name] for name in names])) - float(np.mean([logs[b] for b in base]))
        for _, logs in sorted(rounds.items())
    ]


def log_ratios_between(run_sheet: RunSheet, ours: Group, base: Group, metric: str) -> list[float]:
    """Return ln(ours / base) of a figure of one model in every round; with several seeds of means.

    Empty where one of the two was not measured, or not in the same job as the other.
    """
    points = [group.checkpoints() for group in (ours, base)]
    path, *others = {run_sheet.measurement(point) for side in points for point in side}
    if path is None or others:
        return []
    content = read_measurement(path)
    names = [[point.key for point in side] for side in points]
    if not set(names[0] + names[1]) <= set(content["checkpoints"]):
        return []
    with expected_form("figures of every round", path, remedy(path)):
        return log_ratios(content, names[0], metric, names[1])


def ratio_to_dense(run_sheet: RunSheet, group: Group, metric: str) -> inference.PairedRatio | None:
    """Return how a grid point's figure compares with the dense model's, paired by round.

    With several seeds the geometric mean over them in each round. None for the dense model itself,
    and where nothing, or no dense model, was measured in the same job.
    """
    dense = dense_group(run_sheet, group.model)
    if group.is_base or dense is None:
        return None
    logs = log_ratios_between(run_sheet, group, dense, metric)
    return inference.paired_ratio(logs, run_sheet.config.serving.margin) if logs else None


def ratio_values(run_sheet: RunSheet, point: Checkpoint) -> Numbers:
    """Return a checkpoint's ratios, as results.csv has them.

    ``<metric>_ratio``, the ends of its interval ``<metric>_ratio_low`` and ``_high``, the p-value
    ``<metric>_ratio_p_same``, and ``<metric>_log_ratio``, the mean logarithm with its error.
    """
    (group,), found = groups([point]), Numbers()
    for metric in PAIRED:
        if ratio := ratio_to_dense(run_sheet, group, metric):
            log = Number(math.log(ratio.value), ratio.n, ratio.log_stderr)
            found[Quantity("serving", f"{metric}_log_ratio")] = log
            for end in ("", "_low", "_high", "_p_same"):
                if (value := getattr(ratio, end[1:] or "value")) is not None:
                    found[Quantity("serving", f"{metric}_ratio{end}")] = Number(value, ratio.n)
    return found
