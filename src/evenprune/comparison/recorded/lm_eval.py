"""What lm-eval's ``--log_samples`` wrote: ``samples_TASK_DATE.jsonl`` beside ``results_DATE.json``.

A sample has the hash of its document; its prompts are the ``arguments`` of its requests.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

from ...config.tasks import Direction
from ...io.checksums import sha256_cached
from ...io.errors import UserError
from ...io.reading import expected_form, iter_jsonl, read_json
from ...tasks.lm_eval import metric_name
from .items import Recording, Sample, content, cut, rows_of
from .metric_table import MetricTable

SIGNS = ("doc_id", "doc", "filtered_resps", "resps")  # of a line of samples
FIELDS = (*SIGNS, "arguments", "target", "filter", "metrics", "doc_hash", "prompt_hash")
NAMED = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
DIRECTIONS: Mapping[Any, Direction] = {True: "up", False: "down"}
AGAIN = "evaluate again with --log_samples"


def is_samples(path: Path) -> bool:
    """Return whether a ``.jsonl`` file holds samples of lm-eval, by its first line."""
    first = next(iter_jsonl(path), None)
    return first is not None and all(name in first[1] for name in SIGNS)


def read_lm_eval(path: Path, table: MetricTable) -> list[Recording]:
    """Return the samples of a task, with what the results beside them say of it.

    Raises UserError for a file of another form, and where a document stands twice in it.
    """
    named = NAMED.fullmatch(path.name)
    task = named[1] if named else path.stem
    evidence = {"samples_sha256": sha256_cached(path)}
    found, seen = dict[Any, Sample](), set[Any]()
    for number, sample in iter_jsonl(path, FIELDS):
        with expected_form("a sample of lm-eval", f"line {number} of {path}", AGAIN):
            name, one = sample["doc_id"], _sample(sample, table)
            if (name, sample["filter"]) in seen:
                raise UserError(
                    f"expected each document once in {path}, found doc_id {name} again on line "
                    f"{number}, so that it is of several runs; {AGAIN}"
                )
            seen.add((name, sample["filter"]))
            first = found.setdefault(name, one)
            if (one.document, one.prompt) != (first.document, first.prompt):
                raise UserError(f"expected one prompt a doc_id in {path}, found two; {AGAIN}")
            first.values.update(one.values)
    alone = Recording(path, rows_of(found.values()), evidence=evidence, task=task)
    results = sorted(path.parent.glob(f"*_{named[2]}.json")) if named else []
    if not results:
        return [alone]
    with expected_form(f"lm-eval's results of {task}", results[0], AGAIN):
        return [_with_results(alone, read_json(results[0]))]


def _with_results(one: Recording, said: Mapping[str, Any]) -> Recording:
    def own(key: str) -> Any:
        return said.get(key, {}).get(one.task)

    recorded = {}
    for key, value in said["results"][one.task].items():
        name, _, chosen = key.partition(",")
        if chosen and not name.endswith("_stderr") and isinstance(value, Real):
            recorded[metric_name(name, chosen)] = float(value)
    config, ways = said["configs"][one.task], own("higher_is_better") or {}
    listed = {str(each["metric"]): each for each in config.get("metric_list") or ()}
    bare = {name: name.partition(".")[0] for name in recorded}
    means = (n for n, b in bare.items() if listed.get(b, {}).get("aggregation") == "mean")
    version, dtype = said.get("lm_eval_version"), said.get("config", {}).get("model_dtype")
    packages = {"lm-eval": version, "transformers": said.get("transformers_version")}
    return replace(
        one,
        recorded=recorded,
        means=frozenset(means),
        good={name: DIRECTIONS.get(ways.get(b), "") for name, b in bare.items()},
        fixed={"version": own("versions"), "number of examples": own("n-shot")},
        told={**packages, "dtype": dtype},
        counted=(own("n-samples") or {}).get("effective"),
        evidence={**one.evidence, "model": said.get("model_name"), "lm_eval": version},
    )


def _sample(sample: Mapping[str, Any], table: MetricTable) -> Sample:
    asked = [tuple(one.values()) for one in sample["arguments"].values()]
    options = _options(asked)
    scores = [_score(one) for one in sample["filtered_resps"]]
    values = {}
    for name in sample["metrics"]:
        values[metric_name(name, sample["filter"])] = _number(sample[name])
    known = len(scores) >= len(options) > 1 and None not in scores
    return Sample(
        document=content(sample["doc_hash"], str(sample["target"])),
        prompt=content(sample["prompt_hash"], sample["arguments"]),
        values=values,
        category=table.category(sample["doc"]),
        options=[cut(one) for one in options],
        option_logprobs=[one or 0.0 for one in scores[: len(options)]] if known else None,
        gold=_gold(str(sample["target"]), options),
        text=cut(asked[0][0] if asked else ""),
        answer="" if known else cut(sample["filtered_resps"]),
    )


def _number(value: Any) -> float | None:
    """Return a score, or the log-likelihood a word that perplexities are of; None for others."""
    match value:
        case float() | int():
            return float(value)
        case [float() | int() as loss, float() | int() as words] if words:
            return float(loss) / float(words)
    return None


def _options(pairs: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the texts that a choice is made of: endings, or beginnings where endings are one."""
    if len(pairs) < 2 or not all(len(p) == 2 and isinstance(p[1], str) for p in pairs):
        return []
    ends = [str(end) for _, end in pairs]
    half = len(ends) // 2
    if half > 1 and ends[:half] == ends[half:]:  # again without the context, for acc_mutual_info
        ends = ends[:half]
    return [str(start) for start, _ in pairs] if len(set(ends)) == 1 else ends


def _score(response: Any) -> float | None:
    """Return the log-likelihood of an option; lm-eval writes it as text, with whether greedy."""
    try:
        first, _ = response
        return float(first)
    except (TypeError, ValueError):
        return None


def _gold(target: str, options: Sequence[str]) -> int | None:
    if target.isdecimal() and int(target) < len(options):
        return int(target)
    near = [k for k, one in enumerate(options) if one.strip() == target.strip()]
    return near[0] if len(near) == 1 else None
