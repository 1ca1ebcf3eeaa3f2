"""Which benchmarks are compared, with which data: from flags, a configuration or what is there.

In this order: ``--benchmark`` (with ``--data``, or the default configuration's), the benchmarks of
``--configfile``, those of the run that an evaluation belongs to, all that evaluations share, for a
model of the embedded world its items, and the benchmarks of the default configuration.
"""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.checksums import source_folder
from ..base.codedigest import code_digest
from ..base.errors import UserError
from ..base.files import read_json
from ..data.sources import local_source, resolve_dataset, resolve_model
from ..evaluation.evaluate import asked_for, with_data
from ..evaluation.evaluate_checkpoint import check_benchmarks
from ..evaluation.protocol import make_protocol
from ..evaluation.task import NOWHERE
from ..plan import jobs
from ..plan.config import Benchmark, Config, default_config
from ..plan.finished import read_result
from ..plan.paths import Paths
from ..plan.plan import read_config
from ..plan.tasks import LM_EVAL, TASKS
from .sides import Evaluated, Model, Request, Side, run_of

# The world's benchmarks, by task -> data set.
WORLD = {
    "perplexity": "wikitext2",
    **{name: name for name in ("hellaswag", "mmlu", "unqover", "bbq", "crows_pairs", "stereoset")},
}


def requests_of(args: argparse.Namespace, sides: Sequence[Side], evals: Path) -> dict[str, Request]:
    """Return the benchmarks by name, in the order of tasks; UserError where nothing says which."""
    found = _requests(args, sides, evals)
    return dict(sorted(found.items(), key=lambda one: TASKS.index(one[1].task)))


def _requests(args: argparse.Namespace, sides: Sequence[Side], evals: Path) -> dict[str, Request]:
    models = [side for side in sides if isinstance(side, Model)]
    if args.benchmark:
        return _named(args, bool(models))
    if args.data:
        raise UserError("--data says where the data of a --benchmark are; name that benchmark too")
    if args.configfile:
        if not args.catalogue.is_file():
            raise UserError(
                f"expected the catalogue behind --configfile at {args.catalogue}, found no file; "
                "run in the clone of the workflow, or give --catalogue FILE"
            )
        config = read_config(args.configfile, args.catalogue)
        if args.mirror:
            config = config.model_copy(update={"mirror": args.mirror})
        return {
            slug: _of_config(config, slug, entry, evals) if models else Request(entry.task)
            for slug, entry in config.benchmarks.items()
        }
    evaluated = [side for side in sides if isinstance(side, Evaluated)]
    if not models:
        return _shared(evaluated)
    if evaluated:
        found = _of_run(evaluated[0])
        if found:
            return found
    elif _is_of_world(models[0].folder):
        return _of_world(args, models[0], evals)
    else:
        config = default_config()
        named = config.benchmarks.items()
        return {slug: _of_config(config, slug, entry, evals) for slug, entry in named}
    raise UserError(
        f"nothing says what {models[0].name} is to be measured on; give --benchmark NAME (and "
        "--data PATH, once for each) or --configfile FILE"
    )


def _named(args: argparse.Namespace, needed: bool) -> dict[str, Request]:
    """Return the benchmarks of the flags; each --data belongs to the --benchmark in its place."""
    names, data = args.benchmark, args.data or []
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"--benchmark {twice[0]} is given twice; give each benchmark once")
    if len(data) not in (0, len(names)):
        raise UserError(
            f"expected one --data for each --benchmark, or none, got {len(data)} for {len(names)}; "
            "give them in the same order"
        )
    if not data:
        return {
            name: Request(name, *with_data(args, name)) if needed else Request(name)
            for name in names
        }
    return {
        name: Request(name, asked_for(args, name), source_folder(path))
        for name, path in zip(names, data)
    }


def _of_config(config: Config, slug: str, entry: Benchmark, evals: Path) -> Request:
    """Return a benchmark of a configuration, with the data where its run has or would take them."""
    options = entry.model_dump(exclude={"dataset", "experiments"}, exclude_none=True)
    if entry.judge:
        options["judge"] = str(_judge(config, entry.judge))
    spec = make_protocol(options, f"benchmark {slug}")
    return Request(
        entry.task, spec, _data_of(config, entry.dataset, evals) if entry.dataset else NOWHERE
    )


def _data_of(config: Config, name: str, evals: Path) -> Path:
    record = Path(Paths(config).dataset(name))
    if record.is_file():
        return source_folder(record)
    if config.source == "world":
        made = Path(config.results) / "world"
        if not (made / "world.json").is_file():
            made = world(evals, config.world.seed, config.world.leans == "planted")
        return made / "data" / name
    entry = config.datasets[name].model_dump()
    folder = local_source("data", name, entry, config.mirror)
    if folder:
        return folder
    cache = evals / "data"
    found = resolve_dataset(name, entry, mirror=None, lock_path=config.lock, cache=cache)
    return Path(found["folder"])


def _judge(config: Config, name: str) -> Path:
    record = Path(Paths(config).model(name))
    if record.is_file():
        return record
    entry = config.models[name].model_dump()
    found = resolve_model(name, entry, mirror=config.mirror, lock_path=config.lock)
    return Path(found["folder"])


def _shared(sides: Sequence[Evaluated]) -> dict[str, Request]:
    """Return the benchmarks that all evaluations have, by name and task."""
    tasks = [{slug: _task(folder) for slug, folder in side.folders.items()} for side in sides]
    shared = [
        slug
        for slug, task in tasks[0].items()
        if all(other.get(slug) == task for other in tasks[1:])
    ]
    if not shared:
        raise UserError(
            f"expected evaluations that share a benchmark, got {', '.join(tasks[0])} in "
            f"{sides[0].name} and {', '.join(tasks[-1])} in {sides[-1].name}; evaluate both on one"
        )
    return {slug: Request(tasks[0][slug]) for slug in shared}


def left_out(sides: Sequence[Side], requests: Mapping[str, Request]) -> list[str]:
    """Return in words which benchmarks an evaluation has that are not compared."""
    lines = []
    for side in sides:
        if isinstance(side, Evaluated):
            rest = [slug for slug in side.folders if slug not in requests]
            if rest and len(side.folders) > 1:
                lines.append(f"not compared, though {side.name} has it: {', '.join(rest)}")
    return lines


def _task(folder: Path) -> str:
    return str(read_result(folder)["task"])


def _of_run(side: Evaluated) -> dict[str, Request]:
    """Return the benchmarks of the workflow's run that an evaluation lies in; {} outside of one.

    Raises UserError where one of them is a task of lm-eval, whose files may hold code: a results
    folder, perhaps somebody else's, has none of it run.
    """
    run = run_of(side)
    options: dict[str, Any] = jobs.benchmark_options(Paths(run[0]), run[1]) if run else {}
    known = {slug: one for slug, one in options.items() if slug in side.folders}
    foreign = [slug for slug, one in known.items() if one["task"] == LM_EVAL]
    if foreign:
        raise UserError(
            f"the run of {side.name} has tasks of lm-eval ({', '.join(foreign)}), whose files may "
            "hold code; give your own --configfile FILE that names them, or --benchmark NAME"
        )
    return {
        slug: Request(spec.task, spec, data)
        for slug, (spec, data) in check_benchmarks(known).items()
    }


# The embedded world


def _is_of_world(model: Path) -> bool:
    path = model / "training.json"
    found = read_json(path) if path.is_file() else None
    return isinstance(found, dict) and isinstance(found.get("world"), dict)


def _of_world(args: argparse.Namespace, model: Model, evals: Path) -> dict[str, Request]:
    """Return the embedded world's benchmarks, for a model that was trained on its text."""
    made = world(evals, 0, True)
    if _text(model.folder / "training.json", "world") != _text(made / "world.json", "files"):
        raise UserError(
            f"{model.name} was trained on another world than the embedded one; name its items "
            "with --benchmark NAME --data WORLD/data/NAME"
        )
    return {
        task: Request(task, asked_for(args, task), made / "data" / name)
        for task, name in WORLD.items()
    }


def _text(file: Path, key: str) -> dict[str, Any]:
    """Return a file's record of the training text, by names of files."""
    return {name: one for name, one in read_json(file)[key].items() if name.startswith("train/")}


def world(evals: Path, seed: int, planted: bool) -> Path:
    """Return the folder of an invented world, made where it is not there yet."""
    code = code_digest("evenprune_world.generate_world")
    folder = evals / "worlds" / f"s{seed}-{'planted' if planted else 'none'}-{code}"
    if not (folder / "world.json").is_file():
        leans = "planted" if planted else "none"
        words = ["generate-world", "--seed", str(seed), "--leans", leans, "--out", str(folder)]
        command = [sys.executable, "-m", "evenprune_world", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder
