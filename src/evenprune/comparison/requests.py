"""Which benchmarks are compared, with which data: as named, or from what is there.

In this order: ``--benchmark`` (with ``--data``, or the default configuration's), all that
evaluations share, and the benchmarks of the default configuration.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.config import default_config
from ..config.finished import read_result
from ..config.tasks import TASKS
from ..data.defaults import dataset_folder
from ..evaluation.benchmarks import asked_for, with_data
from ..io.checksums import source_folder
from ..io.errors import UserError
from ..tasks.protocol import make_protocol
from ..tasks.task import NOWHERE
from .sides import Evaluated, Model, Request, Side

WORLD = "training.json"  # of a model of an invented world


def requests_of(
    named: Sequence[str], data: Sequence[Path], options: Mapping[str, Any], sides: Sequence[Side]
) -> dict[str, Request]:
    """Return the benchmarks by name, in the order of tasks; UserError where nothing says which."""
    models = [side for side in sides if isinstance(side, Model)]
    evaluated = [side for side in sides if isinstance(side, Evaluated)]
    if data and not named:
        raise UserError("--data says where the data of a --benchmark are; name that benchmark too")
    if named:
        requests = _named(named, data, options, bool(models))
    elif not models:
        requests = _shared(evaluated)
    # What a results folder says is never run, and the world's models know no other words.
    elif evaluated or (models[0].folder / WORLD).is_file():
        raise UserError(
            f"nothing says what {models[0].name} is to be measured on; give --benchmark NAME (and "
            "--data PATH), once for each benchmark"
        )
    else:
        config, requests = default_config(), {}
        for slug, entry in config.benchmarks.items():
            asked = entry.model_dump(exclude={"dataset", "experiments"}, exclude_none=True)
            place = dataset_folder(config, entry.dataset) if entry.dataset else NOWHERE
            requests[slug] = Request(entry.task, make_protocol(asked, f"benchmark {slug}"), place)
    return dict(sorted(requests.items(), key=lambda one: TASKS.index(one[1].task)))


def _named(
    names: Sequence[str], data: Sequence[Path], options: Mapping[str, Any], needed: bool
) -> dict[str, Request]:
    """Return the benchmarks that are named, each with the data in its place."""
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
            name: Request(name, *with_data(name, options)) if needed else Request(name)
            for name in names
        }
    return {
        name: Request(name, asked_for(name, options), source_folder(path))
        for name, path in zip(names, data)
    }


def _shared(sides: Sequence[Evaluated]) -> dict[str, Request]:
    """Return the benchmarks that all evaluations have, by name and task."""
    tasks = [
        {slug: str(read_result(folder)["task"]) for slug, folder in side.folders.items()}
        for side in sides
    ]
    shared = {
        slug: Request(task)
        for slug, task in tasks[0].items()
        if all(other.get(slug) == task for other in tasks[1:])
    }
    if not shared:
        raise UserError(
            f"expected evaluations that share a benchmark, got {', '.join(tasks[0])} in "
            f"{sides[0].name} and {', '.join(tasks[-1])} in {sides[-1].name}; evaluate both on one"
        )
    return shared


def left_out(sides: Sequence[Side], requests: Mapping[str, Request]) -> list[str]:
    """Return in words which benchmarks an evaluation has that are not compared."""
    several = [one for one in sides if isinstance(one, Evaluated) and len(one.folders) > 1]
    return not_compared({side.name: side.folders for side in several}, requests)


def not_compared(held: Mapping[str, Iterable[str]], compared: Container[str]) -> list[str]:
    """Return in words what each side, by its name, holds beyond what is compared."""
    rest = {side: [one for one in names if one not in compared] for side, names in held.items()}
    return [f"not compared, though {n} has it: {', '.join(one)}" for n, one in rest.items() if one]
