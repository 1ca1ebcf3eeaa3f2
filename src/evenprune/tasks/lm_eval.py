"""Any task of lm-eval by its name: prompts, requests and metrics are the task's own.

A record's ``values`` are the task's metrics for one document, null for those that are no number;
``document_sha256`` is that of the document as the task has it.
``score`` is the first metric that the task lists; of a group with several tasks, as of all its
metrics, the mean over all documents.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.lm_eval_tasks import load_tasks
from ..io.checksums import source_files
from ..io.errors import UserError, nearest
from ..io.files import digest
from ..stats.metrics import Metric, mean, metric
from .harness import Harness
from .protocol import Outcome, Protocol
from .sampling import stratified_sample
from .task import NOWHERE, Task

if TYPE_CHECKING:
    from ..language_models.language_model import LanguageModel

GENERATES = "generate_until"
TOLERANCE = 1e-9  # within which an aggregate is the mean of its items


def metric_name(name: str, chosen: str) -> str:
    """Return a metric's name: with the filter of answers that lm-eval applied, if it is one."""
    return name if chosen == "none" else f"{name}.{chosen}"


def item_records(name: str, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one record a document of a task from lm-eval's samples, one a filter."""
    found: dict[int, dict[str, Any]] = {}
    for sample in sorted(samples, key=lambda one: one["doc_id"]):
        number, about = sample["doc_id"], {"document_sha256": str(sample["doc_hash"])}
        about |= {"item_id": f"{name}-{number}", "category": name}
        values = found.setdefault(number, {**about, "values": {}})["values"]
        for one in sample["metrics"]:
            value = sample[one]
            known = isinstance(value, Real) and math.isfinite(value)
            values[metric_name(one, sample["filter"])] = float(value) if known else None
    return list(found.values())


def aggregates(
    records: Sequence[Mapping[str, Any]], results: Mapping[str, Any]
) -> dict[str, Metric]:
    """Return a task's metrics: lm-eval's own numbers, with the standard error where one is a mean.

    ``results`` are ``{"metric,filter": number}``.
    """
    means = averages(records)
    found: dict[str, Metric] = {}
    for key, value in results.items():
        name, _, chosen = key.partition(",")
        # "alias" and the count of items have no filter
        if not chosen or name.endswith("_stderr") or not isinstance(value, Real):
            continue
        name, value = metric_name(name, chosen), float(value)
        plain = means.get(name, metric(value, len(records)))
        is_mean = math.isclose(plain["value"] or 0.0, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        found[name] = plain if is_mean else metric(value, len(records))
    return found


def averages(records: Sequence[Mapping[str, Any]]) -> dict[str, Metric]:
    """Return the means over all documents of the metrics that each of them has as a number."""
    names = dict.fromkeys(name for record in records for name in record["values"])
    values = {name: [record["values"].get(name) for record in records] for name in names}
    return {name: mean(found) for name, found in values.items() if None not in found}


class LmEval(Task):
    """A task or group of lm-eval, with its own shots, prompts and metrics."""

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files of the folder of YAML tasks; none for a task that lm-eval ships."""
        if data == NOWHERE:
            return []
        if not spec.trust_tasks:
            raise UserError(
                f"the files of tasks in {data} can run code (templates, functions); read them, "
                "then allow it with trust_tasks: true (--trust-tasks)"
            )
        if not data.is_dir():
            raise UserError(
                f"expected a folder of YAML tasks for lm-eval at {data}, got a file; give its "
                "folder"
            )
        return [data / name for name in source_files("data", data)]

    @staticmethod
    def _check(lm: "LanguageModel", spec: Protocol, tasks: Sequence[Any]) -> None:
        """Raise UserError for a headline that no task has, and where text cannot be generated."""
        metrics = [one for task in tasks for one in task.config.metric_list or ()]
        listed = {str(one["metric"]) for one in metrics if "metric" in one}
        asked = (spec.headline or "score").partition(".")[0]
        if listed and asked not in ("score", *listed):
            raise UserError(
                f"lm-eval's task {spec.name} has no metric {spec.headline!r} for its headline"
                f"{nearest(asked, listed)} (it has score, {', '.join(sorted(listed))})"
            )
        generates = any(task.OUTPUT_TYPE == GENERATES for task in tasks)
        if generates and lm.tokenizer.eos_token_id is None:
            raise UserError(
                f"lm-eval's task {spec.name} generates text up to the end token, but the tokenizer "
                "has none; name another task"
            )

    def evaluate(self, lm: "LanguageModel", data: Path, spec: Protocol) -> Outcome:
        """Run the task through lm-eval.

        Raises UserError for one that runs code that its own model has written, or shows pictures.
        """
        import torch  # `compare --help` imports this module

        tasks = load_tasks(str(spec.name), None if data == NOWHERE else data)["tasks"]
        self._check(lm, spec, list(tasks.values()))
        places = [(name, k) for name, task in tasks.items() for k in range(len(task.eval_docs))]
        chosen = stratified_sample([name for name, _ in places], spec.limit, spec.seed)
        wanted: dict[str, list[int]] = {}
        for name, k in (places[number] for number in chosen):
            wanted.setdefault(name, []).append(k)
        given = {"tasks": {name: tasks[name] for name in wanted}}
        for task in given["tasks"].values():
            task.set_fewshot_seed(spec.seed)
        torch.manual_seed(spec.seed)  # of tasks that sample their answers
        told = ", ".join(wanted)
        try:
            found = Harness(lm, spec).evaluate(given, told, samples=wanted)
        except ValueError as error:
            if "unsafe" in str(error) or "multimodal" in str(error):
                raise UserError(
                    f"lm-eval does not run {told} here: it executes generated code or shows "
                    "pictures; name another task"
                ) from None
            raise
        by_task = {name: item_records(name, found["samples"][name]) for name in wanted}
        metrics = {name: aggregates(by_task[name], found["results"][name]) for name in wanted}
        records = [record for found in by_task.values() for record in found]
        several = len(by_task) > 1
        overall = averages(records) if several else next(iter(metrics.values()))
        if not overall:
            raise UserError(
                f"lm-eval's task {spec.name} gave no metric that is a number for all its items; "
                "name one of its tasks"
            )
        facts = {
            "lm_eval_tasks": sorted(by_task),
            "shots": {name: tasks[name].config.num_fewshot or 0 for name in sorted(by_task)},
            "items_in_data": len(places),
            "documents_sha256": digest([record["document_sha256"] for record in records]),
        }
        score = {"score": overall[next(iter(overall))]}
        return Outcome(records, {**score, **overall}, metrics if several else {}, facts)


TASK = LmEval()
