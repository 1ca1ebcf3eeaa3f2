"""One benchmark on one model, from the command line: DIR/metrics.json and DIR/items.jsonl."""

import argparse
import os
from pathlib import Path
from typing import Any

from ..config.benchmark_keys import Asked
from ..config.flags import add_flags
from ..config.tasks import LM_EVAL, TASKS
from ..data.defaults import default_benchmark
from ..io.checksums import source_folder
from ..io.errors import UserError
from ..io.gpu import add_gpus_argument
from ..models.identity import identify
from ..models.trust import add_trust_argument
from .benchmarks import ask, check_out, data_checksums, find, run_benchmark
from .load_model import Loader
from .protocol import Protocol, make_protocol
from .task import NOWHERE

# The others are --benchmark, and all metrics are printed.
OPTIONS = tuple(key for key in Protocol.model_fields if key not in ("task", "headline"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face model folder")
    parser.add_argument("--benchmark", required=True, choices=TASKS)
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with the canonical files, or your own file; for lm_eval a folder of YAML "
        "tasks; default: the data of the default configuration, fetched if missing",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the two files")
    add_protocol_arguments(parser)
    add_run_arguments(parser)


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


def with_data(args: argparse.Namespace, task: str) -> tuple[Protocol, Path]:
    """Return a task's options, and the default configuration's data with their split and style.

    Raises UserError where that has none for the task.
    """
    entry, data = default_benchmark(task)
    known = {name: getattr(args, name) or getattr(entry, name) for name in ("split", "style")}
    return asked_for(argparse.Namespace(**vars(args) | known), task), data


def asked_for(args: argparse.Namespace, task: str) -> Protocol:
    """Return the options of a task from the command line; UserError for bad ones."""
    options = {name: getattr(args, name) for name in OPTIONS}
    return make_protocol({"task": task, **options}, "the command line")


def evaluate(args: argparse.Namespace) -> dict[str, Any]:
    """Evaluate as the command line asks, and return what metrics.json holds."""
    quiet_libraries()
    if args.data is None and args.benchmark != LM_EVAL:
        spec, data = with_data(args, args.benchmark)
    else:
        spec = asked_for(args, args.benchmark)
        data = given_data(spec, args.data)
    find(spec.task)
    model = source_folder(args.model)
    check_out(args.out, [args.model, model, args.data, data, spec.judge])
    data_checksums(data, spec)  # says at once what is missing
    identity = identify(model)
    with Loader(model, args.device, args.serving_python, args.gpus) as loader:
        wanted = ask(spec.task, spec, data, identity, loader)
        return run_benchmark(loader.load(spec), wanted, args.out)


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
    spread = "" if found["stderr"] is None else f" ± {found['stderr']:.4f}"
    return f"{result['benchmark']}: {name} {value}{spread} (n = {found['n']})"
