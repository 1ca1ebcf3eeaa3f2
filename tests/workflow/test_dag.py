"""What the workflow promises before any job runs."""

import json
import re

import pytest

from evenprune.io.pdf_programs import latex_available

from .conftest import copy_workflow, counts, snakemake

pytestmark = pytest.mark.workflow
WORLD = ("--configfile", "config/world.yaml")


@pytest.fixture(scope="module")
def clone(repo, tmp_path_factory):
    """The checkout's workflow without results, so that a dry run lists everything."""
    return copy_workflow(repo, tmp_path_factory.mktemp("clone"))


PLANNED = {
    "config": dict(fetch_source=6, build_calibration=1, prune_model=3, evaluate_checkpoint=4),
    "world": dict(
        generate_world=1, fetch_source=11, world_model=1, build_calibration=3, prune_model=15,
        compare_masks=1, evaluate_checkpoint=16, benchmark_serving=1, report_world=1,
    ),
}  # fmt: skip
ONCE = ("write_run_sheet", "collect_results", "make_items", "make_tables")


def planned(name):
    """Return the jobs of a run of a shipped configuration, by rule."""
    return PLANNED[name] | dict.fromkeys([*ONCE, *["make_paper"] * latex_available()], 1)


@pytest.mark.parametrize("name", PLANNED)
def test_dry_run_of_a_shipped_configuration(clone, name):
    done = snakemake(clone, "-n", "--cores", "2", *(WORLD if name == "world" else ()))
    assert done.returncode == 0, done.stderr
    assert planned(name) == counts(done.stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "models={smollm2-135m: {params: 900000B}}"), "GB of free disk for the model"),
        (("--config", "pruning={damping: -1}"), "pruning.damping"),
        (("--configfile", "none.yaml"), "a configuration file at none.yaml, found none"),
        (("--configfile", "twice.yaml"), "the key 'title'"),
        (("--configfile", "cycle.yaml"), "its aliases (`*name`) have no end"),
        (("--config", "results=Snakefile/x"), "error: Snakefile: Not a directory; mend that"),
    ],
    ids=["disk", "keys", "none", "twice", "cycle", "system"],
)
def test_what_is_wrong_is_said_before_the_first_job(clone, words, message):
    (clone / "twice.yaml").write_text("title: one\ntitle: two\n")
    (clone / "cycle.yaml").write_text("models: &a {m: *a}\n")
    done = snakemake(clone, "--cores", "1", *words)
    assert done.returncode != 0
    assert message in " ".join(done.stdout.split())  # where lines break depends on the path
    assert "Traceback" not in done.stdout
    assert not (clone / "results").exists()


def test_every_job_is_told_its_flags_and_gpus(clone):
    """A model on two GPUs is pruned on one and evaluated on both."""
    options = {"pruning": {"damping": 0.5}, "device": "cuda"}
    options |= {"models": {"smollm2-135m": {"gpus": 2}}}
    options |= {"experiments": {"main": {"models": ["smollm2-135m", "stories260k"]}}}
    (clone / "options.yaml").write_text(json.dumps(options))
    words = ("--until", "evaluate_checkpoint", "--configfile", "config/config.yaml", "options.yaml")
    done = snakemake(clone, "-n", "-p", "--cores", "1", "--resources", "gpu=4", *words)
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if "evenprune.steps prune " in line]
    for line in lines:
        assert "--device cuda " in line
        assert ("--damping 0.5 " in line) == ("sparsegpt " in line)  # magnitude does not use it
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


def test_slurm_is_asked_for_gpus_as_the_site_says(clone):
    site = clone / "profiles/site/config.yaml"
    before = site.read_text()
    site.write_text(before.replace("gpu_selector: gpus", "gpu_selector: gres:a100"))
    profiles = ("--workflow-profile", "profiles/slurm", "--profile", "profiles/site")
    (clone / "two.yaml").write_text("device: cuda\nmodels: {world: {gpus: 2}}\n")
    done = snakemake(clone, "-n", *profiles, "--until", "evaluate_checkpoint", *WORLD, "two.yaml")
    site.write_text(before)
    assert done.returncode == 0, done.stdout
    assert all(f"gpu=0, gres=gpu:a100:{count}" in done.stdout for count in (1, 2))
    assert "mem_mb=16000" in done.stdout


def test_a_measurement_has_the_cores_of_a_node_that_it_asked_for(clone):
    target = "results/world/serving/world/efficiency.json"
    words = ("-n", "--cores", "4", "--mode", "remote", target, *WORLD, "--config", "threads=3")
    done = snakemake(clone, *words)
    assert done.returncode == 0, done.stderr
    job = done.stdout.split("rule benchmark_serving:")[1].split("\nrule ")[0]
    assert "threads: 3\n" in job


def test_a_failed_steps_sentence_stands_alone(clone, tmp_path):
    """Without --logger too, and without the command, whose JSON fills a screen."""
    (tmp_path / "python").write_text("#!/bin/sh\necho error: no such data; exit 2\n")
    (tmp_path / "python").chmod(0o755)
    target = "results/sources/data/bbq.json"
    done = snakemake(clone, "--cores", "1", target, path=str(tmp_path))
    assert done.returncode == 1
    assert "FAILED fetch data bbq\nerror: no such data\nthe whole log: " in done.stdout
    assert "{" not in done.stdout
