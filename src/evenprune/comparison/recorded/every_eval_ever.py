"""Records in the form of every_eval_ever: an aggregate ``.json`` with ``_samples.jsonl`` beside it.

The schema is that of version 0.3; what it says in its other fields is not read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...config.tasks import Direction
from ...io.checksums import sha256_cached
from ...io.errors import UserError
from ...io.reading import expected_form, iter_jsonl, read_json
from ...stats.directions import BEST_AT
from .items import Recording, Sample, content, cut, rows_of
from .metric_table import MetricTable

SIGNS = {"schema_version", "evaluation_id", "evaluation_results", "model_info"}  # of a record
FIELDS = ("evaluation_id", "evaluation_name", "input", "evaluation")
VERSIONS = ("0.2", "0.3")
AGAIN = "fetch or convert it again"


def read_record(path: Path, table: MetricTable) -> list[Recording]:
    """Return the evaluations of a record, each with its samples.

    Raises UserError for one without samples, or whose samples are others than it says.
    """
    said = read_json(path)
    with expected_form("a record of every_eval_ever", path, AGAIN):
        version = str(said["schema_version"])
        if not version.startswith(VERSIONS):
            raise UserError(
                f"expected a record of every_eval_ever {' or '.join(VERSIONS)} in {path}, got "
                f"version {version}; convert it to one of these"
            )
        place = path.with_name(f"{path.stem}_samples.jsonl")
        detail = said.get("detailed_evaluation_results") or {}
        if not place.is_file():
            raise UserError(
                f"expected the samples of {path} in {place.name} beside it, found none: without "
                "them nothing can be paired; fetch them too"
            )
        sha256 = sha256_cached(place)
        if detail.get("hash_algorithm") == "sha256" and detail.get("checksum") != sha256:
            raise UserError(f"{place} is not the file that {path} has the checksum of; {AGAIN}")
        return list(_recordings(path, place, said, table, sha256))


def _result_key(one: Mapping[str, Any]) -> str:
    return str(one.get("evaluation_result_id") or one["evaluation_name"])


def _recordings(
    path: Path, place: Path, said: Mapping[str, Any], table: MetricTable, sha256: str
) -> Iterator[Recording]:
    about = {_result_key(one): one for one in said["evaluation_results"]}
    names = {}
    for key, one in about.items():
        config = one["metric_config"]
        name = config.get("metric_name") or config.get("metric_id")
        names[key] = str(name or one.get("evaluation_result_id") or "score")
    found: dict[str, dict[Any, Sample]] = {}  # task -> its samples
    turns = Counter[Any]()  # as an item may have been asked several times
    for number, row in iter_jsonl(place, FIELDS):
        key = _result_key(row)
        if row["evaluation_id"] != said["evaluation_id"] or key not in about:
            raise UserError(
                f"expected samples of {path} in {place}, but line {number} is of another "
                f"evaluation; {AGAIN}"
            )
        task, one = str(about[key]["evaluation_name"]), _sample(row, table)
        turn = turns[task, names[key], one.document, one.prompt]
        turns[task, names[key], one.document, one.prompt] += 1
        one = found.setdefault(task, {}).setdefault((one.document, one.prompt, turn), one)
        one.values[names[key]] = float(row["evaluation"]["score"])
    rows = turns.total()
    told = (said.get("detailed_evaluation_results") or {}).get("total_rows", rows)
    if told != rows:
        raise UserError(f"expected {told} samples in {place}, found {rows}; {AGAIN}")
    library = said.get("eval_library", {})
    for task, samples in found.items():
        own = {names[k]: one for k, one in about.items() if one["evaluation_name"] == task}
        yield Recording(
            place,
            rows_of(samples.values()),
            {name: float(one["score_details"]["score"]) for name, one in own.items()},
            {"evaluator": library.get("name")},
            {"version of the evaluator": library.get("version")},
            {"samples_sha256": sha256, "model": said["model_info"].get("id")},
            task=task,
            good={name: _direction(one["metric_config"]) for name, one in own.items()},
            counted=len(samples),
        )


def _sample(row: Mapping[str, Any], table: MetricTable) -> Sample:
    asked = row["input"]
    return Sample(
        content(asked["raw"], asked["reference"], asked.get("choices")),
        content(asked.get("formatted")),
        {},
        table.category(row.get("metadata")),
        [cut(one) for one in asked.get("choices") or ()],
        text=cut(asked["raw"]),
        answer=cut((row.get("output") or {}).get("raw", [""])[0]),
    )


def _direction(config: Mapping[str, Any]) -> Direction:
    """Return which values are good; ``best_at`` is what our own records say of some."""
    best = (config.get("additional_details") or {}).get("best_at")
    named: dict[Any, Direction] = {f"{value:g}": name for name, value in BEST_AT.items()}
    return named.get(best) or ("down" if config["lower_is_better"] else "up")
