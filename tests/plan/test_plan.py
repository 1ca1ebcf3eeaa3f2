"""Time, cost and disk of a run before it is made, and its state while it is."""

import base64
import json
import os
import platform
from pathlib import Path

import pytest

from evenprune.base.errors import UserError
from evenprune.base.provenance import (
    FAILED,
    FINISHED,
    RUNNING,
    record_folder,
    recorded,
    start_ticks,
)
from evenprune.cli import main
from evenprune.plan import disk
from evenprune.plan.forecast import Prices, costs, forecast, summary
from evenprune.plan.plan import make_graph, read_config
from evenprune.plan.rates import FLOOR, MEASURED, SCALED, UNMEASURED, read_rates
from evenprune.plan.schedule import simulate
from evenprune.plan.sizes import model_size, read_given
from evenprune.plan.status import log_file, status, unfinished
from evenprune.plan.work import Job

REPO = Path(__file__).resolve().parents[2]


def graph(results, file="world.yaml", **changes):
    config = read_config(REPO / "config" / file, REPO / "config/catalogue.yaml", str(results))
    return make_graph(config.model_copy(update=changes))


def record(results, out, seconds, **more):
    folder = record_folder(Path(results), Path(results) / out)
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "seconds": seconds,
        "cpu_seconds": seconds / 2,
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:01:00+00:00",
        "gpu": None,
        "resumed": False,
    }
    (folder / FINISHED).write_text(json.dumps(found | more))


# The schedule


def chain(name, *needs, **more):
    return Job("rule", name, [name], list(needs), **more)


def test_jobs_wait_for_their_inputs_and_for_what_is_free():
    jobs = {one.out: one for one in (chain("a"), chain("b"), chain("c", "a", "b"))}
    seconds = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert simulate(jobs, seconds, 1, 0).makespan == 6
    both = simulate(jobs, seconds, 2, 0)
    assert both.makespan == 4
    assert both.started == {"a": 0, "b": 0, "c": 3}
    assert both.core_seconds == 6


def test_gpus_are_counted_and_a_job_for_all_cores_runs_alone():
    jobs = {one.out: one for one in (chain("a", gpus=1), chain("b", gpus=1), chain("c", threads=0))}
    seconds = dict.fromkeys("abc", 1.0)
    one, two = simulate(jobs, seconds, 4, 1), simulate(jobs, seconds, 4, 2)
    assert (one.makespan, two.makespan) == (3, 2)
    assert one.gpu_seconds == two.gpu_seconds == 2
    with pytest.raises(ValueError, match="asks for 1 GPUs of 0"):
        simulate(jobs, seconds, 4, 0)


def test_what_is_deleted_lowers_the_peak_of_the_disk():
    kept = {one.out: one for one in (chain("a", makes=5.0), chain("b", "a", makes=5.0))}
    gone = {
        one.out: one
        for one in (
            chain("a", makes=5.0),
            chain("a-", "a", makes=-5.0, priority=1),
            chain("b", "a-", makes=5.0),
        )
    }
    assert simulate(kept, dict.fromkeys(kept, 1.0), 1, 0).peak_bytes == 10
    assert simulate(gone, dict.fromkeys(gone, 1.0), 1, 0).peak_bytes == 5


def test_a_circle_is_an_error():
    jobs = {one.out: one for one in (chain("a", "b"), chain("b", "a"))}
    with pytest.raises(ValueError, match="circle"):
        simulate(jobs, dict.fromkeys(jobs, 1.0), 1, 0)


# Sizes


def test_sizes_come_from_files_then_from_the_name(tmp_path):
    paths = graph(tmp_path).paths
    shipped = model_size(paths, "world")
    assert shipped.basis == "files"
    assert shipped.parameters * 4 < shipped.bytes < shipped.parameters * 4 + 20_000
    paper = graph(tmp_path, "paper.yaml").paths
    assert model_size(paper, "llama3.1-8b-it").parameters == 8e9
    assert model_size(paper, "vicuna1.5-7b").parameters == 7e9
    assert model_size(paper, "phi4-mini-it").basis == "unknown"
    assert model_size(paper, "phi4-mini-it", {"phi4-mini-it": 3.8e9}).bytes == 7.6e9


@pytest.mark.parametrize("text", ["m=", "m=-1", "n=3", "m=nan", "m"])
def test_given_sizes_are_checked(text):
    with pytest.raises(UserError, match="expected --parameters"):
        read_given([text], ["m"])


# Times


def test_nothing_is_known_of_what_was_never_measured(tmp_path):
    run = graph(tmp_path, "paper.yaml")
    found = forecast(run, read_rates(run, [tmp_path]), Prices())
    assert found.device == "cuda"
    row = summary(found, 64, 8, Prices(per_gpu_hour=2.0))
    assert row["makespan_seconds"] is None
    assert row["money"] is None
    assert found.unmeasured()["prune_model"] == 55
    # Proportions need no rate.
    assert 0.1 < row["relative_makespan"] < 0.3


def test_a_floor_is_in_proportion_to_the_assumed_rate(tmp_path):
    run = graph(tmp_path, "paper.yaml")
    rates = read_rates(run, [tmp_path])
    one, two = (forecast(run, rates, Prices(flops=rate)) for rate in (1e14, 2e14))
    name = "pruned/qwen3-8b/sparsegpt/1of4/ss/s0/model"
    assert one.times[name].basis == FLOOR
    assert one.times[name].seconds == pytest.approx(2 * two.times[name].seconds)
    # 2 x 8e9 parameters x 2,106 pairs of 24 tokens
    assert one.times[name].seconds == pytest.approx(2 * 8e9 * 2106 * 24 / 1e14)


def test_a_measured_job_is_taken_as_it_was_and_others_are_scaled(tmp_path):
    run = graph(tmp_path)
    world, small = (f"pruned/{m}/sparsegpt/1of4/ss/s0/model" for m in ("world", "world-small"))
    record(tmp_path, small, 4.0)
    record(tmp_path, "tables/main", 2.0)
    rates = read_rates(run, [tmp_path])
    assert rates.time(run.jobs[small], "cpu").basis == MEASURED
    assert rates.time(run.jobs[small], "cpu").seconds == 4
    scaled = rates.time(run.jobs[world], "cpu")
    assert scaled.basis == SCALED
    ratio = run.jobs[world].work / run.jobs[small].work
    assert ratio > 1.5
    assert scaled.seconds == pytest.approx(4 * ratio)
    assert scaled.stretch == pytest.approx(ratio)
    assert rates.time(run.jobs["tables/main"], "cpu").seconds == 2
    # A GPU was not measured, and a run that went on behind a killed one measures nothing.
    assert rates.time(run.jobs[small], "H").basis == UNMEASURED
    record(tmp_path, small, 1.0, resumed=True)
    assert read_rates(run, [tmp_path]).time(run.jobs[small], "cpu").basis == UNMEASURED


def test_a_run_that_is_planned_by_another_has_its_tokens(tmp_path):
    first, name = tmp_path / "first", "world/ss/s0"
    assumed = graph(tmp_path / "second")
    (first / "calibration" / name).mkdir(parents=True)
    (first / "calibration" / name / "manifest.json").write_text('{"tokens": 7}')
    file, catalogue = REPO / "config/world.yaml", REPO / "config/catalogue.yaml"
    config = read_config(file, catalogue, str(tmp_path / "second"))
    counted = make_graph(config, runs=[first])
    job = "pruned/world/sparsegpt/2of4/ss/s0/model"
    assert counted.jobs[job].work == 7 * counted.sizes["world"].parameters
    assert assumed.jobs[job].work > 1000 * counted.sizes["world"].parameters


def test_two_sizes_make_a_line_with_a_start(tmp_path):
    run = graph(tmp_path)
    small, world = (f"pruned/{m}/wanda/1of4/ss/s0/model" for m in ("world-small", "world"))
    for name in (small, world):
        record(tmp_path, name, 3.0 + run.jobs[name].work * 1e-9)
    rates = read_rates(run, [tmp_path])
    other = Job("prune_model", "x", ["x"], kind="prune wanda/1of4", work=2e10, on_device=True)
    assert rates.time(other, "cpu").seconds == pytest.approx(23)


def test_an_evaluation_is_the_sum_of_its_benchmarks(tmp_path):
    run = graph(tmp_path)
    job = run.jobs["evals/world-small/dense/dense/none/s0"]
    record(tmp_path, job.out, 5.0 + len(job.parts))
    for part in job.parts:
        place = tmp_path / job.out / part.slug
        place.mkdir(parents=True)
        (place / FINISHED).write_text(json.dumps({"seconds": 1.0, "n": 100, "gpu": None}))
    rates = read_rates(run, [tmp_path])
    assert rates.time(job, "cpu").seconds == pytest.approx(5 + len(job.parts))
    # A second run of twice the seconds counts as much as the first.
    second = tmp_path / "second"
    record(second, job.out, 2 * (5.0 + len(job.parts)))
    for part in job.parts:
        place = second / job.out / part.slug
        place.mkdir(parents=True)
        (place / FINISHED).write_text(json.dumps({"seconds": 2.0, "n": 100, "gpu": None}))
    both = read_rates(run, [tmp_path, second])
    assert both.time(job, "cpu").seconds == pytest.approx(1.5 * (5 + len(job.parts)))
    # One benchmark less, of the same checkpoint.
    fewer = Job(**{**vars(job), "parts": job.parts[1:]})
    assert rates.time(fewer, "cpu").seconds == pytest.approx(5 + len(job.parts) - 1)


def test_energy_and_money_only_at_a_price_that_is_told(tmp_path):
    schedule = simulate({"a": chain("a", gpus=1)}, {"a": 7200.0}, 1, 1)
    assert costs(schedule, Prices()) == {"energy_kwh": None, "money": None}
    told = Prices(gpu_watts=500, per_gpu_hour=3.0, per_kwh=0.5)
    assert costs(schedule, told) == {"energy_kwh": 1.0, "money": 6.5}


# The disk, and what a run keeps


def test_a_run_that_does_not_fit_is_refused_in_one_sentence(tmp_path, monkeypatch):
    run = graph(tmp_path, "paper.yaml")
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 100e9)
    with pytest.raises(UserError, match=r"expected \d+\.\d GB of free disk.*keep: evals"):
        disk.check_disk(run, run.left(), 8)
    # One checkpoint alone fits.
    one = run.making({f"{tmp_path}/pruned/qwen3-8b/wanda/1of4/ss/s0/model"})
    assert [job.makes for job in one.values()] == [16e9]
    disk.check_disk(run, one, 8)
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 2e12)
    disk.check_disk(run, run.left(), 8)


# Records and the state of a run


def test_a_step_records_itself_only_in_the_results_of_a_run(tmp_path, capsys):
    with recorded("prune", tmp_path / "alone/model"):
        pass
    assert not list(tmp_path.iterdir())
    (tmp_path / ".provenance").mkdir()
    with recorded("prune", tmp_path / "pruned/model", "cpu", lambda: "50 % zeros"):
        folder = tmp_path / ".provenance/pruned/model"
        assert json.loads((folder / RUNNING).read_text())["process"] == os.getpid()
    found = json.loads((folder / FINISHED).read_text())
    assert found["seconds"] > 0
    assert not found["resumed"]
    assert not (folder / RUNNING).exists()
    assert capsys.readouterr().out.startswith("finished: pruned/model: 50 % zeros, ")
    with pytest.raises(UserError), recorded("prune", tmp_path / "pruned/model"):
        raise UserError("no such file")
    assert json.loads((folder / FAILED).read_text())["error"] == "no such file"
    with recorded("prune", tmp_path / "pruned/model"):
        pass
    assert json.loads((folder / FINISHED).read_text())["resumed"]
    assert not (folder / FAILED).exists()


def note(results, out, name, **content):
    folder = record_folder(results, results / out)
    folder.mkdir(parents=True, exist_ok=True)
    started = {"started": "2026-01-01T00:00:00+00:00", "host": platform.node()}
    (folder / name).write_text(json.dumps(started | content))


def test_the_states_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = Path("results")
    run = graph(results)
    alive = {"process": os.getpid(), "ticks": start_ticks(os.getpid())}
    points = [f"pruned/world/{m}/1of4/ss/s0/model" for m in ("sparsegpt", "wanda", "debias-erase")]
    note(results, points[0], RUNNING, **alive)
    note(results, points[1], RUNNING, **alive | {"ticks": 1})
    note(results, points[2], RUNNING, **alive | {"host": "another"})
    note(results, "world", FAILED, error="the disk is full")
    log = Path("results/logs/generate_world.log")
    log.parent.mkdir()
    log.write_text("a line\nerror: the disk is full\n\n")
    begun = "results/sources/data/mmlu.json"
    incomplete = Path(".snakemake/incomplete")
    incomplete.mkdir(parents=True)
    (incomplete / base64.b64encode(begun.encode()).decode()).touch()
    (results / "sources/data").mkdir(parents=True)
    (results / "sources/data/bbq.json").touch()
    found = status(run, 2, 1)
    states = {job["job"]: job["state"] for job in found["jobs"]}
    assert [states[point] for point in points] == ["running", "stopped", "elsewhere"]
    assert states["sources/data/mmlu.json"] == "begun"
    assert states["sources/data/bbq.json"] == "done"
    assert found["counts"]["failed"] == 1
    failed = next(job for job in found["jobs"] if job["state"] == "failed")
    assert failed["last_line"] == "error: the disk is full"
    assert found["time_left_seconds"] is None
    assert sum(found["counts"].values()) == len(run.jobs)
    assert unfinished(Path("nowhere"), results) == set()


def test_status_and_plan_as_commands(tmp_path, capsys):
    config = str(REPO / "config/world.yaml")
    catalogue = ["--catalogue", str(REPO / "config/catalogue.yaml")]
    words = ["--configfile", config, *catalogue, "--results", str(tmp_path)]
    assert main(["status", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["waiting"] > 100
    assert main(["plan", *words]) == 0
    said = capsys.readouterr().out
    assert "not measured on this device" in said
    assert "makespan unknown" in said
    assert main(["status", "--results", str(tmp_path), *catalogue]) == 2
    assert "give its --configfile" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # nothing was written


def test_logs_are_where_the_rules_put_them(tmp_path):
    run = graph(tmp_path)
    logs = {log_file(run, job).relative_to(tmp_path).as_posix() for job in run.jobs.values()}
    assert {
        "logs/generate_world.log",
        "logs/fetch_dataset/mmlu.log",
        "logs/world_model/world.log",
        "logs/build_calibration/world/ss/s0.log",
        "logs/prune_model/world/sparsegpt/1of4/ss/s0.log",
        "logs/prune_uncalibrated/world/magnitude/1of4/s0.log",
        "logs/check_pruned/world/magnitude/1of4/none/s0.log",
        "logs/evaluate_checkpoint/world/dense/dense/none/s0.log",
        "logs/benchmark_serving/world.log",
        "logs/make_table/main.log",
        "logs/collect_results.log",
    } <= logs
