"""What a comparison is of: folders, ids on the hub, or what was evaluated before; and benchmarks.

A model is evaluated benchmark by benchmark into ``EVALS/<files_sha256>/<benchmark>-<digest>/``:
the digest is that of model, data, options, versions and code, so that nothing is computed twice.
"""

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.config import Config, default_config
from ..config.finished import METRICS, SUMMARY, read_result, read_summary, result_folder
from ..config.grids import Checkpoint
from ..config.pair_sources import BIAS_TYPES
from ..config.run_sheet import RUN_SHEET, read_run_sheet
from ..config.tasks import TASKS
from ..data.defaults import dataset_folder
from ..data.hub_models import find_model
from ..evaluation.benchmarks import Wanted, ask, asked_for, check_out
from ..evaluation.evaluate_checkpoint import take_or_run
from ..evaluation.load_model import Loader
from ..io.checksums import source_folder, user_cache
from ..io.errors import UserError
from ..io.outputs import check_place
from ..models.identity import own_manifest
from ..models.loading import check_model_folder, load_tokenizer
from ..models.trust import trusting_folders
from ..tasks.protocol import Protocol, make_protocol
from ..tasks.task import NOWHERE


@dataclass(frozen=True)
class Evaluated:
    """What was evaluated before: benchmark -> the folder with its metrics and records."""

    name: str
    place: Path
    folders: Mapping[str, Path]

    @functools.cached_property
    def results(self) -> dict[str, dict[str, Any]]:
        """The metrics of each benchmark."""
        return {slug: read_result(folder) for slug, folder in self.folders.items()}

    @property
    def tasks(self) -> dict[str, str]:
        """The task of each benchmark."""
        return {slug: str(result["task"]) for slug, result in self.results.items()}


@dataclass(frozen=True)
class Model:
    """A model folder that is to be evaluated; ``revision``: its commit on the hub."""

    name: str
    folder: Path
    revision: str | None = None


Side = Evaluated | Model
Load = Callable[[Path], Loader]  # what loads the model of a folder
Asked = Mapping[str, tuple[Protocol, Path]]  # benchmark -> its options and data, for a model


def open_evaluated(name: str) -> Evaluated | None:
    """Return the evaluation in a folder: of a checkpoint, a benchmark, or several; else None.

    Raises UserError for one that is not as it was written.
    """
    path = Path(name)
    if (path / SUMMARY).is_file():
        named = read_summary(path)["benchmarks"]
        return Evaluated(name, path, {slug: result_folder(path, slug) for slug in named})
    folders = [path] if (path / METRICS).is_file() else []
    if not folders and not (path / "config.json").is_file():
        folders = [one.parent for one in sorted(path.glob(f"*/{METRICS}"))]
    results = {str(read_result(folder)["benchmark"]): folder for folder in folders}
    return Evaluated(name, path, results) if results else None


def open_model(text: str, lock: Path, trust: bool) -> Model:
    """Return the model that an argument names.

    Raises UserError for a path or id that is none of a model folder, the record of one and an id
    on the hub.
    """
    place, revision = find_model(text, lock, trust)
    folder = source_folder(place)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"expected a model folder (with config.json), a GGUF file or an evaluation (with "
            f"{SUMMARY} or {METRICS}) at {text}, found neither; check the path"
        )
    return Model(text, folder, revision)


def evaluations_folder(given: Path | str | None) -> Path:
    """Return where models' evaluations are kept: ``given``, else the user's cache."""
    cache = user_cache()
    if given is None and cache is None:
        raise UserError("there is no home directory to keep evaluations in; give --evals DIR")
    return Path(given or f"{cache}/evaluations")


def ask_model(
    model: Model, asked: Asked, evals: Path, load: Load, trust: bool
) -> Callable[[], dict[str, Path]]:
    """Return what evaluates a model, which ``load`` loads, and returns the folder of each result.

    ``trust`` the model's own code. What is there is not evaluated again. Raises UserError for a
    model that could not be evaluated, as far as its files' heads say it.
    """
    loader, trusted = load(model.folder), (model.folder,) if trust else ()
    root = evals / loader.identity.files_sha256
    check_place(root, [model.folder], "--evals")
    folders: dict[Path, Wanted] = {}
    with trusting_folders(trusted):
        for slug, (spec, data) in asked.items():
            wanted = ask(slug, spec, data, loader)
            folder = root / f"{slug}-{wanted.digest}"
            check_out(folder, [model.folder, data, spec.judge])
            folders[folder] = wanted
        if not all((folder / METRICS).is_file() for folder in folders):
            check_model_folder(model.folder, quantised=True)
            load_tokenizer(model.folder)

    def evaluate() -> dict[str, Path]:
        with trusting_folders(trusted), loader:
            for folder, wanted in folders.items():
                take_or_run(wanted, folder)
        return {wanted.slug: folder for folder, wanted in folders.items()}

    return evaluate


def results_of(side: Evaluated, tasks: Mapping[str, str]) -> dict[str, Path]:
    """Return the folder of each benchmark, by its name, else the only one of its task.

    ``tasks`` are those of the benchmarks. Raises UserError where one was not evaluated.
    """
    folders = {}
    for slug, task in tasks.items():
        same = [slug] if slug in side.folders else [k for k, t in side.tasks.items() if t == task]
        if len(same) != 1:
            raise UserError(
                f"the evaluation {side.name} has no result of {slug}, only of "
                f"{', '.join(side.folders)}; evaluate it, or name the model's folder instead"
            )
        folders[slug] = side.folders[same[0]]
    return folders


# The workflow's run that a folder lies in


def run_of(side: Side) -> tuple[Config, Checkpoint] | None:
    """Return configuration and checkpoint of a side that lies in a run's results, else None."""
    place = (side.place if isinstance(side, Evaluated) else side.folder).resolve()
    root = next((up for up in place.parents if (up / RUN_SHEET).is_file()), None)
    if root is None:
        return None
    # evals/<checkpoint> or pruned/<checkpoint>/model
    key = "/".join(place.relative_to(root).parts[1:6])
    sheet = read_run_sheet(root / RUN_SHEET)
    return next(((sheet.config, point) for point in sheet.checkpoints if point.key == key), None)


def notes_of(dense: Side, pruned: Side, tasks: Iterable[str]) -> list[str]:
    """Return the commits of sides on the hub, after a warning for a pruned model whose pairs may be
    of a benchmark's data.

    Its manifest names the pairs' bias types, not their data set. No warning where a run knows.
    """
    manifest = {}
    if isinstance(pruned, Model) and not run_of(pruned):
        manifest = own_manifest(pruned.folder)
    used = manifest.get("calibration") or {}
    types = set(used.get("categories") or ())
    return [
        f"{pruned.name} was calibrated with pairs of the bias types {', '.join(sorted(types))}: if "
        f"they are from {task}, that benchmark is no clean test of it"
        for task in dict.fromkeys(tasks)
        if types and types <= set(BIAS_TYPES.get(task, ()))
    ] + [
        f"{side.name} is commit {side.revision}"
        for side in (dense, pruned)
        if isinstance(side, Model) and side.revision
    ]


def require_roles(dense: Side, pruned: Side) -> None:
    """Raise UserError where the model called dense is a pruned one, and the other one is not."""
    if _base(dense) and not _base(pruned):
        raise UserError(
            f"expected the model before pruning first, got {dense.name}, which is pruned, and "
            f"{pruned.name}, which is not; exchange the two"
        )


def _base(side: Side) -> str | None:
    """Return the checksum of the model that a side was pruned from, None for no pruned model."""
    if isinstance(side, Model):
        return own_manifest(side.folder).get("base", {}).get("files")
    found = (result.get("base_sha256") for result in side.results.values())
    return next((base for base in found if base), None)


# Which benchmarks are compared: ``--benchmark`` (with ``--data``, or the default configuration's),
# all that evaluations share, or the benchmarks of the default configuration

WORLD = "training.json"  # of a model of an invented world


def requests_of(
    named: Sequence[str], data: Sequence[Path], options: Mapping[str, Any], sides: Sequence[Side]
) -> tuple[dict[str, str], Asked]:
    """Return the benchmarks by name with their tasks, in the order of tasks, and what models are
    asked; UserError where nothing says which.

    What is named has the data in its place. Nothing is asked where only what was evaluated before
    has it.
    """
    models = [side for side in sides if isinstance(side, Model)]
    evaluated = [side for side in sides if isinstance(side, Evaluated)]
    asked: dict[str, tuple[Protocol, Path]] = {}
    if twice := [name for name in named if named.count(name) > 1]:
        raise UserError(f"--benchmark {twice[0]} is given twice; give each benchmark once")
    if len(data) not in (0, len(named)):
        raise UserError(
            f"expected one --data for each --benchmark, or none, got {len(data)} for {len(named)}; "
            "name each benchmark, and give their data in the same order"
        )
    if named:
        tasks = {name: name for name in named}
        if models or data:
            pairs = itertools.zip_longest(named, data)
            asked = {name: asked_for(name, options, place) for name, place in pairs}
    elif not models:
        tasks = shared({side.name: side.tasks for side in evaluated})
    # What a results folder says is never run, and the world's models know no other words.
    elif evaluated or (models[0].folder / WORLD).is_file():
        raise UserError(
            f"nothing says what {models[0].name} is to be measured on; give --benchmark NAME (and "
            "--data PATH), once for each benchmark"
        )
    else:
        config = default_config()
        for slug, entry in config.benchmarks.items():
            given = entry.model_dump(exclude={"dataset", "experiments"}, exclude_none=True)
            place = dataset_folder(config, entry.dataset) if entry.dataset else NOWHERE
            asked[slug] = (make_protocol(given, f"benchmark {slug}"), place)
        tasks = {slug: spec.task for slug, (spec, _) in asked.items()}
    order = sorted(tasks, key=lambda slug: TASKS.index(tasks[slug]))
    return {slug: tasks[slug] for slug in order}, {k: asked[k] for k in order if k in asked}


def shared(held: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the benchmarks that all sides hold, each with its task; UserError for none.

    ``held``: side -> benchmark -> task.
    """
    (name, first), *_, (other, last) = [*held.items()] * 2
    found = {k: task for k, task in first.items() if all(o.get(k) == task for o in held.values())}
    if not found:
        raise UserError(
            f"expected sides that share a benchmark, got {', '.join(first)} in {name} and "
            f"{', '.join(last)} in {other}; evaluate both on one"
        )
    return found


def not_compared(held: Mapping[str, Iterable[str]], compared: Container[str]) -> list[str]:
    """Return in words what each side, by its name, holds beyond what is compared."""
    rest = {side: [one for one in names if one not in compared] for side, names in held.items()}
    return [f"not compared, though {n} has it: {', '.join(one)}" for n, one in rest.items() if one]
