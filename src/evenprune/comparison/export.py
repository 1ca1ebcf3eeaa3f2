"""Evaluations for others: JSON of every_eval_ever, and ``model-index`` in a model card.

The JSON is of schema 0.3.0 under ``data/BENCHMARK/DEVELOPER/MODEL/``, named by a digest of the
result, so that the same result is the same file. Samples go with it where the benchmark's texts are
at hand, for metrics that are means over items.
"""

import hashlib
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..analysis.item_texts import ItemText
from ..analysis.labels import TASK_LABELS
from ..config.finished import METRICS
from ..io.errors import UserError
from ..io.files import canonical_json, sha256_file, write_json, write_jsonl, write_text
from ..models.cards import CARD, split_card, with_front_matter
from ..stats.directions import BEST_AT, direction
from ..stats.measures import ITEM_SCORES, MEASURES
from ..stats.verdicts import metrics_of
from .differences import Difference, Records
from .sides import Model, Side

SCHEMA = "0.3.0"
ID = re.compile(r"[\w.-]+/[\w.-]+")


def _name(text: str) -> str:
    return re.sub(r"[^\w.-]", "_", text).strip(". ") or "model"


def write_record(
    root: Path, slug: str, model: str, one: Records, texts: Mapping[str, ItemText]
) -> Path:
    """Write one benchmark of one model below ``root``, and return the JSON file.

    ``model`` is an id on the hub, else the name of a folder; ``texts`` those of the items by id.
    """
    hub = model.partition("@")[0]
    place = Path(model).resolve().name
    known = hub if ID.fullmatch(hub) and not Path(model).exists() else f"local/{_name(place)}"
    result, task = one.result, str(one.result["task"])
    seed = canonical_json([known, result.get("records"), result["metrics"], result.get("spec")])
    name = str(uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4))
    folder = root / "data" / _name(slug) / known
    time = str(int((one.place / METRICS).stat().st_mtime))
    about = {
        "schema_version": SCHEMA,
        "evaluation_id": f"{slug}/{known}/{time}",
        "retrieved_timestamp": time,
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "not stated",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "evenprune", "version": __version__},
        "model_info": {
            "name": known,
            "id": known,
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "open_weights" if known == hub else "unknown",
                "files_sha256": str(result.get("files_sha256")),
            },
        },
        "evaluation_results": [
            _result(slug, task, metric, found, result)
            for metric, found in result["metrics"].items()
            if found["value"] is not None and direction(task, metric)
        ],
    }
    rows = list(_samples(about, slug, task, one, texts))
    if rows:
        file = folder / f"{name}_samples.jsonl"
        write_jsonl(file, rows)
        about["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": str(file.relative_to(root)),
            "hash_algorithm": "sha256",
            "checksum": sha256_file(file),
            "total_rows": len(rows),
        }
    write_json(folder / f"{name}.json", about)
    return folder / f"{name}.json"


def _result(
    slug: str, task: str, metric: str, found: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    way = direction(task, metric)
    config: dict[str, Any] = {"metric_name": metric, "lower_is_better": way == "down"}
    if way in BEST_AT:
        config["additional_details"] = {"best_at": f"{BEST_AT[way]:g}"}
    if (task, metric) in MEASURES:
        infinite = {math.inf: "Infinity", -math.inf: "-Infinity"}
        low, high = (infinite.get(end, end) for end in MEASURES[task, metric].bounds)
        config |= {"score_type": "continuous", "min_score": low, "max_score": high}
    spread: dict[str, Any] = {"num_samples": found["n"]}
    if found.get("stderr") is not None:
        spread["standard_error"] = {"value": found["stderr"]}
    files = {str(key): str(value) for key, value in result["data"].items()}
    return {
        "evaluation_result_id": metric,
        "evaluation_name": slug,
        "source_data": {"dataset_name": task, "source_type": "other", "additional_details": files},
        "metric_config": config,
        "score_details": {"score": found["value"], "uncertainty": spread},
    }


def _samples(
    about: Mapping[str, Any], slug: str, task: str, one: Records, texts: Mapping[str, ItemText]
) -> Iterable[dict[str, Any]]:
    metrics = [m for m in metrics_of(task) if (task, m) in ITEM_SCORES]
    metrics = [m for m in metrics if one.recorded.get(m) is not None]
    for row in one.rows if all(str(name) in texts for name in one.ids) else ():
        words, options = texts[str(row["item_id"])]
        gold, pred = row.get("gold"), row.get("pred")
        for metric in metrics:
            score = ITEM_SCORES[task, metric](row)
            if score is None or not math.isfinite(score):
                continue
            answer = "" if pred is None else options[pred]
            said = {"turn_idx": 0, "source": "output.raw", "extracted_value": answer}
            said |= {"extraction_method": "log-likelihood", "is_terminal": True}
            yield {
                "schema_version": SCHEMA,
                "evaluation_id": about["evaluation_id"],
                "model_id": about["model_info"]["id"],
                "evaluation_name": slug,
                "evaluation_result_id": metric,
                "sample_id": str(row["item_id"]),
                "interaction_type": "single_turn",
                "input": {
                    "raw": "\n".join(words),
                    "reference": [] if gold is None else [options[gold]],
                    "choices": list(options),
                },
                "output": {"raw": [answer]},
                "answer_attribution": [said],
                "evaluation": {"score": score, "is_correct": bool(row.get("correct"))},
                "metadata": {"category": str(row.get("category") or "")},
            }


# Model cards


def card_of(side: Side) -> Path:
    """Return the card in a model's own folder; UserError where there is none."""
    if isinstance(side, Model) and not side.revision and (side.folder / CARD).is_file():
        return side.folder / CARD
    raise UserError(
        f"expected a model folder of your own with a card, {CARD}, for --card, got {side.name}; "
        "leave --card out"
    )


def write_card(card: Path, rows: Sequence[Difference]) -> None:
    """Put what was measured of a model into its card, as ``model-index``.

    A result of the same benchmark and metric is replaced; all else in the card stays.
    """
    from huggingface_hub import EvalResult

    data, body = split_card(card.read_text(encoding="utf-8"))
    ours = [
        EvalResult(
            task_type="text-generation",
            dataset_type=row.task,
            dataset_name=TASK_LABELS.get(row.task, row.benchmark),
            dataset_config=row.benchmark,
            metric_type=row.metric,
            metric_name=row.metric,
            metric_value=row.pruned,
            metric_args={"dense": row.dense, "n": row.n, "verdict": row.verdict},
        )
        for row in rows
        if row.pruned is not None
    ]
    mine = {(one.dataset_config, one.metric_type) for one in ours}
    results = data.eval_results or ()
    others = [one for one in results if (one.dataset_config, one.metric_type) not in mine]
    data.eval_results = [*others, *ours]
    data.model_name = data.model_name or card.resolve().parent.name
    write_text(card, with_front_matter(data, body))
