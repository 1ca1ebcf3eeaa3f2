"""Time and disk of a run before it is made, and the records that its steps leave."""

import json
from pathlib import Path

import pytest

from evenprune.base.errors import UserError
from evenprune.base.provenance import BEGUN, FINISHED, record_folder, recorded
from evenprune.cli import main
from evenprune.plan import plan
from evenprune.plan.flops import long_jobs
from evenprune.plan.paths import Paths
from evenprune.plan.sizes import model_size, read_given

REPO = Path(__file__).resolve().parents[2]


def run(results, file="world.yaml", **changes):
    config = plan.read_config(REPO / "config" / file, REPO / "config/catalogue.yaml", str(results))
    return Paths(config.model_copy(update=changes))


def planned(results, file="world.yaml", **words):
    paths = run(results, file)
    return plan.plan(paths, plan.model_sizes(paths), **words)


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


# Sizes


def test_sizes_come_from_files_then_from_the_name(tmp_path):
    paths = run(tmp_path)
    shipped = model_size(paths, "world")
    assert shipped.basis == "files"
    assert shipped.parameters * 4 < shipped.bytes < shipped.parameters * 4 + 20_000
    paper = run(tmp_path, "paper.yaml")
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
    found = planned(tmp_path, "paper.yaml")
    assert found["seconds"] == 0
    assert found["kinds"]["prune wanda"]["basis"] == {"unknown": 9}
    pruned = [row["jobs"] for kind, row in found["kinds"].items() if kind.startswith("prune")]
    assert sum(pruned) == 58
    assert found["kinds"]["evaluate"]["jobs"] == 67


def test_a_floor_is_in_proportion_to_the_assumed_rate(tmp_path):
    one, two = (planned(tmp_path, "paper.yaml", flops_per_second=r) for r in (1e14, 2e14))
    assert one["kinds"]["prune wanda"]["basis"] == {"floor": 9}
    assert one["seconds"] == pytest.approx(2 * two["seconds"])
    paths = run(tmp_path, "paper.yaml")
    jobs = {job.out: job for job in long_jobs(paths, plan.model_sizes(paths))}
    # 2 x 8e9 parameters x 2,106 pairs of 24 tokens
    flops = jobs["pruned/qwen3-8b/sparsegpt/1of4/ss/s0/model"].flops
    assert flops == pytest.approx(2 * 8e9 * 2106 * 24)


def test_a_measured_job_is_taken_as_it_was_and_others_are_scaled(tmp_path):
    world, small = (f"pruned/{m}/sparsegpt/1of4/ss/s0/model" for m in ("world", "world-small"))
    record(tmp_path, small, 4.0)
    paths = run(tmp_path)
    jobs = {job.out: job for job in long_jobs(paths, plan.model_sizes(paths))}
    measured = plan._measured(jobs.values(), [tmp_path], False)
    assert plan._time(jobs[small], jobs.values(), measured, None) == (4, "measured")
    seconds, basis = plan._time(jobs[world], jobs.values(), measured, None)
    assert basis == "scaled"
    assert seconds == pytest.approx(4 * jobs[world].flops / jobs[small].flops)
    # A GPU was not measured, and a run that went on behind a killed one measures nothing.
    assert plan._measured(jobs.values(), [tmp_path], True) == {}
    record(tmp_path, small, 1.0, resumed=True)
    assert plan._measured(jobs.values(), [tmp_path], False) == {}
    # A second run counts as much as the first.
    record(tmp_path, small, 4.0)
    record(tmp_path / "second", small, 8.0)
    both = plan._measured(jobs.values(), [tmp_path, tmp_path / "second", tmp_path], False)
    assert both == {small: 6}


def test_what_is_there_is_not_left(tmp_path):
    paths = run(tmp_path)
    for point in paths.checkpoints:
        Path(paths.folder(point)).mkdir(parents=True, exist_ok=True)
        Path(paths.evaluation(point)).mkdir(parents=True)
    assert set(planned(tmp_path)["kinds"]) == {"evaluate", "serve"}
    for point in paths.checkpoints[1:]:
        Path(paths.evaluation(point), "summary.json").touch()
    assert planned(tmp_path)["kinds"]["evaluate"]["jobs"] == 1
    assert planned(tmp_path, whole=True)["kinds"]["evaluate"]["jobs"] == len(paths.checkpoints)


# The disk


def test_a_run_that_does_not_fit_is_refused_in_one_sentence(tmp_path, monkeypatch):
    paths = run(tmp_path, "paper.yaml")
    outputs = {paths.folder(point) for point in paths.checkpoints if not point.is_base}
    monkeypatch.setattr(plan, "free_bytes", lambda folder: 100e9)
    with pytest.raises(UserError, match=r"expected \d+\.\d GB of free disk.*keep: evals"):
        plan.check_disk(paths, outputs)
    # One checkpoint alone fits, or two with all others deleted in turn.
    plan.check_disk(paths, {f"{tmp_path}/pruned/qwen3-8b/wanda/1of4/ss/s0/model"})
    plan.check_disk(run(tmp_path, "paper.yaml", keep="evals"), outputs)
    monkeypatch.setattr(plan, "free_bytes", lambda folder: 2e12)
    plan.check_disk(paths, outputs)


# Records


def test_a_step_records_itself_only_in_the_results_of_a_run(tmp_path, capsys):
    with recorded("prune", tmp_path / "alone/model"):
        pass
    assert not list(tmp_path.iterdir())
    (tmp_path / ".provenance").mkdir()
    with recorded("prune", tmp_path / "pruned/model", "cpu", lambda: "50 % zeros"):
        folder = tmp_path / ".provenance/pruned/model"
        assert json.loads((folder / BEGUN).read_text())["command"] == "prune"
    found = json.loads((folder / FINISHED).read_text())
    assert found["seconds"] > 0
    assert not found["resumed"]
    assert not (folder / BEGUN).exists()
    assert capsys.readouterr().out.startswith("finished: pruned/model: 50 % zeros, ")
    with pytest.raises(UserError), recorded("prune", tmp_path / "pruned/model"):
        raise UserError("no such file")
    with recorded("prune", tmp_path / "pruned/model"):
        pass
    assert json.loads((folder / FINISHED).read_text())["resumed"]
    assert not (folder / BEGUN).exists()


def test_plan_as_a_command(tmp_path, capsys):
    catalogue = ["--catalogue", str(REPO / "config/catalogue.yaml")]
    words = ["--configfile", str(REPO / "config/world.yaml"), *catalogue]
    assert main(["plan", *words, "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "never measured on this device" in said
    assert "26 evaluate: " in said
    assert not list(tmp_path.iterdir())  # nothing was written
