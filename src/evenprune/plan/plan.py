"""Say how long a run takes, on how many GPUs, what it costs and how much disk it needs.

Reads the configuration's graph of jobs and what finished jobs took (provenance.json of this run's
results and of those of --rates), and simulates the jobs on so many cores and GPUs. A kind of job
that was never measured on the device has no time: --flops-per-second gives a floor for it, the
products of the forward passes alone at a rate that you assume.
"""

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.pdf_programs import latex_available
from ..base.progress import format_seconds
from .config import CATALOGUE, DEFAULT, Config, load_config, read_yaml
from .disk import free_bytes, gigabytes
from .forecast import Forecast, Prices, forecast, is_far, summary
from .paths import Paths
from .rates import MEASURED, SCALED, read_rates
from .sizes import read_given
from .work import Graph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--configfile", type=Path, default=DEFAULT, metavar="FILE")
    add("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    add("--results", metavar="DIR", help="in place of the configuration's results")
    add(
        "--gpus", type=int, nargs="+", default=[1], metavar="N", help="GPUs; several for a row each"
    )
    add("--cores", type=int, default=os.cpu_count() or 1, metavar="N")
    add("--rates", type=Path, nargs="+", default=[], metavar="DIR",
        help="results of further runs whose times count")  # fmt: skip
    add("--whole", action="store_true", help="the whole run, also what is done already")
    add("--parameters", nargs="+", default=[], metavar="MODEL=COUNT",
        help="parameters of models whose size nothing tells")  # fmt: skip
    add("--flops-per-second", type=float, metavar="R",
        help="assumed rate of one device, for a floor where nothing was measured")  # fmt: skip
    add("--gpu-watts", type=float, metavar="W", help="of one GPU in use")
    add("--node-watts", type=float, metavar="W", help="of everything else, while the run goes on")
    add("--price-per-gpu-hour", type=float, metavar="X")
    add("--price-per-kwh", type=float, metavar="X")
    add("--json", action="store_true")


def run(args: argparse.Namespace) -> None:
    """Print the plan."""
    for name in ("cores", "gpus"):
        values = getattr(args, name) if name == "gpus" else [args.cores]
        if min(values) < (name == "cores"):
            raise UserError(f"expected --{name} from {int(name == 'cores')}, got {min(values)}")
    config = read_config(args.configfile, args.catalogue, args.results)
    graph = make_graph(config, args.parameters, args.rates)
    prices = Prices(
        *(args.flops_per_second, args.gpu_watts, args.node_watts),
        *(args.price_per_gpu_hour, args.price_per_kwh),
    )
    for folder in args.rates:
        if not folder.is_dir():
            raise UserError(f"expected the results of a run at --rates {folder}; check the path")
    rates = read_rates(graph, places([Path(config.results), *args.rates]))
    found = forecast(graph, rates, prices, args.whole)
    gpus = args.gpus if config.device == "cuda" else [0]
    rows = [summary(found, args.cores, count, prices) for count in gpus]
    about = _about(graph, found, rows)
    print(json.dumps(about, indent=1) if args.json else _text(args.configfile, about))


def places(folders: Iterable[Path]) -> list[Path]:
    """Return folders without those that are not there or come twice."""
    return list({folder.resolve(): folder for folder in folders if folder.is_dir()}.values())


def read_config(configfile: Path, catalogue: Path, results: str | None = None) -> Config:
    """Return the configuration of a file as Snakemake reads it; UserError where it is no good."""
    given = read_yaml(configfile)
    if results is not None:
        given["results"] = results
    return load_config(given, DEFAULT, catalogue)


def make_graph(
    config: Config, parameters: list[str] | None = None, runs: Sequence[Path] = ()
) -> Graph:
    """Return the jobs of a configuration on this machine (a PDF where a program for it is)."""
    given = read_given(parameters or [], list(config.models))
    return Graph(Paths(config), given, latex_available(), runs)


def _about(graph: Graph, found: Forecast, rows: list[dict[str, Any]]) -> dict[str, Any]:
    bases = found.bases()
    return {
        "results": graph.config.results,
        "device": found.device,
        "jobs": len(graph.jobs),
        "jobs_left": len(found.jobs),
        "rules_left": _counts(job.rule for job in found.jobs.values()),
        "times": dict(sorted(bases.items())),
        "unmeasured": dict(sorted(found.unmeasured().items())),
        "stretch": round(found.stretched(), 2),
        "far": is_far(found),
        "pause_seconds": round(found.pause, 3),
        "cpu_seconds": round(sum(one.cpu_seconds for one in found.times.values()), 1),
        "flops": sum(job.flops for job in found.jobs.values()),
        "sizes": {name: [size.parameters, size.basis] for name, size in graph.sizes.items()},
        "free_disk_bytes": free_bytes(Path(graph.config.results)),
        "rows": rows,
        "by_rule": {
            rule: round(sum(found.times[name].seconds for name in names), 1)
            for rule, names in _by_rule(found).items()
        },
    }


def _by_rule(found: Forecast) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, job in found.jobs.items():
        names.setdefault(job.rule, []).append(name)
    return names


def _counts(words: Iterable[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for word in words:
        counted[word] = counted.get(word, 0) + 1
    return counted


def _text(configfile: Path, about: dict[str, Any]) -> str:
    count = f"{about['jobs_left']} of {about['jobs']} jobs to do"
    lines = [f"{configfile}: {count}, device {about['device']}"]
    lines.append("  " + ", ".join(f"{n} {rule}" for rule, n in about["rules_left"].items()))
    known = {MEASURED: "measured", SCALED: "scaled from other jobs"}
    told = [f"{about['times'][basis]} {words}" for basis, words in known.items()
            if basis in about["times"]]  # fmt: skip
    if about["times"].get("floor"):
        told.append(
            f"{about['times']['floor']} as a floor: forward passes alone at the rate assumed"
        )
    if told:
        lines.append(f"times: {', '.join(told)}")
    if about["far"]:
        lines.append(
            f"  the farthest is scaled to {about['stretch']:.0f} times the work that was measured: "
            "take it for an order of magnitude"
        )
    if about["unmeasured"]:
        rules = ", ".join(f"{count} {rule}" for rule, count in about["unmeasured"].items())
        lines.append(
            f"never measured, taken for nothing: {rules}"
            if about["times"].get("floor")
            else f"not measured on this device, so that there is no time: {rules}; run some of "
            "them, or give --flops-per-second for a floor"
        )
    unknown = [name for name, (_, basis) in about["sizes"].items() if basis == "unknown"]
    if unknown:
        lines.append(f"size unknown (give --parameters NAME=COUNT): {', '.join(unknown)}")
    named = [name for name, (_, basis) in about["sizes"].items() if basis == "name"]
    if named:
        lines.append(f"size by the name alone: {', '.join(named)}")
    lines += [_row(row) for row in about["rows"]]
    free = about["free_disk_bytes"]
    peak = max(row["peak_disk_bytes"] for row in about["rows"])
    lines.append(
        f"peak disk {gigabytes(peak)} in {about['results']}, of {gigabytes(free)} that are free"
    )
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    parts = [f"{row['cores']} cores, {row['gpus']} GPUs:"]
    if row["makespan_seconds"] is None:
        parts.append("makespan unknown")
    else:
        least = "at least " if row["is_floor"] else ""
        parts.append(f"makespan {least}{format_seconds(row['makespan_seconds'])}")
        parts.append(f"({row['gpu_hours']:.2f} GPU hours, {row['core_hours']:.2f} core hours)")
    if row["relative_makespan"] is not None and row["gpus"]:
        parts.append(f"relative {row['relative_makespan']:.3f}")
    for key, words in (("energy_kwh", "{:.3g} kWh"), ("money", "costs {:.2f}")):
        if row[key] is not None:
            parts.append(words.format(row[key]))
    return "  " + ", ".join([parts[0] + " " + parts[1], *parts[2:]])
