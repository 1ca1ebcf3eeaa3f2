"""Scores of a checkpoint for its card: headline metrics with 95 % intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.files import read_json
from ..base.reading import expected_form
from ..models.identity import identify
from ..plan.finished import SUMMARY, read_result, read_summary, remedy, result_folder
from ..plan.tasks import FACTS
from ..reporting import stats
from ..reporting.labels import TASK_LABELS
from ..reporting.render import Z95
from ..reporting.scores import is_rate

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

RUN_SHEET = "run_sheet.json"
WORLD = "invented world"


@dataclass(frozen=True)
class Score:
    """One metric of one benchmark, on the scale of the records.

    ``low`` and ``high`` are the ends of the 95 % interval over items, None where its spread is not
    known; ``n`` is the number of items, ``split`` the part of the data set. ``invented``: measured
    on the invented world's data, not on the data set that the benchmark is called after.
    """

    benchmark: str
    task: str
    split: str | None
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int
    invented: bool

    @property
    def label(self) -> str:
        """What the benchmark is called on the card."""
        name = TASK_LABELS.get(self.task, self.task)
        named = name if self.benchmark in (self.task, "wikitext2") else f"{name} ({self.benchmark})"
        return f"{named}, {WORLD}" if self.invented else named

    def as_result(self) -> "EvalResult":
        """Return the score in the form of the hub's ``model-index``."""
        from huggingface_hub import EvalResult

        ends = {"low": self.low, "high": self.high, "level": 0.95}
        return EvalResult(
            task_type="text-generation",
            dataset_type=f"{'evenprune-world/' if self.invented else ''}{self.benchmark}",
            dataset_name=self.label,
            dataset_split=self.split,
            metric_type=self.metric,
            metric_value=self.value,
            metric_name=f"{self.label}: {self.metric}",
            metric_args={"n": self.n, **(ends if self.low is not None else {})},
        )


def read_scores(evals: Path, model: Path) -> list[Score]:
    """Return the scores in a folder of finished evaluations, those of the checkpoint ``model``.

    Of each benchmark the headline and what is tested pairwise. Every file is compared with the
    SHA-256 recorded of it. Raises UserError for evaluations of another checkpoint.
    """
    if not (evals / SUMMARY).is_file():
        raise UserError(
            f"expected {SUMMARY} in {evals}, found none; give the folder of a checkpoint's "
            "evaluations, such as results/evals/MODEL/METHOD/REGIME/CALIBRATION/s0"
        )
    summary = read_summary(evals)
    found = identify(model)
    if summary.get("model_sha256") != found.model_sha256:
        raise UserError(
            f"the evaluations in {evals} are of the model {summary.get('model_sha256')}, but "
            f"{model} is {found.model_sha256}; give the evaluations of this checkpoint"
        )
    invented = _is_world(evals)
    scores: list[Score] = []
    with expected_form("the results of evaluations", evals / SUMMARY, remedy(evals)):
        for slug, entry in sorted(summary["benchmarks"].items()):
            facts = FACTS[entry["task"]]
            result = read_result(result_folder(evals, slug))
            split = result["spec"].get("split") or result["spec"]["protocol"].get("split")
            for metric in dict.fromkeys((entry["headline"], facts.headline, *facts.means)):
                one = result["metrics"].get(metric)
                if one is not None and one["value"] is not None:
                    ends = _interval(entry["task"], metric, one)
                    scores.append(
                        Score(slug, entry["task"], split, metric, float(one["value"]), *ends,
                              int(one["n"]), invented)
                    )  # fmt: skip
    return scores


def _interval(task: str, metric: str, found: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return both ends of the 95 % interval: Wilson's of judged rates, else the normal one."""
    value, n, error = found["value"], found["n"], found["stderr"]
    if is_rate(task, metric):
        ends = stats.wilson(round(value * n), n)
        return round(ends.low, 10), round(ends.high, 10)
    if error is None:
        return None, None
    return round(value - Z95 * error, 10), round(value + Z95 * error, 10)


def _is_world(evals: Path) -> bool:
    """Say whether evaluations belong to a run on the invented world, by its run_sheet.json."""
    for folder in evals.resolve().parents:
        if (folder / RUN_SHEET).is_file():
            config = read_json(folder / RUN_SHEET).get("config")
            return isinstance(config, dict) and config.get("source") == "world"
    return False


def as_table(scores: list[Score]) -> str:
    """Return the scores as a table in Markdown."""
    lines = [
        "| benchmark | metric | value | 95 % interval | n |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for one in scores:
        ends = "" if one.low is None else f"{one.low:.4f} to {one.high:.4f}"
        lines.append(f"| {one.label} | {one.metric} | {one.value:.4f} | {ends} | {one.n} |")
    return "\n".join(lines)
