"""What each change makes again, by comparing what jobs depend on. No job runs, no Snakemake."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from evenprune.config import job_options, tasks
from evenprune.config.config import validate_config
from evenprune.config.paths import Paths
from evenprune.io import codedigest
from evenprune.io.yamlfile import merge, read_yaml
from evenprune_world import rerun as world_rerun


def parsed_again():
    codedigest._parse.cache_clear()
    codedigest.code_digest.cache_clear()


@pytest.fixture(scope="module")
def package(repo, tmp_path_factory):
    """A copy of the code, for tests to change."""
    root = tmp_path_factory.mktemp("code") / "src"
    shutil.copytree(repo / "src", root, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codedigest, "ROOT", root)
        parsed_again()
        yield root / "evenprune"
    parsed_again()


@pytest.fixture(scope="module")
def raw(repo):
    catalogue = read_yaml(repo / "config/catalogue.yaml")
    files = {name: read_yaml(repo / f"config/{name}.yaml") for name in ("paper", "world")}
    return {name: merge(catalogue, file) for name, file in files.items()}


def planned(raw, fingerprint=lambda *source: ""):
    paths = Paths(validate_config(raw))
    return job_options.dependencies(paths, fingerprint) | world_rerun.dependencies(paths)


@pytest.fixture(scope="module")
def before(package, raw):
    return {name: planned(given) for name, given in raw.items()}


def again(before, after):
    """Return how many jobs of each rule differ; those with a checkpoint's name by that."""
    assert set(before) == set(after)
    return Counter(rule for rule, job in before if before[rule, job] != after[rule, job])


def changed(before, raw, name="paper", **changes):
    return again(before[name], planned(merge(raw[name], changes)))


def grown(before, raw, package, *files, text="\nX = 1\n"):
    """Plan with files that have a line more."""
    kept = {package / file: (package / file).read_text() for file in files}
    for path, was in kept.items():
        path.write_text(was + text)
    parsed_again()
    try:
        return again(before["paper"], planned(raw["paper"]))
    finally:
        for path, was in kept.items():
            path.write_text(was)
        parsed_again()


# What is no word in it may change a number: of results and items.
SHEET = {"write_run_sheet": 1, "collect_results": 1, "make_items": 1}


def test_what_changed_is_said_by_name_with_both_values(raw):
    """Snakemake prints the values of parameters that only one of the two has, without names."""
    one, other = "llama3.1-8b-it", {"pruning": {"damping": 0.1, "bias_weight": 0.01}}
    other |= {"benchmarks": {"unqover": {"style": "helm"}}, "models": {one: {"label": "L"}}}
    both = [planned(given) for given in (raw["paper"], merge(raw["paper"], other))]

    def said(rule, job):
        was, now = (set(found[rule, job].values()) for found in both)
        return was - now, now - was

    assert said("prune_model", f"{one}/debias-sparsegpt/1of4/ss") == (
        {"--damping 0.01", "--bias-weight 1.0"},
        {"--damping 0.1", "--bias-weight 0.01"},
    )
    assert said("evaluate_checkpoint", f"{one}/dense/dense/none/s0") == (
        set(),  # as the task has it
        {"unqover.style: helm"},
    )
    was, now = said("write_run_sheet", "all")
    assert f"models.{one}.label: L" in now - was
    assert "pruning.damping: 0.01" in was - now
    # No value of a job stands for another one, so that an exchange of two is seen.
    for job in both[0].values():
        assert len(set(job.values())) == len(job)


def test_another_seed_of_the_world_makes_it_again(before, raw):
    found = changed(before, raw, "world", world={"seed": 1, "retrain": True})
    assert found == {**SHEET, "generate_world": 1, "world_model": 1}


def test_what_is_only_shown_is_only_in_the_sheet(before, raw):
    changes = {"models": {"qwen2.5-7b-it": {"label": "Qwen"}}, "title": "Another"}
    changes |= {"tables": ["main"], "figures": ["motivation"]}
    after = planned(merge(raw["paper"], changes))
    kept = set(after) & set(before["paper"])
    found = {rule for rule, job in kept if after[rule, job] != before["paper"][rule, job]}
    assert found == {"write_run_sheet"}


def test_a_prompt_style_evaluates_again(before, raw):
    style = {"unqover": {"style": "helm"}}
    assert changed(before, raw, benchmarks=style) == {**SHEET, "evaluate_checkpoint": 67}
    limited = {"harmbench": {"limit": 10}}  # of three models in one experiment
    assert changed(before, raw, benchmarks=limited) == {**SHEET, "evaluate_checkpoint": 9}
    # There is no sample to draw with another seed.
    assert changed(before, raw, benchmarks={"mmlu": {"seed": 4}}) == SHEET


def test_words_and_unrelated_code_rerun_nothing(before, raw, package):
    files = ("methods/solver.py", "pruning/card.md.j2", "data/calibration.py", "cli.py")
    assert grown(before, raw, package, *files, text="\n# a comment\n") == {}


def test_code_reruns_its_stage(before, raw, package):
    assert set(grown(before, raw, package, "methods/solver.py")) == {"prune_model"}
    assert grown(before, raw, package, "config/pruning_keys.py", "data/defaults.py") == {}
    shown = ("reporting/setup.py", "reporting/figures.py", "analysis/labels.py")
    assert grown(before, raw, package, *shown) == {"make_tables": 1, "make_paper": 1}
    # Where a number is made, it is collected again.
    assert grown(before, raw, package, "stats/inference.py")["collect_results"] == 1


def test_a_fact_of_a_task_evaluates_what_has_it(before, raw, monkeypatch):
    facts = tasks.FACTS["stereoset"]
    monkeypatch.setitem(tasks.FACTS, "stereoset", replace(facts, splits=("intrasentence", "x")))
    found = again(before["paper"], planned(raw["paper"]))
    paths = Paths(validate_config(raw["paper"]))
    asked = [job_options.benchmark_options(paths.config, point) for point in paths.checkpoints]
    assert found == {"evaluate_checkpoint": sum("stereoset" in one for one in asked)}
    # Which values are good decides tables, and no score.
    monkeypatch.setitem(tasks.FACTS, "stereoset", replace(facts, directions={"ss": "half"}))
    assert again(before["paper"], planned(raw["paper"])) == {}
