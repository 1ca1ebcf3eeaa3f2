"""From the grids of a configuration to the list of checkpoints that the workflow makes."""

import itertools
from collections.abc import Iterable, KeysView
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .benchmark_keys import Benchmark
from .facts import COMPRESSIBLE, DENSE, METHODS, NO_CALIBRATION, is_calibrated

if TYPE_CHECKING:
    from .config import Config


@dataclass(frozen=True, order=True)
class Checkpoint:
    """One model folder: a dense model, or a pruned one."""

    model: str
    method: str
    regime: str
    calibration: str
    seed: int

    @property
    def key(self) -> str:
        """The path of this checkpoint below ``pruned/``, ``evals/`` and ``serving/``."""
        return f"{self.model}/{self.method}/{self.regime}/{self.calibration}/s{self.seed}"

    @property
    def is_base(self) -> bool:
        """Whether this is the base model itself, as nothing has changed it."""
        return self.method == DENSE


def dense(model: str) -> Checkpoint:
    """Return the base model itself."""
    return Checkpoint(model, DENSE, DENSE, NO_CALIBRATION, 0)


def base_method(config: "Config", method: str) -> str:
    """Return which of the built-in methods ``method`` is, itself or a variant of."""
    return method if method in METHODS else config.methods[method].method


def method_options(config: "Config", method: str) -> dict[str, Any]:
    """Return the pruning options of a method: the defaults, then those of its variant."""
    options = config.pruning.model_dump()
    if method in config.methods:
        own = config.methods[method]
        options |= own.model_dump(exclude={"method", "label"}, exclude_none=True)
    return options


def alignment(config: "Config", calibration: str) -> str:
    """Return how a calibration aligns its pairs: its own setting, else the general one."""
    return config.calibrations[calibration].alignment or config.pruning.alignment


@lru_cache(maxsize=256)
def experiment_checkpoints(config: "Config", experiment: str) -> KeysView[Checkpoint]:
    """Return an experiment's checkpoints in grid order, each once.

    Dense models have neither regime nor calibration and some methods no calibration, so a
    grid holds each of those once. The regime ``dense`` stands for the dense model with a method
    that only prunes.
    """
    grid = config.experiments[experiment]
    bases = {method: base_method(config, method) for method in grid.methods}
    calibrated = {m: is_calibrated(bases[m], method_options(config, m)) for m in bases}
    found: dict[Checkpoint, None] = {}
    places = (grid.models, grid.methods, grid.regimes, grid.calibrations, grid.seeds)
    for point in itertools.starmap(Checkpoint, itertools.product(*places)):
        facts = METHODS[bases[point.method]]
        if not facts.prunes or (point.regime == DENSE and not facts.shifts):
            point = dense(point.model)
        elif not calibrated[point.method]:
            point = replace(point, calibration=NO_CALIBRATION, seed=0)
        found[point] = None
    return found.keys()


def all_checkpoints(config: "Config") -> list[Checkpoint]:
    """Return the checkpoints of all experiments, each once, sorted."""
    return sorted({p for name in config.experiments for p in experiment_checkpoints(config, name)})


def benchmarks_of(config: "Config", point: Checkpoint) -> dict[str, Benchmark]:
    """Return the benchmarks of a checkpoint: those for all, and those for its experiments."""
    return {
        slug: entry
        for slug, entry in config.benchmarks.items()
        if not entry.experiments
        or any(point in experiment_checkpoints(config, name) for name in entry.experiments)
    }


def calibrated(checkpoints: Iterable[Checkpoint]) -> list[tuple[str, str, int]]:
    """Return the (model, calibration, seed) triples whose calibration data is needed."""
    return sorted(
        {(p.model, p.calibration, p.seed) for p in checkpoints if p.calibration != NO_CALIBRATION}
    )


def mask_references(config: "Config") -> dict[Checkpoint, Checkpoint]:
    """Return the SparseGPT checkpoint that a checkpoint's masks are compared with.

    That of the same model, regime, calibration and seed for Debias-SparseGPT and its variants.
    Checkpoints without such a counterpart in the run are left out. A comparison reads two whole
    models, so only the experiment ``masks`` has them or, without one, all checkpoints of a run
    with the table ``masks``.
    """
    points = all_checkpoints(config) if "masks" in config.tables else []
    if "masks" in config.experiments:
        points = sorted(experiment_checkpoints(config, "masks"))
    known = set(points)
    return {
        point: reference
        for point in points
        if base_method(config, point.method) == "debias-sparsegpt"
        and (reference := replace(point, method="sparsegpt")) in known
    }


def in_calibration(config: "Config", point: Checkpoint, benchmark: str, category: str = "") -> bool:
    """Return whether a checkpoint's calibration pairs come from what a benchmark scores.

    That is so where it is of one of the pairs' data sets, whatever the splits, and the pairs are
    of all bias types or of ``category``; for the whole benchmark ("") one type is enough. Pairs
    that the alignment drops and those of a negative control count.
    """
    if benchmark not in config.benchmarks or point.calibration == NO_CALIBRATION:
        return False
    calibration = config.calibrations[point.calibration]
    if config.benchmarks[benchmark].dataset not in calibration.pairs:
        return False
    return not (category and calibration.categories) or category in calibration.categories


def needed_datasets(config: "Config") -> list[str]:
    """Return the data sets that the configuration's benchmarks, calibrations and serving read."""
    needed = {benchmark.dataset for benchmark in config.benchmarks.values()}
    for _, name, _ in calibrated(all_checkpoints(config)):
        needed |= {*config.calibrations[name].pairs, config.calibrations[name].texts}
    if config.serving.experiment:
        needed.add(config.serving.dataset)
    return sorted(filter(None, needed))


def needed_models(config: "Config") -> list[str]:
    """Return the models of all experiments, and the guard models of the benchmarks."""
    judges = {entry.judge for entry in config.benchmarks.values() if entry.judge}
    return sorted({point.model for point in all_checkpoints(config)} | judges)


def serving_checkpoints(config: "Config") -> list[Checkpoint]:
    """Return the dense and 2of4 checkpoints whose throughput and energy are measured."""
    if config.serving.experiment is None:
        return []
    points = experiment_checkpoints(config, config.serving.experiment)
    return [point for point in points if point.regime in (DENSE, COMPRESSIBLE)]


def asked_of(config: "Config", benchmark: Benchmark, model: str) -> dict[str, Any]:
    """Return ``bos``, ``chat_template`` and, where they are named, ``split`` and ``style``.

    Those of the benchmark; what it leaves open the model decides, for its task or as a whole.
    """
    entry = config.models[model]
    own = entry.protocol.get(benchmark.task)
    found: dict[str, Any] = {"bos": entry.bos, "chat_template": entry.chat_template}
    found |= own.model_dump(exclude_none=True) if own else {}
    names = {"bos", "chat_template", "split", "style"}
    return found | benchmark.model_dump(include=names, exclude_none=True)
