"""What the tables know of a run: its configuration, its checkpoints, their files.

``run_sheet.json`` has the configuration, from which all else follows, and lists the checkpoints.
"""

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ..io.checksums import again, read_sealed, sealed
from ..io.errors import UserError
from ..io.files import canonical_json, read_json, write_text
from . import grids
from .benchmark_keys import Benchmark
from .config import Config, validate_config
from .finished import result_folder
from .grids import Checkpoint
from .paths import Paths
from .tasks import FACTS, PAPER_DATASETS

RUN_SHEET = "run_sheet.json"
# Places on this machine, and other keys that change no table.
LOCAL = {*("mirror", "lock", "device", "threads", "pdf", "keep", "check_disk")}
# What decides how numbers are shown, and where; and words of the entries.
SHOWN = ("title", "tables", "figures", "results")
WORDS = {
    "models": ("label", "params", "instruction_tuned", "multilingual", "licence"),
    "methods": ("label",),
    "datasets": ("groups",),
}


class RunSheet(Paths):
    """A run: its configuration, checkpoints and files, and what stands for what in its tables."""

    @cached_property
    def experiments(self) -> dict[str, list[Checkpoint]]:
        """The checkpoints of each experiment, in grid order."""
        names = self.config.experiments
        return {one: list(grids.experiment_checkpoints(self.config, one)) for one in names}

    @property
    def shown(self) -> list[Checkpoint]:
        """The checkpoints of all experiments, in their order; some more than once."""
        return [point for grid in self.experiments.values() for point in grid]

    def result_folder(self, point: Checkpoint, slug: str) -> Path:
        """Return the folder of a checkpoint's benchmark, with metrics.json and items.jsonl.

        Raises UserError where they are not those that the checkpoint's summary.json is of, which
        is looked at once.
        """
        return self._checked(Path(self.evaluation(point)), slug)

    @cached_property
    def _checked(self) -> Callable[[Path, str], Path]:
        return cache(result_folder)

    def benchmarks(self, task: str | None = None) -> dict[str, Benchmark]:
        """Return the benchmarks (of one task) by task, then the paper's data set first."""
        chosen = [
            (list(FACTS).index(entry.task), entry.dataset != PAPER_DATASETS[entry.task], slug)
            for slug, entry in self.config.benchmarks.items()
            if task in (None, entry.task)
        ]
        return {slug: self.config.benchmarks[slug] for *_, slug in sorted(chosen)}

    def primary(self, task: str) -> str | None:
        """Return the benchmark that stands for a task in derived numbers, None without one."""
        return next(iter(self.benchmarks(task)), None)

    def headline(self, slug: str) -> str:
        """Return the metric that stands for a benchmark in the tables."""
        entry = self.config.benchmarks[slug]
        return entry.headline or FACTS[entry.task].headline

    def base_method(self, method: str) -> str:
        """Return which of the built-in methods a method is, itself or a variant of."""
        return grids.base_method(self.config, method)

    def experiment(self, name: str, asked_by: str) -> list[Checkpoint]:
        """Return an experiment's checkpoints; raise UserError when the run has no such one."""
        if name not in self.experiments:
            have = ", ".join(self.experiments) or "none"
            raise UserError(
                f"{asked_by} shows the experiment {name!r}, but the configuration has only "
                f"{have}; define experiments.{name} or leave {asked_by} out"
            )
        return self.experiments[name]


def has_paper_form(entry: Benchmark) -> bool:
    """Return whether a guard model judges a benchmark's answers in the authors' form too."""
    return entry.judge is not None and "paper" in (entry.judge_forms or ())


def read_run_sheet(path: Path | str) -> RunSheet:
    """Read ``run_sheet.json``; raise UserError when it is missing, broken or incomplete."""
    content = read_sealed(path, f"run {again(path)}", {"checksum"}) or read_json(path)
    config: Any = content.get("config")
    return RunSheet(validate_config(config, origin=f"the configuration in {path}"))


def contents(config: Config, words: bool = True) -> dict[str, Any]:
    """Return what ``run_sheet.json`` holds for the run of a configuration.

    Without ``words`` the part of it that numbers follow from.
    """
    hidden: dict[str, Any] = dict.fromkeys(LOCAL, True) | {"serving": {"python"}}
    unsaid = {kind: set[str]() if words else {*keys} for kind, keys in WORDS.items()}
    unsaid["models"].add("gpus")
    hidden |= {kind: {"__all__": keys} for kind, keys in unsaid.items()}
    hidden |= {} if words else dict.fromkeys(SHOWN, True)
    dumped = config.model_dump(mode="json", exclude=hidden)
    dumped["models"] = {name: dumped["models"][name] for name in grids.needed_models(config)}
    grids_of = RunSheet(config).experiments.items()
    grid = {name: [point.key for point in points] for name, points in grids_of}
    return {"config": dumped, "experiments": grid}


def write_run_sheet(path: Path | str, config: Config) -> None:
    """Write ``run_sheet.json``."""
    write_text(path, canonical_json(sealed(contents(config))) + "\n")
