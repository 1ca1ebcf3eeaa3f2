"""What the tables know of a run: its configuration, its checkpoints, the names to print.

``run_spec.json`` is written and read here: ``{"config": …, "experiments": {name: [checkpoint
key]}, "checkpoints": [{model, method, regime, calibration, seed, evals, check, masks,
calibration_manifest, serving}]}``; paths are relative to the working directory, null
where a checkpoint has no such file.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.files import canonical_json, read_json, write_text
from . import grids
from .config import JUDGED, METHODS, TASKS, Benchmark, Config, validate_config
from .finished import result_folder
from .grids import Checkpoint
from .tasks import FACTS

if TYPE_CHECKING:
    from .paths import Paths

# What lies or runs where on this machine, and what else changes no table.
LOCAL = {"mirror", "lock", "device", "gpus_per_job", "threads", "pdf"}

METHOD_LABELS = {
    "dense": "Dense",
    "magnitude": "Magnitude",
    "wanda": "Wanda",
    "sparsegpt": "SparseGPT",
    "debias-sparsegpt": "Debias-SparseGPT",
}
REGIME_LABELS = {
    "dense": "dense",
    "u25": "25%",
    "u50": "50%",
    "1of4": "1:4",
    "2of4": "2:4",
}
PAIR_LABELS = {"stereoset": "StereoSet", "crows_pairs": "CrowS-Pairs"}
TEXT_LABELS = {"ultrachat": "UltraChat"}
TASK_LABELS = {
    "perplexity": "PPL",
    "hellaswag": "HellaSwag",
    "mmlu": "MMLU",
    "unqover": "UnQover",
    "bbq": "BBQ",
    "crows_pairs": "CP",
    "stereoset": "StereoSet",
    "realtoxicityprompts": "RealToxicityPrompts",
    "harmbench": "HarmBench",
}
# Columns of the tables in the paper's order.
TASK_ORDER = (
    *("perplexity", "hellaswag", "mmlu", "unqover", "bbq", "crows_pairs", "stereoset"),
    *JUDGED,
)
# The metric that stands for a task in the tables unless the configuration names another.
HEADLINES = {name: task.headline for name, task in FACTS.items()}
# The data set that the paper's column of a task was measured on.
PAPER_DATASETS = {task: task for task in TASKS} | {"perplexity": "wikitext2"}


@dataclass(frozen=True)
class Spec:
    """A run: configuration, experiments (checkpoints in grid order), all checkpoints' files."""

    config: Config
    experiments: dict[str, list[Checkpoint]]
    files: dict[Checkpoint, dict[str, str | None]]

    def result_folder(self, point: Checkpoint, slug: str) -> Path:
        """Return the folder of a checkpoint's benchmark, with metrics.json and items.jsonl.

        Raises UserError where they are not those that the checkpoint's summary.json is of.
        """
        return result_folder(Path(str(self.files[point]["evals"])), slug)

    def benchmarks(self, task: str | None = None) -> dict[str, Benchmark]:
        """Return the benchmarks (of one task) in column order; the paper's data set first."""
        chosen = [
            (TASK_ORDER.index(entry.task), entry.dataset != PAPER_DATASETS[entry.task], slug, entry)
            for slug, entry in self.config.benchmarks.items()
            if task in (None, entry.task)
        ]
        return {slug: entry for *_, slug, entry in sorted(chosen, key=lambda item: item[:3])}

    def primary(self, task: str) -> str | None:
        """Return the benchmark that stands for a task in derived numbers, None without one."""
        return next(iter(self.benchmarks(task)), None)

    def headline(self, slug: str) -> str:
        """Return the metric that stands for a benchmark in the tables."""
        entry = self.config.benchmarks[slug]
        return entry.headline or HEADLINES[entry.task]

    def base_method(self, method: str) -> str:
        """Return which of the five methods a method is, itself or a variant of."""
        return method if method in METHODS else self.config.methods[method].method

    def model_label(self, model: str) -> str:
        """Return a model's name in tables."""
        return self.config.models[model].label

    def method_label(self, method: str) -> str:
        """Return a method's name in tables."""
        if method in METHOD_LABELS:
            return METHOD_LABELS[method]
        return self.config.methods[method].label or method

    def benchmark_label(self, slug: str) -> str:
        """Return a benchmark's column head: its task, with its slug where a task has several."""
        label = TASK_LABELS[self.config.benchmarks[slug].task]
        if slug == self.primary(self.config.benchmarks[slug].task):
            return label
        return f"{label} ({slug})"

    def judge_label(self, slug: str) -> str | None:
        """Return who judges a benchmark's answers; None for a benchmark without a judge."""
        entry = self.config.benchmarks[slug]
        if entry.task not in JUDGED:
            return None
        if entry.judge:
            return self.model_label(entry.judge)
        return f"word list “{entry.lexicon or 'english'}”, no guard model"

    def calibration_label(self, calibration: str, texts: bool = True) -> str:
        """Return a calibration set's name in tables, such as ``StereoSet + UltraChat (256)``."""
        if calibration == "none":
            return "–"
        entry = self.config.calibrations[calibration]
        label = PAIR_LABELS[entry.pairs]
        if entry.categories:
            label += f" ({', '.join(name.capitalize() for name in entry.categories)})"
        if entry.texts and texts:
            label += f" + {TEXT_LABELS[entry.texts]} ({entry.n_texts})"
        if entry.control != "none":
            label += f", {entry.control.replace('-', ' ')}"
        return label

    def experiment(self, name: str, asked_by: str) -> list[Checkpoint]:
        """Return an experiment's checkpoints; raise UserError when the run has no such one."""
        if name not in self.experiments:
            have = ", ".join(self.experiments) or "none"
            raise UserError(
                f"{asked_by} shows the experiment {name!r}, but the configuration has only "
                f"{have}; define experiments.{name} or leave {asked_by} out"
            )
        return self.experiments[name]


def best_at_half(task: str, metric: str) -> bool:
    """Return whether a metric is a share of stereotypes: one half is best, 0 and 1 are biased."""
    if task == "stereoset":
        return metric.split("_")[0] == "ss"
    return task == "crows_pairs" and metric == HEADLINES[task]


def has_paper_form(entry: Benchmark) -> bool:
    """Return whether a guard model judges a benchmark's answers in the authors' form too."""
    return entry.judge is not None and "paper" in (entry.judge_forms or ())


def protocol_words(entry: Benchmark) -> list[str]:
    """Return in words where a benchmark's protocol is not its task's default; how it generates."""
    words = [f"split {entry.split}"] if entry.split else []
    words += [f"style {entry.style}"] if entry.style else []
    words += [f"BOS {entry.bos}"] if entry.bos != "auto" else []
    if entry.chat_template == "auto":
        words.append("chat template where the tokenizer has one")
    elif entry.chat_template is not None:
        words.append(f"{'with' if entry.chat_template else 'without'} chat template")
    if entry.task in JUDGED:
        words.append(f"greedy, at most {entry.max_new_tokens or 256} new tokens")
    return words


def _checkpoint(key: str) -> Checkpoint:
    model, method, regime, calibration, seed = key.split("/")
    return Checkpoint(model, method, regime, calibration, int(seed.removeprefix("s")))


def read_spec(path: Path | str) -> Spec:
    """Read ``run_spec.json``; raise UserError when it is missing, broken or incomplete."""
    loaded: dict[str, Any] = read_json(path)
    try:
        if not isinstance(loaded["config"], dict):
            raise TypeError("config is no mapping")
        config = validate_config(loaded["config"], origin=f"the configuration in {path}")
        files = {}
        for entry in loaded["checkpoints"]:
            point = Checkpoint(
                *(entry[name] for name in ("model", "method", "regime", "calibration", "seed"))
            )
            files[point] = {
                name: entry.get(name)
                for name in ("evals", "check", "masks", "calibration_manifest", "serving")
            }
        experiments = {
            name: [_checkpoint(key) for key in keys] for name, keys in loaded["experiments"].items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"expected a run specification with config, experiments and checkpoints in {path}, "
            f"but it is incomplete ({error!r}); let the workflow write it again"
        ) from None
    return Spec(config, experiments, files)


def run_sheet(paths: "Paths") -> dict[str, Any]:
    """Return what ``run_spec.json`` holds for the run whose files are ``paths``."""
    config = paths.config
    served = set(grids.serving_checkpoints(config))
    local = dict.fromkeys(LOCAL, True) | {"serving": {"python"}}
    dumped = config.model_dump(mode="json", exclude=local)
    dumped["models"] = {name: dumped["models"][name] for name in grids.needed_models(config)}
    return {
        "config": dumped,
        "experiments": {
            name: [point.key for point in grids.experiment_checkpoints(config, name)]
            for name in config.experiments
        },
        "checkpoints": [
            {
                **asdict(point),
                "evals": paths.evaluation(point),
                "check": None if point.regime == "dense" else paths.ready(point),
                "masks": paths.masks(point) if point in paths.mask_references else None,
                "calibration_manifest": paths.calibration_manifest(point),
                "serving": paths.efficiency(point) if point in served else None,
            }
            for point in paths.checkpoints
        ],
    }


def write_spec(path: Path | str, paths: "Paths") -> None:
    """Write ``run_spec.json``."""
    write_text(path, canonical_json(run_sheet(paths)) + "\n")
