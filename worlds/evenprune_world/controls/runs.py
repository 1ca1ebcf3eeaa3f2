"""Read the runs that are compared: one results folder a world, everything but the world equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenprune.config.finished import result_folder
from evenprune.config.grids import Checkpoint
from evenprune.config.run_sheet import RunSheet, read_run_sheet
from evenprune.io.errors import UserError
from evenprune.io.progress import Progress

from .measures import FIELDS, PLANTED, Array, columns, read_planted, read_rows


@dataclass(frozen=True)
class World:
    """One run: its seed, and by task the sums (clusters, checkpoints, columns) and item count."""

    seed: int
    sums: dict[str, Array]
    items: dict[str, int]

    @property
    def totals(self) -> dict[str, Array]:
        """The sums over all clusters, by task (checkpoints, columns)."""
        return {task: sums.sum(axis=0) for task, sums in self.sums.items()}


def read_world(run: Path, run_sheet: RunSheet, points: Sequence[Checkpoint]) -> World:
    """Return the sums of one run's records; the items must be the same for all checkpoints."""
    sums, items = {}, {}
    planted = read_planted(run / "world" / "planted.json")["items"]
    progress = Progress(len(FIELDS) * len(points), f"records of {run}")
    for task in FIELDS:
        slug = run_sheet.primary(task)
        if slug is None or (task in PLANTED and task not in planted):
            raise UserError(
                f"expected a benchmark with the task {task} and its planted items in {run}, found "
                "none; run config/controls.yaml, which has it"
            )
        first: list[tuple[str, str]] = []
        parts = []
        for point in points:
            path = result_folder(run / "evals" / point.key, slug) / "items.jsonl"
            rows = read_rows(path, task, planted.get(task, {}))
            names = [(str(row["item_id"]), str(row.get("cluster", row["item_id"]))) for row in rows]
            first = first or names
            if names != first:
                raise UserError(
                    f"expected in {path} the items of {points[0].key}, found others; evaluate "
                    "both again with the same options"
                )
            parts.append(columns(path, task, rows))
            progress.update()
        _, index = np.unique([cluster for _, cluster in first], return_inverse=True)
        every = np.stack(parts, axis=1)
        sums[task], items[task] = np.zeros((index.max() + 1, *every.shape[1:])), len(every)
        np.add.at(sums[task], index, every)
    return World(run_sheet.config.world.seed, sums, items)


def read_runs(runs: Sequence[Path]) -> tuple[RunSheet, list[Checkpoint], list[World]]:
    """Return the runs' common run sheet, its checkpoints and every run's sums.

    Raises UserError for fewer than two runs, a run outside the invented world,
    two runs of one world, runs that differ in more than world, folder and title, a run without a
    dense model or with several models, calibration seeds or calibrations (their controls aside).
    """
    run_sheets = [read_run_sheet(run / "run_sheet.json") for run in runs]
    seeds = [run_sheet.config.world.seed for run_sheet in run_sheets]
    if len(seeds) < 2 or len({*seeds}) < len(seeds):
        raise UserError(
            "expected at least two runs (--run), each of another world, got runs with world.seed "
            f"{', '.join(map(str, seeds))}; `make controls` makes three"
        )
    for run, run_sheet in zip(runs, run_sheets, strict=True):
        alike = _comparable(run_sheet) == _comparable(run_sheets[0])
        if run_sheet.config.source != "world" or not alike:
            raise UserError(
                "expected runs of the invented world that differ in nothing but the world, but the "
                f"configurations of {runs[0]} and {run} differ or have another source; run both "
                "again with config/controls.yaml"
            )
    points = sorted(run_sheets[0].files)
    kinds = sorted({f"{point.model} with seed {point.seed}" for point in points})
    if len(kinds) > 1 or not any(point.is_base for point in points):
        raise UserError(
            f"expected one model, dense too, and one calibration seed in {runs[0]}, got "
            f"{', '.join(kinds)}; compare others in separate runs, and add dense to methods"
        )
    every = zip(runs, run_sheets, strict=True)
    return run_sheets[0], points, [read_world(run, sheet, points) for run, sheet in every]


def _comparable(run_sheet: RunSheet) -> tuple[dict[str, Any], list[Checkpoint]]:
    config = run_sheet.config.model_dump(exclude={"results": True, "title": True, "world": True})
    return config, sorted(run_sheet.files)
