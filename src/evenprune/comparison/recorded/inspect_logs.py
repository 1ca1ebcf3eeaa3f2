"""Logs of Inspect, read by its own package, which is optional: ``.eval``, or ``.json`` of the same.

The prompt of a sample is every message before the model's first one.
"""

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...config.tasks import Direction
from ...io.checksums import sha256_cached
from ...io.errors import UserError
from ...io.reading import expected_form
from .items import Recording, Sample, content, cut, rows_of
from .metric_table import MetricTable

MEANS = ("accuracy", "mean")  # metrics of Inspect that are the mean of a scorer's values
AGAIN = "evaluate again"


def read_inspect(path: Path, table: MetricTable) -> list[Recording]:
    """Return the samples of a log.

    Raises UserError where the package is not installed, for a log that it does not read, and for
    one of a run that did not come to its end.
    """
    try:
        from inspect_ai.log import read_eval_log
        from inspect_ai.scorer import value_to_float
    except ImportError:
        raise UserError(
            f"{path} is a log of Inspect, which the package inspect-ai reads; install it: "
            "pip install 'evenprune[inspect]'"
        ) from None
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # of zip, JSON and pydantic, and of its own
        raise UserError(
            f"expected a log of Inspect in {path}, but it does not read it ({type(error).__name__})"
            "; copy or make it again"
        ) from None
    if log.status != "success":
        raise UserError(
            f"expected a finished run in {path}, got status {log.status}; use `inspect eval-retry`"
        )
    with expected_form("a log of Inspect", path, AGAIN):
        return [_recording(log, path, table, value_to_float())]


def _recording(log: Any, path: Path, table: MetricTable, to_float: Any) -> Recording:
    samples, stated = [], dict[str, Direction]()
    for sample in log.samples or ():
        values = {}
        for scorer, score in (sample.scores or {}).items():
            several = score.value if isinstance(score.value, dict) else {"": score.value}
            for key, value in several.items():
                if isinstance(value, str | int | float):
                    name = f"{scorer}.{key}" if key else scorer
                    number = to_float(value)
                    values[name] = number if math.isfinite(number) else None
                    if value in ("C", "I", "P"):
                        stated[name] = "up"
        if values:
            samples.append(_sample(sample, values, table))
    recorded = {
        f"{one.scorer}.{one.name}" if one.name != one.scorer else one.scorer: float(metric.value)
        for one in (log.results.scores if log.results else ())
        for name, metric in one.metrics.items()
        if name in MEANS
    }
    spec = log.eval
    commit = spec.revision.commit if spec.revision else None
    return Recording(
        path,
        rows_of(samples),
        recorded,
        {"version": spec.task_version, "task": spec.task, "options of the task": spec.task_args},
        {"inspect_ai": spec.packages.get("inspect_ai"), "revision": commit},
        {"log_sha256": sha256_cached(path), "model": spec.model, "packages": spec.packages},
        task=spec.task.rpartition("/")[2],
        means=frozenset(recorded),
        good=stated,
        counted=log.results.total_samples if log.results else None,
    )


def _sample(sample: Any, values: dict[str, float | None], table: MetricTable) -> Sample:
    def said(messages: Iterable[Any]) -> list[dict[str, Any]]:
        return [one.model_dump(mode="json", include={"role", "content"}) for one in messages]

    given = sample.input if isinstance(sample.input, str) else said(sample.input)
    asked = said(itertools.takewhile(lambda one: one.role != "assistant", sample.messages))
    first = next(iter((sample.scores or {}).values()), None)
    return Sample(
        document=content(given, sample.choices, sample.target),
        prompt=content(asked),
        values=values,
        category=table.category(sample.metadata),
        options=[cut(one) for one in sample.choices or ()],
        text=cut(sample.input if isinstance(sample.input, str) else sample.input[-1].text),
        answer=cut((first.answer if first else None) or sample.output.completion),
    )
