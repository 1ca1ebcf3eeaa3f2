"""Run several benchmarks on one model with one model load, and only those not yet done.

--benchmarks is JSON text: {slug: {"task": ..., "data": folder, further options}}. Each
benchmark gets DIR/<slug>/metrics.json and items.jsonl. A benchmark whose model, data, options
and code are those of the result that is there is not run again, so adding one evaluates that
one, and a killed run goes on where it stopped. DIR/<slug>/provenance.json has the seconds that it
took. DIR/summary.json lists exactly the benchmarks asked for.
"""

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.finished import ITEMS, METRICS, SUMMARY, read_result
from ..config.tasks import LM_EVAL
from ..data.hub_models import located
from ..io.checksums import sealed, sha256_cached, source_folder
from ..io.errors import UserError
from ..io.files import write_json
from ..io.outputs import check_file, check_place
from ..io.provenance import FINISHED, cpu_seconds, machine, read_record
from ..io.reading import parse_json
from ..tasks.protocol import Protocol, make_protocol
from ..tasks.task import NOWHERE
from .benchmarks import (
    PARTIAL,
    Wanted,
    add_run_arguments,
    ask,
    check_out,
    headline,
    headline_of,
    quiet_libraries,
    run_benchmark,
)
from .load_model import Loader

# Among the keys of a benchmark's provenance.json.
TIMED = ("seconds", "cpu_seconds", "n")
# As in the configuration: a name becomes a folder.
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face model folder")
    parser.add_argument("--benchmarks", required=True, help="benchmarks as JSON text")
    parser.add_argument("--out", type=Path, required=True, help="folder for all results")
    add_run_arguments(parser)


def parse_benchmarks(text: str) -> dict[str, tuple[Protocol, Path]]:
    """Return slug -> (options, data folder) from JSON text; raise UserError for bad input."""
    given = parse_json(text, "--benchmarks")
    if not isinstance(given, dict) or not given:
        raise UserError("--benchmarks must be a JSON object with one benchmark at least")
    parsed = {}
    for slug, options in given.items():
        if not SLUG.fullmatch(slug) or slug == SUMMARY:
            raise UserError(
                f"expected the name of a benchmark to be lower-case letters, digits, '-', '_' "
                f"and '.', as it names its folder, got {slug!r} in --benchmarks; rename it"
            )
        if not isinstance(options, dict) or not isinstance(options.get("data", ""), str):
            raise UserError(f"benchmark {slug} must be a JSON object, with a path as its data")
        data = options.pop("data", None)
        spec = make_protocol(options, f"benchmark {slug}")
        if data is None and spec.task != LM_EVAL:
            raise UserError(f"the benchmark {slug} needs its data: give it the key data")
        parsed[slug] = (spec, NOWHERE if data is None else source_folder(data))
    return parsed


def finished(folder: Path, digest: str, device: str | None) -> dict[str, Any] | None:
    """Return the metrics in ``folder`` if they are complete, of this digest and of ``device``.

    ``device`` is the one that was asked for, None: any. Metrics that were changed, or whose records
    were, are said to be and not returned.
    """
    if not (folder / METRICS).is_file() or not (folder / ITEMS).is_file():
        return None
    try:
        result = read_result(folder)
    except UserError as error:
        print(f"{folder.name}: computed again, for {str(error).partition('; ')[0]}", flush=True)
        return None
    if result.get("digest") != digest:
        return None
    record = read_record(folder / FINISHED)
    made = record.device.partition(":")[0] if record else device
    if device and made != device:
        print(f"{folder.name}: computed again on {device}, before it was on {made}", flush=True)
        return None
    return result


def run(args: argparse.Namespace) -> None:
    """Evaluate what is missing and write the summary."""
    quiet_libraries()
    benchmarks = parse_benchmarks(args.benchmarks)
    with located(args.model, trust=args.trust_remote_code) as (model,):
        folder = source_folder(model)
        loader = Loader(folder, args.device, args.gpus)
        evaluate_all(loader, benchmarks, args.out, [model, folder])


def evaluate_all(
    loader: Loader,
    benchmarks: Mapping[str, tuple[Protocol, Path]],
    out: Path,
    inputs: Sequence[Path],
) -> None:
    """Evaluate on each benchmark by its name what is not in ``out``; write the summary there."""
    check_place(out, inputs)
    check_file(out / SUMMARY, keys=("model_sha256", "benchmarks"))
    for slug, (spec, data) in benchmarks.items():
        check_out(out / slug, [*inputs, data, spec.judge])
        check_file(out / slug / FINISHED, keys=TIMED)
    summary = {}
    with loader:
        # All data and judges are looked at before the first benchmark starts.
        asked = {slug: ask(slug, *given, loader) for slug, given in benchmarks.items()}
        for slug, wanted in asked.items():
            result = take_or_run(wanted, out / slug)
            summary[slug] = {
                "task": wanted.spec.task,
                "digest": wanted.digest,
                "headline": headline_of(slug, wanted.spec, result["metrics"]),
                "metrics": result["metrics"],
                "metrics_sha256": sha256_cached(out / slug / METRICS),
            }
    write_json(out / SUMMARY, sealed({**loader.identity.as_dict(), "benchmarks": summary}))


def take_or_run(wanted: Wanted, folder: Path) -> dict[str, Any]:
    """Return the metrics of a benchmark in ``folder``: as they are there, or new.

    The model is loaded in the last case only.
    """
    loader = wanted.loader
    result = finished(folder, wanted.digest, loader.device)
    if result is None:
        device = loader.load(wanted.spec).device_type
        resumed = (folder / PARTIAL).exists()
        started, used = time.monotonic(), cpu_seconds()

        def ending(count: int) -> None:
            # Before the metrics: with them the benchmark is done and nothing is written any more.
            about = {
                "seconds": round(time.monotonic() - started, 3),
                "cpu_seconds": round(cpu_seconds() - used, 3),
                "n": count,
                "resumed": resumed,
            }
            write_json(folder / FINISHED, about | machine(device))

        result = run_benchmark(wanted, folder, ending)
        print(headline(result), flush=True)
    else:
        print(f"{wanted.slug}: done before, kept", flush=True)
        (folder / PARTIAL).unlink(missing_ok=True)  # of a run that was killed right before
    return result
