"""The options of a benchmark, as commands take them, and the data that it is asked with."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config.benchmark_keys import Asked
from ..config.flags import add_flags
from ..config.tasks import LM_EVAL
from ..data.defaults import default_benchmark
from ..io.checksums import source_folder
from ..io.errors import UserError
from ..io.gpu import add_gpus_argument
from ..models.trust import add_trust_argument
from ..tasks.protocol import Protocol, make_protocol
from ..tasks.task import NOWHERE

# The others are --benchmark, and all metrics are printed.
OPTIONS = tuple(key for key in Protocol.model_fields if key not in ("task", "headline"))


def add_protocol_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``OPTIONS``, those of a benchmark that can change its numbers."""
    add_flags(parser, Asked, *(key for key in OPTIONS if key in Asked.model_fields))
    add_flags(parser, Protocol, "dtype")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where a benchmark runs, which is no part of its options."""
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if there is one")
    add_gpus_argument(parser)
    add_trust_argument(parser)
    parser.add_argument(
        "--serving-python",
        help="interpreter that has vLLM; default: .venv-vllm, or this one where it has vLLM",
    )


def quiet_libraries() -> None:
    """Keep libraries' progress bars out of logs; call before they are imported."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")


def require_options(options: Mapping[str, Any]) -> None:
    """Raise TypeError, as Python does, for a name that is none of ``OPTIONS``."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")


def with_data(task: str, options: Mapping[str, Any]) -> tuple[Protocol, Path]:
    """Return a task's options, and the default configuration's data with their split and style.

    Raises UserError where that has none for the task.
    """
    entry, data = default_benchmark(task)
    known = {name: options.get(name) or getattr(entry, name) for name in ("split", "style")}
    return asked_for(task, {**options, **known}), data


def asked_for(task: str, options: Mapping[str, Any]) -> Protocol:
    """Return the options of a task, None for its default; UserError for bad ones."""
    return make_protocol({"task": task, **options}, "the command line")


def given_data(spec: Protocol, given: Path | str | None) -> Path:
    """Return the folder or file of a benchmark's data; UserError where it needs some."""
    if given is not None:
        return source_folder(given)
    if spec.task != LM_EVAL:
        raise UserError(f"the benchmark {spec.task} needs its data: give --data (the key data)")
    return NOWHERE


def headline(result: dict) -> str:
    """Return one line about a finished benchmark."""
    name = result["headline"]
    found = result["metrics"][name]
    value = "undefined" if found["value"] is None else f"{found['value']:.4f}"
    return f"{result['benchmark']}: {name} {value} (n = {found['n']})"
