"""What the workflow promises before any job runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenprune.base.pdf_programs import latex_available

from .conftest import TINY, copy_workflow, counts, snakemake

pytestmark = pytest.mark.workflow
WORLD = ("--configfile", "config/world.yaml")


@pytest.fixture(scope="module")
def clone(repo, tmp_path_factory):
    """The checkout's workflow without results, so that a dry run lists everything."""
    return copy_workflow(repo, tmp_path_factory.mktemp("clone"))


PLANNED = {
    "config": {
        "fetch_dataset": 5, "fetch_model": 1, "build_calibration": 1, "prune_model": 2,
        "evaluate_checkpoint": 3,
    },
    "world": {
        "generate_world": 1, "fetch_dataset": 10, "world_model": 1, "fetch_model": 1,
        "build_calibration": 3, "prune_model": 16, "compare_masks": 1, "evaluate_checkpoint": 17,
        "benchmark_serving": 1, "report_world": 1,
    },
}  # fmt: skip
ONCE = ("write_run_sheet", "list_checkpoints", "collect_results", "make_items", "make_tables")


def planned(name):
    """Return the jobs of a run of a shipped configuration, by rule."""
    pdf = ["make_paper"] if latex_available() else []
    return PLANNED[name] | dict.fromkeys([*ONCE, *pdf], 1)


def without_targets(jobs):
    own = ("default", "all", "total")
    return {rule: count for rule, count in jobs.items() if rule not in own}


@pytest.mark.parametrize("name", PLANNED)
def test_dry_run_of_a_shipped_configuration(clone, name):
    done = snakemake(clone, "-n", "--cores", "2", *(WORLD if name == "world" else ()))
    assert done.returncode == 0, done.stderr
    assert planned(name) == without_targets(counts(done.stdout))


def test_dry_run_of_the_paper_lists_its_67_checkpoints(clone):
    # A process of its own asks: a child's peak begins with that of the process that forks it.
    asks = (
        "import json, resource, subprocess, sys\n"
        "words = [sys.executable, '-m', 'snakemake', '-n', '--configfile', 'config/paper.yaml']\n"
        "with open('planned.txt', 'w') as out:\n"
        "    status = subprocess.call(words, stdout=out, stderr=out)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([status, used.ru_utime + used.ru_stime, used.ru_maxrss]))\n"
    )
    asked = subprocess.run(
        [sys.executable, "-c", asks], cwd=clone, capture_output=True, text=True, check=True
    )
    status, seconds, kilobytes = json.loads(asked.stdout)
    output = (clone / "planned.txt").read_text()
    assert status == 0, output
    assert seconds < 10  # of CPU: what else runs on this machine does not count
    assert kilobytes < 500e3
    jobs = counts(output)
    assert jobs["prune_model"] == 58
    assert jobs["evaluate_checkpoint"] == 67
    assert jobs["compare_masks"] == 1  # that of the experiment masks
    # Nine models and the guard model of the safety benchmarks.
    assert jobs["fetch_model"] == 10
    assert jobs["make_tables"] == 1


def test_a_run_that_does_not_fit_the_disk_stops_before_its_first_job(clone):
    models = {"huge": {"hub": "some/huge", "label": "Huge", "params": "900000B"}}
    grid = {"models": ["huge"], "methods": ["magnitude"], "regimes": ["2of4"]}
    config = {
        **{"source": "external", "models": models, "tables": ["main"], "results": "huge"},
        "benchmarks": {"mmlu": {"task": "mmlu", "dataset": "mmlu"}},
        "experiments": {"main": grid | {"calibrations": ["ss"]}},
    }
    (clone / "huge.yaml").write_text(json.dumps(config))
    words = ("--cores", "1", "--configfile", "huge.yaml")
    done = snakemake(clone, *words)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "GB of free disk for the models that this run still writes" in said
    assert "Traceback" not in said
    assert not list((clone / "huge").glob("*"))


def test_every_job_is_told_its_flags_and_gpus(clone):
    """A model on two GPUs is pruned on one and evaluated on both."""
    options = {"pruning": {"damping": 0.5, "bias_weight": 3.0}, "device": "cuda"}
    options |= {"models": {"smollm2-135m": {"gpus": 2}}}
    options |= {"experiments": {"main": {"models": ["smollm2-135m", "stories260k"]}}}
    (clone / "options.yaml").write_text(json.dumps(options))
    words = ("--until", "evaluate_checkpoint", "--configfile", "config/config.yaml", "options.yaml")
    words = (*words, "--resources", "gpu=4")
    done = snakemake(clone, "-n", "-p", "--cores", "1", *words)
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if "evenprune.steps prune " in line]
    for line in lines:
        assert "--device cuda " in line
        # What a method does not use is not told to it.
        assert ("--damping 0.5 " in line) == ("sparsegpt " in line)
        assert ("--bias-weight 3.0 " in line) == ("debias-sparsegpt " in line)
    # A job's description, then its command: from one rule to the next.
    jobs = re.split(r"(?m)^(?:local)?rule ", done.stdout)[1:]
    seen = set()
    for job in jobs:
        name, gpus = job.split(":")[0], re.search(r"\bgpu=(\d+)", job)
        if name in ("prune_model", "evaluate_checkpoint"):
            model = re.search(r"model=([\w-]+)", job)[1]
            seen.add((name, model, gpus and int(gpus[1]), "--gpus 2 " in job))
    assert seen == {
        ("prune_model", "stories260k", 1, False),
        ("prune_model", "smollm2-135m", 1, False),
        ("evaluate_checkpoint", "smollm2-135m", 2, True),
        ("evaluate_checkpoint", "stories260k", 1, False),
    }


@pytest.mark.parametrize(
    ("selector", "gpu"), [("gpus", "gpu={},"), ("gres:a100", "gpu=0, gres=gpu:a100:{}")]
)
def test_slurm_is_asked_for_gpus_as_the_site_says(clone, selector, gpu):
    site = clone / "profiles/site/config.yaml"
    before = site.read_text()
    site.write_text(before.replace("gpu_selector: gpus", f"gpu_selector: {selector}"))
    profiles = ("--workflow-profile", "profiles/slurm", "--profile", "profiles/site")
    (clone / "two.yaml").write_text("device: cuda\nmodels: {world: {gpus: 2}}\n")
    words = ("--until", "evaluate_checkpoint", *WORLD, "two.yaml")
    done = snakemake(clone, "-n", *profiles, *words)
    site.write_text(before)
    assert done.returncode == 0, done.stdout
    assert all(gpu.format(count) in done.stdout for count in (1, 2))
    assert "gpu=3" not in done.stdout
    assert "mem_mb=16000" in done.stdout


def test_the_slurm_profile_is_not_held_to_one_gpu():
    """As --profile it would be: a workflow profile, profiles/default, wins key by key."""
    from snakemake.cli import get_argument_parser

    def limit(*profiles):
        parsed = get_argument_parser(profiles=list(map(Path, profiles))).parse_args([])
        return parsed.resources["gpu"].value

    folder = Path(__file__).parents[2] / "profiles"
    assert limit(folder / "site", folder / "slurm") == 50
    assert limit(folder / "default") == 1
    assert limit(folder / "slurm", folder / "default") == 1


@pytest.mark.parametrize(("words", "threads"), [((), 4), (("--mode", "remote"), 3)])
def test_a_measurement_has_all_cores_but_those_of_a_node_that_it_did_not_ask_for(
    clone, words, threads
):
    target = "results/world/serving/world/efficiency.json"
    words = ("-n", "--cores", "4", *words, target, *WORLD, "--config", "threads=3")
    done = snakemake(clone, *words)
    assert done.returncode == 0, done.stderr
    job = done.stdout.split("rule benchmark_serving:")[1].split("\nrule ")[0]
    assert f"threads: {threads}\n" in job


def test_masks_without_a_counterpart_are_explained(clone):
    target = "results/world/pruned/world/magnitude/1of4/none/s0/masks.csv"
    done = snakemake(clone, target, "-n", "--cores", "1", *WORLD)
    assert done.returncode != 0
    assert "has no such counterpart of world/magnitude/1of4/none/s0" in done.stdout + done.stderr


def test_config_errors_come_before_the_dag(clone):
    (clone / "twice.yaml").write_text("title: one\ntitle: two\n")
    for words, messages in (
        (
            ("--config", "pruning={damping: -1}", "experimnts={}"),
            ("pruning.damping", "experimnts: unknown key; did you mean 'experiments'?"),
        ),
        (("--configfile", "twice.yaml"), ("the key 'title' on line 2 of",)),
    ):
        done = snakemake(clone, "-n", *words)
        assert done.returncode != 0
        assert all(message in done.stdout for message in messages)
        assert "Traceback" not in done.stdout
    assert not (clone / "results").exists()


@pytest.mark.slow
def test_lint_is_clean(clone):
    done = snakemake(clone, "--lint")
    assert done.returncode == 0, done.stdout + done.stderr


STORAGE = """
from snakemake_interface_storage_plugins.storage_object import StorageObjectRead, StorageObjectWrite
from snakemake_interface_storage_plugins.storage_provider import StorageProviderBase

class StorageObject(StorageObjectRead, StorageObjectWrite):
    pass

class StorageProvider(StorageProviderBase):
    def nothing(self, *words):
        return None

    rate_limiter_key = default_max_requests_per_second = use_rate_limiter = nothing
    example_queries = is_valid_query = classmethod(nothing)
"""


def test_a_storage_plugin_is_refused_before_any_job_is_planned(clone, tmp_path, monkeypatch):
    package = tmp_path / "snakemake_storage_plugin_nowhere"
    package.mkdir()
    (package / "__init__.py").write_text(STORAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ("--default-storage-provider", "nowhere", "--default-storage-prefix", "bucket")
    done = snakemake(clone, "-n", "--cores", "2", *words, fresh=True)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "expected one file system for all jobs, got --default-storage-provider nowhere" in said
    assert not counts(said)


def test_names_that_begin_with_none_are_calibrations(clone, tiny_mirror, write_config):
    experiments = {"main": {**TINY["experiments"]["main"], "calibrations": ["none-ss"]}}
    changes = {"calibrations": {"none-ss": {"pairs": "stereoset"}}, "experiments": experiments}
    path = write_config(clone, tiny_mirror, **changes)
    done = snakemake(clone, "-n", "--cores", "1", "--configfile", path)
    assert done.returncode == 0, done.stderr[-3000:]
    jobs = counts(done.stdout)
    assert (jobs["prune_model"], jobs["build_calibration"]) == (2, 1)


def test_snakemake_without_its_environment_is_one_sentence(clone, monkeypatch):
    fake = clone / "fake"
    fake.mkdir()
    (fake / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "found = metadata.version\n"
        "def version(name):\n"
        "    if name == 'torch':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
        # Nor has it this package: the profile then asks for no logger of it.
        "import pathlib, sys\n"
        "sys.path = [p for p in sys.path if not (pathlib.Path(p) / 'evenprune').is_dir()]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(fake))
    done = snakemake(clone, "-n", fresh=True)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "lacks the Python package torch; build the workflow's environment with" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("words", [("-n",), ("--cores", "1")])
def test_a_configuration_that_is_not_there_is_one_sentence(clone, words):
    done = snakemake(clone, *words, "--configfile", "none.yaml")
    assert done.returncode == 1
    assert "expected a configuration file at none.yaml, found none" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_failed_steps_sentence_stands_alone(clone, tmp_path):
    """Without --logger too, and without the command, whose JSON fills a screen."""
    (tmp_path / "python").write_text("#!/bin/sh\necho error: no such data; exit 2\n")
    (tmp_path / "python").chmod(0o755)
    target = "results/sources/data/bbq.json"
    done = snakemake(clone, "--cores", "1", target, path=str(tmp_path))
    assert done.returncode == 1
    assert "FAILED fetch dataset bbq\nerror: no such data\nthe whole log: " in done.stdout
    assert "{" not in done.stdout


def test_values_within_braces_on_the_command_line_have_their_kinds(clone):
    words = ["--config", "pruning={bias_weight: 4, damping: 0.5}", "check_disk=false"]
    done = snakemake(clone, "-n", "-p", "--until", "prune_model", *words)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "--damping 0.5 " in done.stdout
    assert "--bias-weight 4.0 " in done.stdout
    done = snakemake(clone, "-n", "--config", "pruning={bias_weight: four}")
    assert "pruning.bias_weight: got 'four', expected a number from 0" in done.stdout


def test_a_split_that_only_the_hub_has_is_told_before_the_first_job(clone):
    """The package with CrowS-Pairs has its original pairs alone, not the default ones."""
    (clone / "split.yaml").write_text("benchmarks: {crows_pairs: {split: null}}\n")
    words = ("--configfile", "config/config.yaml", "split.yaml")
    done = snakemake(clone, "-n", "--cores", "1", *words)
    assert "1 sources are missing" in done.stdout
    assert "set split: anonymized in its benchmarks" in done.stdout
    assert "are missing" not in snakemake(clone, "-n", "--cores", "1").stdout
