"""Say what of a run is done, running, failed and waiting, and what time and disk are left.

Reads only: the files of the results, the records that steps leave in .provenance, Snakemake's list
of unfinished outputs. It may be called at any time, also while the run goes on, and from elsewhere.
"""

import argparse
import base64
import binascii
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.progress import format_seconds
from ..base.provenance import FAILED, FINISHED, RUNNING, read_record, record_folder, start_ticks
from .config import CATALOGUE, DEFAULT, Config
from .disk import bytes_of, free_bytes, gigabytes
from .forecast import Prices, forecast
from .plan import make_graph, places, read_config
from .rates import read_rates
from .run_sheet import read_run_sheet
from .work import Graph, Job

STATES = ("done", "running", "stopped", "failed", "elsewhere", "begun", "waiting")
MEANS = {
    "stopped": "its process is gone without a word: killed, or the machine went down",
    "elsewhere": "started on another host, where this one cannot see whether it still runs",
    "begun": "Snakemake began or submitted it and it has left no word since: in a queue, about to "
    "start, or cut off",
}
TAIL = 4096  # bytes of a log that its last line is looked for in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--results", type=Path, metavar="DIR", help="of the run; default: the configuration's")
    add("--configfile", type=Path, metavar="FILE",
        help="default: the run sheet of --results, else config/config.yaml")  # fmt: skip
    add("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    add("--cores", type=int, default=os.cpu_count() or 1, metavar="N", help="for the time left")
    add("--gpus", type=int, default=1, metavar="N")
    add("--json", action="store_true")


def run(args: argparse.Namespace) -> None:
    """Print the state of the run."""
    graph = make_graph(_config(args))
    about = status(graph, args.cores, args.gpus)
    print(json.dumps(about, indent=1) if args.json else text(about))


def _config(args: argparse.Namespace) -> Config:
    if args.results is not None and not args.results.is_dir():
        raise UserError(
            f"expected the results of a run at --results {args.results}; check the path"
        )
    if args.configfile is None and args.results is not None:
        sheet = args.results / "run_sheet.json"
        if not sheet.is_file():
            raise UserError(
                f"{sheet} is not there yet, so that the jobs of this run are not known; give its "
                "--configfile"
            )
        return read_run_sheet(sheet).config.model_copy(update={"results": str(args.results)})
    results = None if args.results is None else str(args.results)
    return read_config(args.configfile or DEFAULT, args.catalogue, results)


def status(graph: Graph, cores: int, gpus: int) -> dict[str, Any]:
    """Return the state of every job, and the time and disk that are left."""
    results = Path(graph.config.results)
    begun = unfinished(Path(".snakemake"), results)
    left = graph.left()
    jobs = [_state(graph, job, begun, name in left) for name, job in graph.jobs.items()]
    rates = read_rates(graph, places([results]))
    found = forecast(graph, rates, Prices())
    unknown = sum(found.unmeasured().values())
    seconds = None
    if not found.jobs or any(time.seconds for time in found.times.values()):
        enough = max(gpus, max((job.gpus for job in found.jobs.values()), default=0))
        seconds = round(found.schedule(cores, enough).makespan, 1)
    needed = sum(job.makes for job in left.values() if job.makes > 0)
    return {
        "results": str(results),
        "counts": {state: sum(job["state"] == state for job in jobs) for state in STATES},
        "time_left_seconds": seconds,
        "time_left_without": unknown,
        "disk_used_bytes": bytes_of(results) if results.is_dir() else 0,
        "disk_free_bytes": free_bytes(results),
        "disk_needed_bytes": round(needed),
        "snakemake": _snakemake(Path(".snakemake")),
        "jobs": jobs,
    }


def _state(graph: Graph, job: Job, begun: set[str], is_left: bool) -> dict[str, Any]:
    """Return the state of one job; see ``STATES`` and ``MEANS``."""
    results = Path(graph.config.results)
    folder = record_folder(results, results / job.out)
    running, failed = read_record(folder / RUNNING), read_record(folder / FAILED)
    entry: dict[str, Any] = {"rule": job.rule, "job": job.out}
    if running:
        state = _alive(running)
        since = datetime.now(UTC) - datetime.fromisoformat(running["started"])
        entry |= {"state": state, "host": running["host"], "seconds": since.total_seconds()}
        if state == "stopped":
            entry["last_line"] = _last_line(graph, job)
        return entry
    if failed:
        # The error is one of this step's; where the log has more, its last line says it.
        return entry | {"state": "failed", "last_line": _last_line(graph, job) or failed["error"]}
    if any(file in begun for file in job.files):
        return entry | {"state": "begun"}
    if is_left:
        return entry | {"state": "waiting"}
    finished = read_record(folder / FINISHED) or {}
    told = {name: finished[name] for name in ("seconds", "headline") if finished.get(name)}
    return entry | {"state": "done"} | told


def _alive(record: dict[str, Any]) -> str:
    if record["host"] != platform.node():
        return "elsewhere"
    ticks = start_ticks(record["process"])
    return "running" if ticks is not None and ticks == record["ticks"] else "stopped"


def unfinished(snakemake: Path, results: Path) -> set[str]:
    """Return the outputs, below the results, that Snakemake in this folder has not finished.

    It notes them in ``.snakemake/incomplete`` by name, in base64, long ones in several folders.
    """
    root, found = snakemake / "incomplete", set()
    for path in root.rglob("*") if root.is_dir() else ():
        if path.is_dir():
            continue
        # Of a long name every folder but the last part begins with @.
        name = "".join(part.removeprefix("@") for part in path.relative_to(root).parts)
        try:
            output = base64.b64decode(name, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        inside = os.path.relpath(os.path.abspath(output), os.path.abspath(results))
        found.add(inside)
    return found


def _snakemake(folder: Path) -> str:
    """Return what the lock says: whether a Snakemake works in this folder."""
    locks = folder / "locks"
    if not folder.is_dir():
        return "no Snakemake has run in this folder"
    if locks.is_dir() and any(locks.iterdir()):
        return "a Snakemake holds the lock of this folder, or was killed while it did"
    return "no Snakemake holds the lock of this folder"


def _last_line(graph: Graph, job: Job) -> str:
    """Return the last line of a job's log that is not empty, "" without one."""
    path = log_file(graph, job)
    try:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - TAIL, 0))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def log_file(graph: Graph, job: Job) -> Path:
    """Return the log of a job, as its rule names it."""
    name = {
        "world_model": lambda out: out.removeprefix("world/models"),
        "fetch_dataset": lambda out: out.removeprefix("sources/data").removesuffix(".json"),
        "fetch_model": lambda out: out.removeprefix("sources/models").removesuffix(".json"),
        "build_calibration": lambda out: out.removeprefix("calibration"),
        "prune_uncalibrated": lambda out: out.removeprefix("pruned").replace("/none/", "/"),
        "make_table": lambda out: out.removeprefix("tables"),
        "make_figure": lambda out: out.removeprefix("figures"),
        "evaluate_checkpoint": lambda out: out.removeprefix("evals"),
        "benchmark_serving": lambda out: out.removeprefix("serving"),
        "export_sparse24": lambda out: out.removeprefix("exported"),
    }.get(job.rule)
    if name is None and job.out.startswith("pruned/"):
        inside = job.out.removeprefix("pruned").rpartition("/")[0]
    else:
        inside = name(job.out) if name else ""
    for suffix in ("/model", "/efficiency.json"):
        inside = inside.removesuffix(suffix)
    return Path(f"{graph.config.results}/logs/{job.rule}{inside}.log")


def text(about: dict[str, Any]) -> str:
    """Return the state of a run for people."""
    counts = about["counts"]
    shown = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    lines = [f"{about['results']}: {', '.join(shown) or 'no jobs'}; {about['snakemake']}"]
    for state in STATES[1:-1]:
        jobs = [job for job in about["jobs"] if job["state"] == state]
        if jobs:
            lines.append(f"{state}:" + (f" ({MEANS[state]})" if state in MEANS else ""))
        for job in jobs:
            line = f"  {job['rule']} {job['job']}"
            if "seconds" in job:
                line += f", for {format_seconds(job['seconds'])} on {job['host']}"
            lines.append(line + (f": {job['last_line']}" if job.get("last_line") else ""))
    if about["time_left_seconds"] is None:
        lines.append("time left: unknown, as no such job has finished yet")
    else:
        without = about["time_left_without"]
        lines.append(
            f"time left: about {format_seconds(about['time_left_seconds'])}"
            + (f", without {without} jobs that were never measured" if without else "")
        )
    lines.append(
        f"disk: {gigabytes(about['disk_used_bytes'])} used, {gigabytes(about['disk_needed_bytes'])}"
        f" still to be written for models, {gigabytes(about['disk_free_bytes'])} free"
    )
    lines.append("done means that the files are there; whether they are current: snakemake -n")
    return "\n".join(lines)
