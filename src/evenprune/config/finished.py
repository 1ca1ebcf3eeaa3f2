"""The files of a finished evaluation, each with the SHA-256 of the one below it.

summary.json has that of every metrics.json, metrics.json that of items.jsonl, and both of
themselves, so that an edited, truncated or exchanged file is noticed by whatever reads it.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from ..io.checksums import again, compare_files, read_sealed
from ..io.errors import UserError
from ..io.reading import expected_form
from .tasks import TASKS

SUMMARY, METRICS, ITEMS = "summary.json", "metrics.json", "items.jsonl"
RECORD = "a record of an evaluation"


class _Metric(BaseModel):
    value: float | None
    n: int


class _Result(BaseModel):
    """What readers of metrics.json rely on."""

    benchmark: str
    task: Literal[TASKS]  # type: ignore[valid-type]
    headline: str
    metrics: dict[str, _Metric]
    categories: dict[str, dict[str, _Metric]] = {}
    records: dict[str, Any]


def remedy(evals: Path) -> str:
    """Return what to do about a damaged result below ``evals``."""
    return f"evaluate again: run {again(evals / SUMMARY)}, or `evaluate` as before"


def read_result(folder: Path) -> dict[str, Any]:
    """Return the metrics of a finished benchmark in ``folder``, whose records are beside them.

    Raises UserError that names the file where metrics.json or items.jsonl is missing, or not as
    it was written.
    """
    path = folder / METRICS
    result = read_sealed(path, remedy(folder.parent))
    with expected_form(RECORD, path, remedy(folder.parent)):
        _Result.model_validate(result, strict=True)
        recorded = {ITEMS: str(result["records"]["sha256"])}
    compare_files(folder, recorded, path, remedy(folder.parent))
    return {"data": {}, "spec": {}} | result


def read_summary(evals: Path) -> dict[str, Any]:
    """Return summary.json of a checkpoint; raise UserError for one that is not as written."""
    summary = read_sealed(evals / SUMMARY, remedy(evals))
    with expected_form(RECORD, evals / SUMMARY, remedy(evals)):
        summary["benchmarks"].values()
    return summary


def result_folder(evals: Path, slug: str) -> Path:
    """Return the folder of a benchmark, its files being those that the summary is of.

    Raises UserError that names the file where one was changed.
    """
    benchmarks = read_summary(evals)["benchmarks"]
    if slug not in benchmarks:
        raise UserError(f"{evals / SUMMARY} has no benchmark {slug}; {remedy(evals)}")
    folder = evals / slug
    recorded = {METRICS: benchmarks[slug]["metrics_sha256"]}
    compare_files(folder, recorded, evals / SUMMARY, remedy(evals))
    read_result(folder)
    return folder
