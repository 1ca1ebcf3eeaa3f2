"""Tasks of lm-eval by name: those that it ships, and YAML tasks in a folder of the user's own."""

from pathlib import Path
from typing import Any

import yaml

from ..io.errors import UserError, nearest, shown
from ..io.files import library_cache
from ..io.reading import read_text
from ..io.yamlfile import checked

# What a mistake in a task's own files raises: its text names files and keys, no addresses.
LOCAL = (FileNotFoundError, KeyError, TypeError, ValueError, ImportError, AttributeError)


def load_tasks(name: str, folder: Path | None) -> dict[str, Any]:
    """Return lm-eval's ``TaskDict`` of a task or group, its data loaded.

    ``folder`` has YAML tasks beside lm-eval's own, and comes first. Raises UserError for a name
    that is in neither, and for a task whose files or data cannot be read.
    """
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    include = str(folder) if folder else None
    for file in sorted(folder.rglob("*.y*ml")) if folder else ():
        try:
            checked(yaml.compose(read_text(file), yaml.SafeLoader))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UserError(f"{file} is not valid YAML ({_said(error)}); correct it") from None
    try:
        for file in sorted(folder.rglob("*.yaml")) if folder else ():
            load_yaml(file, resolve_func=False)  # lm-eval passes over files that it cannot read
        # To read what lm-eval ships takes many seconds: once, where the folder has not all.
        manager = TaskManager(include_path=include, include_defaults=folder is None)
        own = name in manager.all_tasks and manager.task_index[name].kind.name != "GROUP"
        if folder and not own:
            manager = TaskManager(include_path=include)
        if name in manager.all_tasks:
            with library_cache():
                return dict(manager.load(name))
    except UserError:
        raise
    except RecursionError:
        raise UserError(
            f"lm-eval's task {name} in {folder} includes itself; correct its files"
        ) from None
    except Exception as error:  # what is no LOCAL is of the hub's client or its transport
        where = f" in {folder}" if folder else ""
        local = isinstance(error, LOCAL)
        raise UserError(
            f"lm-eval's task {name}{where} or its data could not be loaded "
            f"({_said(error) if local else type(error).__name__}); correct its files, or, where "
            f"its data are on the hub, run `snakemake prefetch` (or the same command with "
            f"HF_HUB_OFFLINE=0 and HF_DATASETS_OFFLINE=0) where there is a network"
        ) from error
    where = f"{folder} and lm-eval have" if folder else "lm-eval has"
    raise UserError(f"{where} no task {name!r}{nearest(name, manager.all_tasks, 3)}")


def _said(error: Exception) -> str:
    return shown(" ".join(f"{type(error).__name__}: {error}".split()), 200).strip("'\"")
