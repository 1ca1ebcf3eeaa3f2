"""Snakemake's `--logger evenprune`: one JSON object a line for each finished or failed step.

Snakemake finds logger plugins by the names of modules, so that this one stands beside the package.
An object has ``event`` (``finished``, ``failed``), ``time``, ``rule``, ``wildcards``, ``job``,
``output``, ``log``, and of a finished step ``seconds``, ``cpu_seconds`` and ``headline``, where it
left a record (evenprune/base/provenance.py).
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from logging import LogRecord
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

TOLD = ("seconds", "cpu_seconds", "headline", "host")


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """Settings of the command line, ``--logger-evenprune-path``."""

    path: str = field(
        default="steps.jsonl", metadata={"help": "file that the JSON lines are added to"}
    )


class LogHandler(LogHandlerBase):
    """Adds a line to the file for each step that ends."""

    def __post_init__(self) -> None:
        """Remember the jobs that are begun: what ends names only their number."""
        assert isinstance(self.settings, LogHandlerSettings)
        self.baseFilename = str(Path(self.settings.path).absolute())
        self.begun: dict[int, dict[str, Any]] = {}

    @property
    def writes_to_stream(self) -> bool:
        """It writes no stream."""
        return False

    @property
    def writes_to_file(self) -> bool:
        """It writes a file."""
        return True

    @property
    def has_filter(self) -> bool:
        """It looks at every record itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """It makes its own lines."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It needs no graph."""
        return False

    def emit(self, record: LogRecord) -> None:
        """Note a job that begins; write the line of one that ends."""
        event, about = getattr(record, "event", None), vars(record)
        try:
            if event == LogEvent.JOB_INFO:
                self.begun[about["jobid"]] = _job(about)
            elif event == LogEvent.JOB_FINISHED:
                job = self.begun.get(about["job_id"], {"job": about["job_id"]})
                self._write({"event": "finished", **job, **_told(job.get("output", []))})
            elif event == LogEvent.JOB_ERROR:
                job = self.begun.get(about["jobid"], {"job": about["jobid"]})
                self._write({"event": "failed", **job})
        except Exception:  # a log that cannot be written stops no run
            self.handleError(record)

    def _write(self, entry: dict[str, Any]) -> None:
        entry["time"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        with open(self.baseFilename, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, sort_keys=True) + "\n")


def _job(about: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": about["jobid"],
        "rule": about["rule_name"],
        "wildcards": dict(about["wildcards"] or {}),
        "output": [str(name) for name in about["output"] or []],
        "log": [str(name) for name in about["log"] or []],
    }


def _told(outputs: list[str]) -> dict[str, Any]:
    """Return what the step's own record says; nothing where it left none."""
    # Snakemake loads every plugin before the workflow says which code is its own.
    from evenprune.base.provenance import FINISHED, read_record, record_folder, run_of

    for output in map(Path, outputs):
        results = run_of(output)
        # A command may be given the output itself, its folder, or its name without a suffix.
        for place in (output, output.parent, output.with_suffix("")) if results else ():
            assert results is not None
            record = read_record(record_folder(results, place) / FINISHED)
            if record:
                return {name: record[name] for name in TOLD if record.get(name)}
    return {}
