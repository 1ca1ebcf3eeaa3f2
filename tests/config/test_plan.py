"""Time and disk of a run before it is made, and the records that its steps leave."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from evenprune.config import plan
from evenprune.config.config import DEFAULT, load_config
from evenprune.config.paths import Paths
from evenprune.io.errors import UserError
from evenprune.io.marks import PRUNED, mark_folder
from evenprune.io.provenance import BEGUN, FINISHED, record_folder, recorded
from evenprune.io.yamlfile import read_yaml

REPO = Path(__file__).resolve().parents[2]


def run(results, file="world.yaml", **changes):
    given = read_yaml(REPO / "config" / file) | {"results": str(results)}
    config = load_config(given, DEFAULT, REPO / "config/catalogue.yaml")
    return Paths(config.model_copy(update=changes))


def record(results, out, seconds, **more):
    folder = record_folder(Path(results), Path(results) / out)
    folder.mkdir(parents=True, exist_ok=True)
    found = {"seconds": seconds, "cpu_seconds": seconds / 2, "gpu": None, "resumed": False}
    found |= dict.fromkeys(("started", "finished"), "2026-01-01T00:00:00+00:00")
    (folder / FINISHED).write_text(json.dumps(found | more))


def test_times_are_measured_or_scaled_or_unknown(tmp_path):
    said = "\n".join(plan.plan(run(tmp_path, "paper.yaml"), [tmp_path]))
    assert "  9 prune wanda, ss: time unknown (9 unknown)\n" in said
    assert sum(map(int, re.findall(r"(?m)^  (\d+) evaluate, ", said))) == 67
    assert sum(map(int, re.findall(r"(?m)^  (\d+) prune ", said))) == 58
    assert "size unknown (give params in their entries): llama-guard3-1b" in said
    world, small = (f"pruned/{m}/sparsegpt/1of4/ss/s0/model" for m in ("world", "smollm2-135m"))
    grids = run(tmp_path).config.experiments
    both = grids["main"].model_copy(update={"models": ["world", "smollm2-135m"]})
    paths = run(tmp_path, experiments={**grids, "main": both})
    jobs = {job.out: job for job in plan.long_jobs(paths)}

    def known(job, *folders, device="cpu"):
        of = Paths(paths.config.model_copy(update={"device": device}))
        folders = folders or [tmp_path]
        return plan.seconds(jobs[job], [plan.measured_seconds(of, one) for one in folders])

    record(tmp_path, small, 4.0)
    assert known(small) == (4, "measured")
    seconds, basis = known(world)
    assert basis == "scaled"
    assert seconds == pytest.approx(4 * jobs[world].size / jobs[small].size)
    # A GPU was not measured; a run that resumed measures nothing; this run comes before --rates.
    assert known(small, device="cuda") == (0, "unknown")
    record(tmp_path / "second", small, 8.0)
    assert known(small, tmp_path, tmp_path / "second") == (4, "measured")
    record(tmp_path, small, 1.0, resumed=True)
    assert known(small) == (0, "unknown")
    assert known(small, tmp_path, tmp_path / "second") == (8, "measured")


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


def test_files_of_the_user_in_a_folder_stop_the_run_that_would_delete_it(tmp_path):
    """Snakemake removes such a folder before prune could refuse."""
    folder = tmp_path / "pruned/model"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"")
    mark_folder(folder, PRUNED)
    makes = SimpleNamespace(output=[folder], input=[])
    reads = SimpleNamespace(output=[], input=[folder])
    paths = run(tmp_path, check_disk=False)
    plan.check_before(paths, [makes, reads])
    (folder / "notes.txt").write_text("mine")
    for jobs, changes in (([makes], {}), ([reads], {"keep": "evals"})):
        with pytest.raises(UserError, match=r"files were added \(notes.txt\).* move them away"):
            plan.check_before(run(tmp_path, check_disk=False, **changes), jobs)
    plan.check_before(paths, [reads])


# Records


def test_a_step_records_itself_only_in_the_results_of_a_run(tmp_path):
    with recorded("prune", tmp_path / "alone/model"):
        pass
    assert not list(tmp_path.iterdir())
    (tmp_path / ".provenance").mkdir()
    with recorded("prune", tmp_path / "pruned/model", "cpu"):
        folder = tmp_path / ".provenance/pruned/model"
        assert json.loads((folder / BEGUN).read_text())["command"] == "prune"
    found = json.loads((folder / FINISHED).read_text())
    assert found["seconds"] > 0
    assert not found["resumed"]
    assert not (folder / BEGUN).exists()
    with pytest.raises(UserError), recorded("prune", tmp_path / "pruned/model"):
        raise UserError("no such file")
    with recorded("prune", tmp_path / "pruned/model"):
        pass
    assert json.loads((folder / FINISHED).read_text())["resumed"]
    assert not (folder / BEGUN).exists()
