"""The files of a finished evaluation, each with the SHA-256 of the one below it.

summary.json has that of every metrics.json, metrics.json that of items.jsonl, and both of
themselves, so that an edited, truncated or exchanged file is noticed by whatever reads it.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ..io.checksums import again, compare_files, read_sealed
from ..io.errors import UserError, shown
from .tasks import TASKS

SUMMARY, METRICS, ITEMS = "summary.json", "metrics.json", "items.jsonl"
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Metric(_Strict):
    value: float | None
    n: int
    stderr: float | None = None


class _Records(_Strict):
    sha256: Sha256


class _Result(_Strict):
    """What readers of metrics.json rely on."""

    benchmark: str
    task: Literal[TASKS]  # type: ignore[valid-type]
    headline: str
    metrics: dict[str, _Metric]
    categories: dict[str, dict[str, _Metric]] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)
    spec: dict[str, Any] = Field(default_factory=dict)
    base_sha256: str | None = None
    files_sha256: str | None = None
    records: _Records


class _Entry(_Strict):
    metrics_sha256: str


class _Summary(_Strict):
    benchmarks: dict[str, _Entry]


def _of_form(form: type[BaseModel], content: Any, path: Path, evals: Path) -> None:
    """Raise UserError where a record has another form than the one that was written."""
    try:
        form.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = shown("/".join(map(str, first["loc"])))
        raise UserError(
            f"expected a record of an evaluation in {path}, but {place} has another form "
            f"({first['msg']}); {remedy(evals)}"
        ) from None


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
    _of_form(_Result, result, path, folder.parent)
    compare_files(folder, {ITEMS: result["records"]["sha256"]}, path, remedy(folder.parent))
    return {"data": {}, "spec": {}} | result


def read_summary(evals: Path) -> dict[str, Any]:
    """Return summary.json of a checkpoint; raise UserError for one that is not as written."""
    summary = read_sealed(evals / SUMMARY, remedy(evals))
    _of_form(_Summary, summary, evals / SUMMARY, evals)
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
