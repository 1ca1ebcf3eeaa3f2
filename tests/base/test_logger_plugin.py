"""The lines that `--logger evenprune` adds, without Snakemake."""

import json
import logging

from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_evenprune import LogHandler, LogHandlerSettings


def emit(handler, **about):
    handler.emit(logging.makeLogRecord(about))


def test_a_line_for_each_step_that_ends(tmp_path):
    (tmp_path / ".provenance").mkdir()
    record = tmp_path / ".provenance/evals/m/provenance.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"seconds": 2.5, "headline": "mmlu acc 0.5", "ticks": 1}))
    path = tmp_path / "steps.jsonl"
    handler = LogHandler(None, LogHandlerSettings(path=str(path)))
    for number, name in ((1, "evals/m/summary.json"), (2, "tables/main.csv")):
        emit(
            handler,
            event=LogEvent.JOB_INFO,
            jobid=number,
            rule_name="a_rule",
            wildcards={"model": "m"},
            output=[str(tmp_path / name)],
            log=["a.log"],
        )
    assert not path.exists()
    emit(handler, event=LogEvent.JOB_FINISHED, job_id=1)
    emit(handler, event=LogEvent.JOB_ERROR, jobid=2)
    emit(handler, event=LogEvent.PROGRESS, done=1, total=2)
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["event"] == "finished"
    assert (first["seconds"], first["headline"]) == (2.5, "mmlu acc 0.5")
    assert first["wildcards"] == {"model": "m"}
    assert (second["event"], second["job"], second["log"]) == ("failed", 2, ["a.log"])
    assert "seconds" not in second
