"""What the rules of ``workflow/`` ask once, before any job: see ``workflow/rules/common.smk``."""

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import grids, job_options
from .config.config import load_config
from .config.paths import Paths
from .data import sources
from .io.codedigest import package_versions
from .io.errors import UserError
from .io.reading import read_json
from .io.yamlfile import read_yaml
from .models.quantised import CONFIG
from .serving.environment import OWN, serving_python


@dataclass(frozen=True)
class Run:
    """A run: its files, the interpreter that measures throughput, what each job depends on.

    ``absent`` are the messages of the sources that no mirror has and the lock does not pin.
    """

    paths: Paths
    serving_python: str
    jobs: job_options.Dependencies
    absent: list[str]


def typed(given: Any, said: Any) -> Any:
    """Return a configuration with the numbers and truth values that ``--config`` said.

    Of ``KEY={name: 4}`` Snakemake makes text, in ``said`` and where that is in ``given``.
    """
    if isinstance(given, Mapping) and isinstance(said, Mapping):
        return {k: typed(one, said[k]) if k in said else one for k, one in given.items()}
    if isinstance(said, list) and given == said:
        return [typed(one, one) for one in said]
    if isinstance(said, str) and given == said:
        with contextlib.suppress(ValueError):
            found = json.loads(said.lower())
            return given if isinstance(found, str | list | dict) else found
    return given


def load_run(
    given: Mapping[str, Any],
    said: Mapping[str, Any],
    files: Iterable[str],
    default: Path,
    catalogue: Path,
    folders: list[Path],
    by_conda: bool,
    storage: str | None = None,
) -> Run:
    """Return the run of a configuration; UserError, a sentence a fault, where it cannot be one.

    ``given`` is what Snakemake has read from ``files``, where it let the last of equal keys win,
    with ``said``, which is what ``--config`` gave.
    ``folders`` may hold an environment with vLLM; ``storage`` is Snakemake's storage plugin.
    """
    if storage:
        # Jobs hand on folders that are no declared files of theirs (a checkpoint's, a mirror's),
        # which a storage plugin would not bring along.
        raise UserError(
            f"expected one file system for all jobs, got --default-storage-provider {storage}; "
            "leave the option out (docs/cluster.md, Other executors)"
        )
    for file in files:
        read_yaml(file)
    config = load_config(typed(given, said), default, catalogue)
    for name, version in package_versions("torch", "transformers", "lm_eval").items():
        if version == "absent" and not by_conda:
            raise UserError(
                f"this Snakemake runs on {sys.executable}, which lacks the Python package {name}; "
                "use that of `make env` (`source .venv/bin/activate`), or give --sdm conda"
            )
    measuring = OWN
    if config.serving.experiment:
        asked = config.serving
        measuring = serving_python(asked.python, asked.backend, folders, by_conda)
    mirror = job_options.mirror(config)
    # A world's own sources are made by steps, on which the rest depends.
    every = job_options.all_sources(config)
    needed = [one for one in every if config.source != "world" or one[2].get("path")]
    wrong, absent = sources.unresolved(needed, mirror, config.lock)
    pruned = {point.model for point in grids.all_checkpoints(config) if not point.is_base}
    for name in sorted(pruned) if not wrong else ():
        entry = next((one for kind, key, one in needed if (kind, key) == ("models", name)), {})
        folder = sources.local_source("models", name, entry, mirror)
        raw = folder / "config.json" if folder else None
        if raw and raw.is_file() and read_json(raw, finite=False).get(CONFIG):
            wrong.append(
                f"models.{name}: the weights in {folder} are quantised, and only evaluated as they "
                "are (methods: [dense]); to prune, give the model that was quantised"
            )
    if wrong:
        raise UserError("\n".join(wrong))
    found = {one[:2]: sources.fingerprint(*one, mirror, config.lock) for one in needed}
    paths = Paths(config)
    jobs = job_options.dependencies(paths, lambda *source: found.get(source[:2], ""))
    return Run(paths, measuring, jobs, absent)
