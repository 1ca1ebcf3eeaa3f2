"""The target `serving`: which interpreter measures, and real vLLM where it is installed."""

import json
import shlex
import sys

import pytest
import yaml

from .conftest import copy_workflow, counts, snakemake

pytestmark = pytest.mark.workflow

POINT = yaml.safe_load("""
results: results/served
source: external
benchmarks: {mmlu: {task: mmlu, dataset: mmlu, limit: 12}}
experiments:  # magnitude needs no calibration data: the quickest 2of4 checkpoint there is
  efficiency:
    models: [stories3m]
    methods: [dense, magnitude]
    regimes: [2of4]
    calibrations: [ss]
tables: [efficiency]
figures: []
""")
SERVING = {"experiment": "efficiency", "batch_sizes": [1, 2], "new_tokens": 16, "rounds": 2}
DENSE = "stories3m/dense/dense/none/s0"
PRUNED = "stories3m/magnitude/2of4/none/s0"


@pytest.fixture
def checkout(repo, tmp_path):
    return copy_workflow(repo, tmp_path)


def write(folder, mirror, **serving):
    path = folder / "served.yaml"
    content = {**POINT, "mirror": str(mirror), "serving": {**SERVING, **serving}}
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.slow
def test_vllm_that_is_missing_stops_the_run_before_its_first_job(checkout, tiny_mirror):
    """No silent change to another backend, and nothing computed for nothing."""
    import importlib.util

    if importlib.util.find_spec("vllm"):
        pytest.skip("vLLM is installed in the environment of the tests")
    path = write(checkout, tiny_mirror, backend="vllm")
    done = snakemake(checkout, "serving", "--cores", "2", "--configfile", path)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert output.count("there is no vLLM here; run `make vllm-env`") == 1
    assert "Traceback" not in output
    assert not (checkout / "results").exists()
    # a run that measures nothing does not care
    path = write(checkout, tiny_mirror, backend="vllm", experiment=None)
    assert snakemake(checkout, "evals", "-n", "--configfile", path).returncode == 0


def test_the_configured_interpreter_and_the_export_are_used(checkout, tiny_mirror):
    path = write(checkout, tiny_mirror, python=sys.executable, sparse24=True)
    done = snakemake(checkout, "serving", "-n", "-p", "--configfile", path)
    assert done.returncode == 0, done.stderr
    jobs = counts(done.stdout)
    assert (jobs["benchmark_serving"], jobs["export_sparse24"]) == (1, 1)
    command = f"{shlex.quote(sys.executable)} -m evenprune.steps benchmark-serving"
    assert done.stdout.count(command) == 1
    dense = "results/served/sources/models/stories3m.json"
    assert f"--model {dense} results/served/exported/{PRUNED}" in done.stdout
    assert f"--names {DENSE} {PRUNED}" in done.stdout
    assert "--dtype float32" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("engines", ["together", "in-turn"])
def test_real_vllm_serves_dense_and_pruned(checkout, shared, vllm_python, engines):
    wanted = {"backend": "vllm", "python": vllm_python, "sparse24": True, "engines": engines}
    path = write(checkout, shared, **wanted)
    done = snakemake(checkout, "serving", "--cores", "2", "--configfile", path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    measured = checkout / "results/served/serving/stories3m/efficiency.json"
    whole = json.loads(measured.read_text())
    found = whole["checkpoints"]
    assert set(found) == {DENSE, PRUNED}
    assert (whole["dense"], whole["engines"]["together"]) == (DENSE, engines == "together")
    for content in found.values():
        assert content["backend"]["name"] == "vllm"
        assert content["backend"]["dtype"] == "float32"
        assert content["energy"]["source"] in ("measured", "estimated")
        assert set(content["categories"]) == {"batch 1", "batch 2"}
        assert content["metrics"]["decode_tok_per_s"]["value"] > 0
        assert content["metrics"]["kg_co2e_per_mtok"]["value"] > 0
    assert "Sparse24LinearMethod" in found[PRUNED]["backend"]["linear"]
    if whole["spec"]["device"] == "cpu":
        assert found[PRUNED]["backend"]["kernel"] == "dense kernel"
    again = snakemake(checkout, "serving", "--cores", "2", "--configfile", path)
    assert "Nothing to be done" in again.stdout + again.stderr
