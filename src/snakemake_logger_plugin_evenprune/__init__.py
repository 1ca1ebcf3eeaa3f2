"""``snakemake --logger evenprune``: one line for each finished step, and what a failed one said.

profiles/default asks for it. Snakemake finds logger plugins by the names of modules, so this one
lies beside the package. All that Snakemake would have printed is in its own log below
.snakemake/log. A dry run, --verbose and what is no run (--lint, --report) print as they always do.
"""

import logging
import re
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

WIDTH = 120  # columns of a line, at most
SHOWN = 20  # last lines of a failed step's log
TARGETS = ("all", "default")
# Tracebacks of Snakemake's own, and what is said in their place.
PLAIN = {
    r"(?ms)_load_configfile$.*^FileNotFoundError: .*: '(.*)'$": (
        r"expected a configuration file at \1, found none; check the path"
    ),
    r"(?ms)_update_config$.*^RecursionError: ": (
        "the configuration file is not valid YAML: its aliases (`*name`) have no end; mend them"
    ),
    # A file of a run, such as a step's log, that cannot be written or removed.
    r"(?ms)^Traceback .*^\w*Error: \[Errno \d+\] ([^\n]*): '([^\n]*)'\s*\Z": (
        r"error: \2: \1; mend that and run the same command again"
    ),
}


class LogHandler(LogHandlerBase):
    """Writes to stderr what people want to know of a run."""

    writes_to_stream, writes_to_file = True, False
    has_filter = has_formatter = False  # Snakemake's: --quiet
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Begin with nothing known of the run."""
        from snakemake.logging import ColorizingTextHandler

        asked = self.common_settings
        out = sys.stdout if asked.stdout else sys.stderr
        self.usual = ColorizingTextHandler(asked.nocolor, out)
        self.as_usual = asked.dryrun or asked.verbose or asked.debug_dag
        self.early: list[logging.LogRecord] = []  # what comes before anything is said
        self.spoke = False
        self.stream = logging.StreamHandler()
        self.began, self.done, self.busy = time.monotonic(), 0, 0.0
        self.planned: Counter[str] = Counter()
        self.jobs: dict[int, dict[str, Any]] = {}
        self.took: dict[str, list[float]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Note what is planned and what begins; print what ends, and what is wrong."""
        event, about = getattr(record, "event", None), vars(record)
        for traceback, sentence in PLAIN.items():
            if found := re.search(traceback, record.getMessage()):
                self.say(found.expand(sentence))
                return
        if self.as_usual or record.levelno == logging.WARNING:
            self.usually(record)
            return
        self.early += [record] * (not self.spoke)
        if event == LogEvent.RUN_INFO and not self.planned:
            self.planned = Counter({k: n for k, n in about["stats"].items() if k != "total"})
            self.say(f"{self.planned.total()} steps; all that Snakemake says is in .snakemake/log")
        elif event == LogEvent.JOB_INFO:
            self.jobs[about["jobid"]] = {**about, "since": time.monotonic()}
        elif event == LogEvent.JOB_FINISHED and about["job_id"] in self.jobs:
            self.finished(self.jobs[about["job_id"]])
        elif event == LogEvent.SHELLCMD:  # with --printshellcmds
            self.say(*self.format(record).splitlines())
        elif event == LogEvent.JOB_ERROR:
            self.say(f"FAILED {_words(self.jobs.get(about['jobid'], about))}")
            for log in about["log"] or []:
                lines = (
                    Path(log).read_text(errors="replace").splitlines() if Path(log).exists() else []
                )
                self.say(*lines[-SHOWN:], f"the whole log: {log}")
        elif record.levelno >= logging.ERROR or "Nothing to be done" in record.getMessage():
            message = record.getMessage()
            if not message.startswith("RuleException:\nCalledProcessError"):  # told already
                self.say(*message.splitlines())

    def finished(self, job: dict[str, Any]) -> None:
        """Print the line of a finished step: what it was, its time, the time left."""
        rule, seconds = job["rule_name"], time.monotonic() - job["since"]
        self.done, self.busy = self.done + 1, self.busy + seconds
        self.took.setdefault(rule, []).append(seconds)
        if rule in TARGETS:
            return
        total = self.planned.total()
        place = f"[{self.done:{len(str(total))}}/{total}]"
        from evenprune.io.progress import format_seconds  # not there for a module of a git source

        left, known = self.left()
        eta = f"{'' if known else 'over '}{format_seconds(left)}"
        self.say(f"{place} {_words(job)}  {format_seconds(seconds)}  eta {eta}")

    def left(self) -> tuple[float, bool]:
        """Return the seconds that are left, and whether they are known for most steps.

        A step takes as long as others of its rule did. Where none of its rule has ended, it is
        taken to be as short as the shortest.
        """
        known = {rule: fmean(seconds) for rule, seconds in self.took.items()}
        to_come = self.planned - Counter({rule: len(done) for rule, done in self.took.items()})
        busy = sum(n * known.get(rule, min(known.values())) for rule, n in to_come.items())
        at_once = max(1.0, self.busy / max(1.0, time.monotonic() - self.began))
        sure = sum(n for rule, n in to_come.items() if rule in known or rule in TARGETS)
        return busy / at_once, 2 * sure >= to_come.total()

    def usually(self, record: logging.LogRecord) -> None:
        """Print a record as Snakemake does."""
        self.usual.setFormatter(self.formatter)
        self.usual.emit(record)

    def flush(self) -> None:
        """Print at the end, as Snakemake does, what came where nothing else was said."""
        for record in self.early:
            self.usually(record)
        self.early = []

    def say(self, *lines: str) -> None:
        """Print lines, each folded where it is too long for a terminal."""
        self.early, self.spoke = [], True
        for line in lines:
            folded = textwrap.wrap(line, WIDTH, subsequent_indent="  ")
            text = line if len(line) <= WIDTH else "\n".join(folded)
            self.stream.stream.write(text + "\n")
        self.stream.flush()


def _words(job: dict[str, Any]) -> str:
    """Return a job in words: ``prune smollm2-135m debias-sparsegpt 2of4``."""
    kind = re.sub("^make_|_(model|checkpoint|source)$", "", job["rule_name"])
    wildcards = job.get("wildcards") or {}
    shown = [v for name, v in wildcards.items() if v != "none" and (name, v) != ("seed", "0")]
    return " ".join([kind.replace("_", " "), *dict.fromkeys(shown)])
