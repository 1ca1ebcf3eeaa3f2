"""One benchmark on one model: its options, how it runs, the identity of its result."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.benchmark_keys import Asked
from ..config.finished import ITEMS, METRICS
from ..config.flags import add_flags
from ..config.tasks import FACTS, JUDGED, LM_EVAL, decisive
from ..data.defaults import default_benchmark
from ..io.checksums import sealed, sha256_cached, source_folder, source_name
from ..io.codedigest import code_digest, package_versions
from ..io.errors import UserError
from ..io.files import digest, sha256_file, write_json, write_jsonl
from ..io.outputs import check_file, check_place
from ..language_models.journal import Journal
from ..models.identity import identify
from ..models.trust import add_trust_argument, trust_record
from ..tasks.protocol import AUTO, Protocol, make_protocol
from ..tasks.task import NOWHERE, Task

if TYPE_CHECKING:
    from .load_model import Loader

MODEL = "evenprune.language_models.language_model"
TASKS = "evenprune.tasks"
PACKAGES = ("torch", "transformers", "lm_eval")
# Not part of an evaluation's code: it has the facts of its own task as values.
GIVEN = ("evenprune.config.tasks",)
VERSION = 1  # of records: goes up when a field changes its meaning or is taken away
PARTIAL = "partial.jsonl"  # finished batches of a run that is not finished
# The files of a benchmark, and keys by which they are known as ours.
WRITTEN = {
    METRICS: ("benchmark", "digest", "metrics"),
    ITEMS: ("item_id", "category"),
    PARTIAL: ("key",),
}
# The others are --benchmark, and all metrics are printed.
OPTIONS = tuple(key for key in Protocol.model_fields if key not in ("task", "headline"))


def find(task: str) -> Task:
    """Return what evaluates a task, ``TASK`` of the module of its name.

    Raises UserError for an unknown task.
    """
    if task not in FACTS:
        raise UserError(f"there is no benchmark {task!r}; known are {', '.join(FACTS)}")
    return import_module(f"{TASKS}.{task}").TASK


def judge_identity(spec: Protocol) -> str | None:
    """Return what identifies the judge: a guard model's name and files, or the word list.

    None for tasks without one. Raises UserError where there is no model, or where it is not
    the one that its record describes.
    """
    if spec.task not in JUDGED:
        return None
    if spec.judge is None:
        return f"lexical:{spec.lexicon}"
    return f"{source_name(spec.judge)}@{identify(source_folder(spec.judge)).files_sha256}"


def run_digest(loader: "Loader", data: dict[str, str], spec: Protocol) -> str:
    """Return the identity of a result: model, data, options, versions, the code of both."""
    modules = f"{TASKS}.{spec.task}", MODEL
    return digest(
        {
            "model": loader.identity.files_sha256,
            "data": data,
            # The headline chooses among numbers and changes none; a judge is what it is
            # wherever it lies.
            "spec": {**spec.as_dict(), "headline": None, "judge": judge_identity(spec)},
            "versions": {**package_versions(*PACKAGES), **loader.versions},
            **trust_record(),
            "code": [code_digest(module, GIVEN) for module in modules],
            "facts": decisive(spec.task),
        }
    )


def data_checksums(data: Path, spec: Protocol) -> dict[str, str]:
    """Return the SHA-256 of each file that a benchmark reads, by name.

    Raises UserError if one is missing.
    """
    if not data.exists():
        raise UserError(
            f"expected the data of {spec.task} at {data}, found nothing; check the path"
        )
    files = find(spec.task).data_files(data, spec)
    inside = data.is_dir() and all(path.is_relative_to(data) for path in files)
    return {
        str(path.relative_to(data)) if inside else path.name: sha256_cached(path) for path in files
    }


def check_out(out: Path, inputs: Iterable[Path | str | None]) -> None:
    """Raise UserError unless a benchmark's files may be written into the folder ``out``.

    It is no link and none of the folders among ``inputs``, and files with our names in it are
    ours.
    """
    check_place(out, inputs)
    for name, keys in WRITTEN.items():
        check_file(out / name, keys=keys)


def headline_of(slug: str, spec: Protocol, metrics: Mapping[str, Any]) -> str:
    """Return the metric that stands for a result; raise UserError where the result has none."""
    headline = spec.headline or FACTS[spec.task].headline
    if headline not in metrics:
        raise UserError(
            f"benchmark {slug} has no metric {headline!r} for its headline; it has "
            f"{', '.join(sorted(metrics))}"
        )
    return headline


@dataclass(frozen=True)
class Wanted:
    """One benchmark of a model: its options, data with their checksums, and its digest."""

    slug: str
    spec: Protocol
    data: Path
    loader: "Loader"
    checksums: dict[str, str]
    digest: str


def ask(slug: str, spec: Protocol, data: Path, loader: "Loader") -> Wanted:
    """Return a benchmark of a model; UserError for data and judges that are not there, and for a
    model whose weights or source are damaged."""
    checksums = data_checksums(data, spec)
    digest = run_digest(loader, checksums, spec)
    loader.stored  # noqa: B018  # before anything is scored
    return Wanted(slug, spec, data, loader, checksums, digest)


def run_benchmark(
    wanted: Wanted, out: Path, ending: Callable[[int], None] = lambda count: None
) -> dict[str, Any]:
    """Evaluate one benchmark, write items.jsonl and metrics.json to ``out``, return the latter.

    Equal inputs give equal bytes. Before all items are scored, finished batches are in
    ``out``/partial.jsonl: after a kill the same call resumes there. ``ending`` is called with
    the number of items before metrics.json is there.
    """
    slug, spec, loader = wanted.slug, wanted.spec, wanted.loader
    lm, resolved = loader.load(spec), spec
    if spec.chat_template == AUTO:
        resolved = spec.model_copy(update={"chat_template": bool(lm.tokenizer.chat_template)})
    # Another device rounds otherwise: its batches do not go together with these.
    journal = Journal(out / PARTIAL, f"{wanted.digest} {lm.device_type} {lm.dtype}")
    if journal.count:
        print(f"{slug}: resumes after {journal.count} finished batches", file=sys.stderr)
    losses = lm.bos_losses
    if spec.bos == AUTO:
        lm.bos_note  # noqa: B018  # says it once a model
    scorer = lm.with_bos(spec.bos).with_journal(journal)
    outcome = find(spec.task).evaluate(scorer, wanted.data, resolved)
    options = {**resolved.as_dict(), "judge": judge_identity(spec), "dtype": lm.dtype}
    options["backend"] = "transformers"  # a record of an older version may say vllm
    result = {
        "benchmark": slug,
        "task": spec.task,
        "spec": {**options, "protocol": outcome.facts, **trust_record()},
        "digest": wanted.digest,
        **loader.identity.as_dict(),
        "stored": loader.stored,
        "data": wanted.checksums,
        "headline": headline_of(slug, spec, outcome.metrics),
        "metrics": outcome.metrics,
        "bos_loss": losses and losses.record(),
        "categories": outcome.categories,
        "versions": {**package_versions(*PACKAGES), **loader.versions},
    }
    # The metrics go first and come last: a folder with metrics is a finished one, and they
    # belong to the items beside them.
    (out / METRICS).unlink(missing_ok=True)
    items = out / ITEMS
    count = write_jsonl(items, outcome.items)
    about = {"version": VERSION, "n": count, "sha256": sha256_file(items)}
    result = sealed({**result, "records": about})
    ending(count)
    write_json(out / METRICS, result)
    journal.remove()
    return result


def add_protocol_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``OPTIONS``, those of a benchmark that can change its numbers."""
    add_flags(parser, Asked, *(key for key in OPTIONS if key in Asked.model_fields))
    add_flags(parser, Protocol, "dtype")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where a benchmark runs, which is no part of its options."""
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), help="default: cuda if there is one")
    add("--gpus", type=int, default=1, metavar="N", help="GPUs that hold the model together")
    add_trust_argument(parser)


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


def asked_for(
    task: str, options: Mapping[str, Any], data: Path | str | None = None
) -> tuple[Protocol, Path]:
    """Return the options of a task, None for its default, and the folder or file of its data.

    Where none are given, data are those of ``default_benchmark``, with their split and style.
    Raises UserError for bad options, and where there are none for the task.
    """
    if data is None and task != LM_EVAL:
        entry, data = default_benchmark(task)
        known = {name: options.get(name) or getattr(entry, name) for name in ("split", "style")}
        options = {**options, **known}
    spec = make_protocol({"task": task, **options}, "the command line")
    return spec, NOWHERE if data is None else source_folder(data)


def headline(result: dict) -> str:
    """Return one line about a finished benchmark."""
    name = result["headline"]
    found = result["metrics"][name]
    value = "undefined" if found["value"] is None else f"{found['value']:.4f}"
    return f"{result['benchmark']}: {name} {value} (n = {found['n']})"
