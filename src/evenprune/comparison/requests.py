"""Which benchmarks are compared, with which data: from flags, a configuration or what is there.

In this order: ``--benchmark`` (with ``--data``, or the default configuration's), the benchmarks of
``--configfile``, all that evaluations share, and those of the default configuration.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..base.checksums import again, source_folder
from ..base.errors import UserError
from ..data.sources import local_source, resolve_dataset, resolve_model
from ..evaluation.evaluate import asked_for, with_data
from ..evaluation.protocol import make_protocol
from ..evaluation.task import NOWHERE
from ..plan.benchmark_keys import Benchmark
from ..plan.config import Config, default_config
from ..plan.finished import read_result
from ..plan.paths import Paths
from ..plan.plan import read_config
from ..plan.tasks import TASKS
from .sides import Evaluated, Model, Request, Side

WORLD = "training.json"  # of a model of an invented world


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
    if not evaluated and not (models[0].folder / WORLD).is_file():
        config = default_config()
        named = config.benchmarks.items()
        return {slug: _of_config(config, slug, entry, evals) for slug, entry in named}
    # What a results folder says is never run, and the world's models know no other words.
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
        raise UserError(
            f"expected the data set {name} of the invented world at {record}, found none; make it: "
            f"run {again(record)}"
        )
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
