"""`keep: evals` and `keep: tables`, with Snakemake on the tiny mirror; the lines of a run."""

import copy
import json

import pytest
import yaml

from .conftest import TINY, copy_workflow, counts, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

KEEP = {
    **{name: value for name, value in TINY.items() if name not in ("serving", "figures")},
    "keep": "evals",
    "pdf": False,
    "tables": ["main"],
}
SPARSE, DEBIAS = (
    f"results/tiny/pruned/tiny/{method}/2of4/ss-uc4/s0"
    for method in ("sparsegpt", "debias-sparsegpt")
)


def run(folder, *words, **changes):
    (folder / "keep.yaml").write_text(yaml.safe_dump(changes))
    done = snakemake(folder, *words, "--cores", "2", "--configfile", "keep.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def finished(repo, tiny_mirror, tmp_path_factory):
    """A checkout in which the tiny configuration has run with ``keep: evals``; what it said."""
    folder = copy_workflow(repo, tmp_path_factory.mktemp("keep"))
    config = KEEP | {"mirror": str(tiny_mirror)}
    said = run(folder, "--logger", "evenprune", **config)
    return folder, config, said


def test_checkpoints_are_gone_and_the_next_run_does_nothing(finished):
    folder, config, _ = finished
    for place in (SPARSE, DEBIAS):
        assert not (folder / place / "model").exists()
        assert json.loads((folder / place / "released.json").read_text())["released"]
        assert (folder / place / "check.json").exists()
    assert (folder / DEBIAS / "masks.csv").exists()
    assert "Nothing to be done" in run(folder, **config)


def test_every_step_says_one_line_and_one_object(finished):
    folder, _, said = finished
    lines = [line for line in said.splitlines() if line.startswith("finished: ")]
    assert [line for line in lines if "pruned/tiny/sparsegpt/2of4/ss-uc4/s0/model: 50." in line]
    assert [line for line in lines if "evals/tiny/sparsegpt/" in line and "mmlu acc " in line]
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert {step["event"] for step in steps} == {"finished"}
    pruned = [step for step in steps if step.get("rule") == "prune_model"]
    assert len(pruned) == 2
    assert all(step["seconds"] > 0 and "zeros" in step["headline"] for step in pruned)


def test_a_new_benchmark_restores_exactly_what_it_needs(finished):
    folder, config, _ = finished
    benchmarks = copy.deepcopy(config["benchmarks"])
    benchmarks["crows_pairs"] = {"task": "crows_pairs", "dataset": "crows_pairs", "limit": 6}
    changed = config | {"benchmarks": benchmarks}
    before = (folder / SPARSE / "check.json").stat().st_mtime_ns
    target = f"{SPARSE}/released.json"
    said = run(folder, target, **changed)
    assert "prune_model" not in counts(said)
    assert said.count("pruned again") == 1
    evals = folder / "results/tiny/evals/tiny"
    assert (evals / "sparsegpt/2of4/ss-uc4/s0/crows_pairs/metrics.json").exists()
    assert not (evals / "debias-sparsegpt/2of4/ss-uc4/s0/crows_pairs").exists()
    assert not (folder / SPARSE / "model").exists()
    assert (folder / SPARSE / "check.json").stat().st_mtime_ns == before


def test_what_was_added_to_a_checkpoint_is_never_deleted(finished):
    folder, config, _ = finished
    (folder / SPARSE / "model").mkdir()
    mine = folder / SPARSE / "model/notes.txt"
    mine.write_text("mine")
    (folder / SPARSE / "released.json").unlink()
    (folder / "keep.yaml").write_text(yaml.safe_dump(config))
    words = (f"{SPARSE}/released.json", "--cores", "1", "--configfile", "keep.yaml")
    done = snakemake(folder, *words, "--until", "release_checkpoint")
    assert done.returncode != 0
    assert "manifest.json, found none" in done.stdout + done.stderr
    assert mine.read_text() == "mine"
    mine.unlink()
    mine.parent.rmdir()
