"""Records in the form of every_eval_ever: an aggregate ``.json`` with ``_samples.jsonl`` beside it.

The schema is that of version 0.3; what it says in its other fields is not read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...config.tasks import Direction
from ...io.checksums import sha256_cached
from ...io.errors import UserError
from ...io.reading import expected_form, iter_jsonl
from ...stats.directions import BEST_AT
from .items import Recording, Sample, content, cut
from .metric_table import MetricTable

SIGNS = ("schema_version", "evaluation_id", "evaluation_results", "model_info")
FIELDS = ("evaluation_id", "evaluation_name", "input", "evaluation")
VERSIONS = ("0.2", "0.3")
AGAIN = "fetch or convert it again"


def is_record(content: Mapping[str, Any]) -> bool:
    """Return whether the content of a ``.json`` file is a record of every_eval_ever."""
    return all(name in content for name in SIGNS)


def read_record(path: Path, said: Mapping[str, Any], table: MetricTable) -> list[Recording]:
    """Return the evaluations of a record, each with its samples.

    Raises UserError for one without samples, or whose samples are others than it says.
    """
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
        return _recordings(path, place, said, table, sha256)


def _result_key(one: Mapping[str, Any]) -> str:
    return str(one.get("evaluation_result_id") or one["evaluation_name"])


def _recordings(
    path: Path, place: Path, said: Mapping[str, Any], table: MetricTable, sha256: str
) -> list[Recording]:
    about = {_result_key(one): one for one in said["evaluation_results"]}
    names = {key: _metric(one) for key, one in about.items()}
    found: dict[str, dict[Any, list[tuple[dict[str, Any], str]]]] = {}
    rows = 0
    for number, row in iter_jsonl(place, FIELDS):
        rows += 1
        key = _result_key(row)
        if row["evaluation_id"] != said["evaluation_id"] or key not in about:
            raise UserError(
                f"expected samples of {path} in {place}, but line {number} is of another "
                f"evaluation; {AGAIN}"
            )
        task = str(about[key]["evaluation_name"])
        several = found.setdefault(task, {}).setdefault(_content(row), [])
        several.append((row, names[key]))
    told = (said.get("detailed_evaluation_results") or {}).get("total_rows", rows)
    if told != rows:
        raise UserError(f"expected {told} samples in {place}, found {rows}; {AGAIN}")
    return [
        _recording(task, place, said, table, items, sha256, about, names)
        for task, items in found.items()
    ]


def _content(row: Mapping[str, Any]) -> tuple[str, str]:
    given = row["input"]
    document = content(given["raw"], given["reference"], given.get("choices"))
    return document, content(given.get("formatted"))


def _metric(result: Mapping[str, Any]) -> str:
    config = result["metric_config"]
    known = config.get("metric_name") or config.get("metric_id")
    return str(known or result.get("evaluation_result_id") or "score")


def _direction(config: Mapping[str, Any]) -> Direction:
    """Return which values are good; ``best_at`` is what our own records say of some."""
    best = (config.get("additional_details") or {}).get("best_at")
    named: dict[Any, Direction] = {f"{value:g}": name for name, value in BEST_AT.items()}
    return named.get(best) or ("down" if config["lower_is_better"] else "up")


def _recording(
    task: str, place: Path, said: Mapping[str, Any], table: MetricTable,
    items: Mapping[Any, list[tuple[dict[str, Any], str]]], sha256: str,
    about: Mapping[str, Any], names: Mapping[str, str],
) -> Recording:  # fmt: skip
    samples = []
    for (document, prompt), several in items.items():
        scores: dict[str, list[dict[str, Any]]] = {}
        for row, name in several:
            scores.setdefault(name, []).append(row)
        for turn in range(max(map(len, scores.values()))):
            rows = {name: each[turn] for name, each in scores.items() if turn < len(each)}
            first = next(iter(rows.values()))
            samples.append(
                Sample(
                    document,
                    prompt,
                    {name: float(row["evaluation"]["score"]) for name, row in rows.items()},
                    table.category(first.get("metadata")),
                    [cut(one) for one in first["input"].get("choices") or ()],
                    text=cut(first["input"]["raw"]),
                    answer=cut((first.get("output") or {}).get("raw", [""])[0]),
                )
            )
    own = {key: one for key, one in about.items() if one["evaluation_name"] == task}
    recorded = {names[key]: float(one["score_details"]["score"]) for key, one in own.items()}
    good = {names[key]: _direction(one["metric_config"]) for key, one in own.items()}
    library = said.get("eval_library", {})
    return Recording(
        task, place, samples, recorded, frozenset(), good,
        {"evaluator": library.get("name")},
        {"version of the evaluator": library.get("version")},
        len(samples),
        {"samples_sha256": sha256, "model": said["model_info"].get("id")},
    )  # fmt: skip
