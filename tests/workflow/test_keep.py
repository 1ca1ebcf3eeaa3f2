"""`keep: evals`, with Snakemake on the tiny mirror; the lines of a run."""

import copy
import re

import pytest
import yaml

from .conftest import TINY, copy_workflow, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

KEEP = {
    **{name: value for name, value in TINY.items() if name not in ("serving", "figures")},
    "keep": "evals",
    "pdf": False,
    "tables": ["main", "masks"],
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
    return folder, config, run(folder, **config)


def test_checkpoints_are_gone_and_the_next_run_does_nothing(finished):
    folder, config, _ = finished
    for place in (SPARSE, DEBIAS):
        assert not (folder / place / "model").exists()
        assert (folder / place / "check.json").exists()
    assert (folder / DEBIAS / "masks.csv").exists()
    assert "Nothing to be done" in run(folder, **config)


def test_every_step_says_one_line(finished):
    """Without any option, and all of Snakemake's own words are in a file."""
    folder, _, said = finished
    lines = said.splitlines()
    assert max(map(len, lines)) <= 120
    steps = [line for line in lines if re.match(r"\[ ?\d+/\d+\] ", line)]
    assert len(lines) < len(steps) + 10
    pattern = r"\[ ?\d+/\d+\] {}  \d+ s  eta \d+ (s|min)"
    for words in ("prune tiny sparsegpt 2of4 ss-uc4  50.00% zeros", "table main"):
        assert [line for line in steps if re.fullmatch(pattern.format(words), line)], said
    assert [line for line in steps if " evaluate tiny sparsegpt" in line and "mmlu acc " in line]
    log = min((folder / ".snakemake/log").glob("*.log"))
    assert "Finished jobid: " in log.read_text()


def test_a_new_benchmark_prunes_again_exactly_what_it_needs(finished):
    folder, config, _ = finished
    benchmarks = copy.deepcopy(config["benchmarks"])
    benchmarks["crows_pairs"] = {"task": "crows_pairs", "dataset": "crows_pairs", "limit": 6}
    check = folder / SPARSE / "check.json"
    before = check.read_bytes()
    target = f"{SPARSE.replace('pruned', 'evals')}/summary.json"
    said = run(folder, target, **config | {"benchmarks": benchmarks})
    assert said.count("] prune ") == 1
    assert check.read_bytes() == before
    evals = folder / "results/tiny/evals/tiny"
    assert (evals / "sparsegpt/2of4/ss-uc4/s0/crows_pairs/metrics.json").exists()
    assert not (evals / "debias-sparsegpt/2of4/ss-uc4/s0/crows_pairs").exists()
    assert not (folder / SPARSE / "model").exists()
