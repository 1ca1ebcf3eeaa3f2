"""Run several benchmarks on one model with one model load, and only those not yet done.

--benchmarks is JSON text: {slug: {"task": ..., "data": folder, further options}}. Each
benchmark gets DIR/<slug>/metrics.json and items.jsonl. A benchmark whose model, data, options
and code are those of the result that is there is not run again, so adding one evaluates that
one, and a killed run goes on where it stopped. DIR/summary.json lists exactly the benchmarks
asked for.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import read_json, source_folder, write_json
from .benchmarks import (
    ITEMS,
    METRICS,
    data_checksums,
    headline_of,
    model_identity,
    run_benchmark,
    run_digest,
)
from .command import add_run_arguments, headline, quiet_libraries
from .loading import Loader
from .spec import Spec, make_spec

SUMMARY = "summary.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face model folder")
    parser.add_argument("--benchmarks", required=True, help="benchmarks as JSON text")
    parser.add_argument("--out", type=Path, required=True, help="folder for all results")
    add_run_arguments(parser)


def parse_benchmarks(text: str) -> dict[str, tuple[Spec, Path]]:
    """Return slug -> (options, data folder) from JSON text; raise UserError for bad input."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"--benchmarks is not JSON: {error}") from None
    if not isinstance(given, dict) or not given:
        raise UserError("--benchmarks must be a JSON object with one benchmark at least")
    parsed = {}
    for slug, options in given.items():
        if not isinstance(options, dict) or "data" not in options:
            raise UserError(f"benchmark {slug} must be a JSON object with the key data")
        rest = {key: value for key, value in options.items() if key != "data"}
        spec = make_spec(rest, f"benchmark {slug}")
        parsed[slug] = (spec, source_folder(options["data"]))
    return parsed


def finished(folder: Path, digest: str) -> dict[str, Any] | None:
    """Return the metrics in ``folder`` if they are complete and have this digest."""
    if not (folder / METRICS).is_file() or not (folder / ITEMS).is_file():
        return None
    try:
        result = read_json(folder / METRICS)
    except UserError:
        return None
    return result if isinstance(result, dict) and result.get("digest") == digest else None


def run(args: argparse.Namespace) -> None:
    """Evaluate what is missing and write the summary."""
    quiet_libraries()
    benchmarks = parse_benchmarks(args.benchmarks)
    model = source_folder(args.model)
    identity = model_identity(model)
    # All data and judges are looked at before the first benchmark starts: a missing file shows
    # at once.
    checksums = {slug: data_checksums(data, spec) for slug, (spec, data) in benchmarks.items()}
    summary = {}
    with Loader(model, args.device, args.serving_python) as loader:
        digests = {
            slug: run_digest(identity, checksums[slug], spec, loader.versions(spec))
            for slug, (spec, _) in benchmarks.items()
        }
        for slug, (spec, data) in benchmarks.items():
            result = finished(args.out / slug, digests[slug])
            if result is None:
                result = run_benchmark(
                    loader.load(spec), slug, spec, data, checksums[slug], identity, args.out / slug
                )
                print(headline(result), flush=True)
            else:
                print(f"{slug}: done before, kept", flush=True)
            summary[slug] = {
                "task": spec.task,
                "digest": digests[slug],
                "headline": headline_of(slug, spec, result["metrics"]),
                "metrics": result["metrics"],
            }
    write_json(args.out / SUMMARY, {"model_sha256": identity, "benchmarks": summary})
