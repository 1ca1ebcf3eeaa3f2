"""What the workflow's run that a folder lies in says of it."""

import functools
from pathlib import Path

from ..models.identity import own_manifest
from ..plan.config import Config
from ..plan.grids import Checkpoint, in_calibration
from ..plan.pair_sources import BIAS_TYPES
from ..plan.run_sheet import read_run_sheet
from .sides import Evaluated, Side

RUN_SHEET = "run_sheet.json"


def run_of(side: Side) -> tuple[Config, Checkpoint] | None:
    """Return configuration and checkpoint of a side that lies in a run's results, else None.

    The configuration's ``results`` are those that it lies in.
    """
    return _run_at((side.place if isinstance(side, Evaluated) else side.folder).resolve())


@functools.cache
def _run_at(place: Path) -> tuple[Config, Checkpoint] | None:
    root = next((up for up in place.parents if (up / RUN_SHEET).is_file()), None)
    if root is None:
        return None
    # evals/<checkpoint> or pruned/<checkpoint>/model
    key = "/".join(place.relative_to(root).parts[1:6])
    sheet = read_run_sheet(root / RUN_SHEET)
    points = [point for point in sheet.files if point.key == key]
    return (sheet.config.model_copy(update={"results": str(root)}), points[0]) if points else None


def is_calibration_data(side: Side, slug: str) -> bool:
    """Return whether a side's run says that its calibration pairs are of a benchmark's data."""
    run = run_of(side)
    return run is not None and in_calibration(*run, slug)


def calibration_note(side: Side, tasks: list[str]) -> list[str]:
    """Return a warning for a pruned model whose pairs may be of a benchmark's data.

    Its manifest names the pairs' bias types, not their data set. Nothing where a run knows.
    """
    manifest = None if isinstance(side, Evaluated) or run_of(side) else own_manifest(side.folder)
    used = (manifest or {}).get("calibration") or {}
    types = set(used.get("categories") or ())
    likely = [task for task in tasks if types and types <= set(BIAS_TYPES.get(task, ()))]
    return [
        f"{side.name} was calibrated with pairs of the bias types {', '.join(sorted(types))}: if "
        f"they are from {task}, that benchmark is no clean test of it"
        for task in likely
    ]
