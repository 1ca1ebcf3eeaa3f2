"""Files and options of jobs, without Snakemake."""

import json
from typing import Literal, get_args, get_origin

import yaml

from evenprune.config import grids, job_options
from evenprune.config.config import validate_config
from evenprune.config.facts import IMPROVEMENTS, METHODS
from evenprune.config.grids import Checkpoint
from evenprune.config.paths import Paths
from evenprune.config.pruning_keys import Pruning
from evenprune.config.run_sheet import contents, read_run_sheet, write_run_sheet
from evenprune.io.yamlfile import merge

RAW = yaml.safe_load("""
results: out
source: external
models: {m: {label: M, dtype: bfloat16}, guard: {label: G}}
datasets: {mmlu: {}, harmbench: {}, stereoset: {}, ultrachat: {}}
calibrations:
  ss: {pairs: stereoset, categories: [race]}
  uc: {pairs: stereoset, texts: ultrachat, n_texts: 4, alignment: pad}
benchmarks:
  mmlu: {task: mmlu, dataset: mmlu, limit: 5, seed: 3}
  harm: {task: harmbench, dataset: harmbench, seed: 3, experiments: [two]}
experiments:
  one: {models: [m], regimes: [2of4], calibrations: [ss]}
  two: {models: [m], methods: [sparsegpt, debias-sparsegpt], regimes: [2of4], calibrations: [uc]}
tables: [answer, efficiency, masks]
figures: [answer]
serving: {experiment: one}
""")
RAW["experiments"]["one"]["methods"] = list(METHODS)
DENSE = Checkpoint("m", "dense", "dense", "none", 0)
MAGNITUDE = Checkpoint("m", "magnitude", "2of4", "none", 0)
DEBIAS = Checkpoint("m", "debias-sparsegpt", "2of4", "uc", 0)


def configured(**changes):
    return validate_config(merge(RAW, changes))


def another(field):
    """Return a good value of a pruning option that is not its default."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return choices[-1] if "pad" in choices else choices[1]
    if isinstance(field.default, list):
        return field.default[:1]
    return (field.default or 4) * (2 if kind is int else 0.5)


def test_a_method_is_told_only_the_options_that_it_uses():
    fields = Pruning.model_fields.items()
    values = {name: another(field) for name, field in fields if name not in IMPROVEMENTS}
    other = configured(pruning=values)
    plain = configured()
    changed = {}
    for point in grids.experiment_checkpoints(plain, "one"):
        before, after = (job_options.prune_options(config, point) for config in (plain, other))
        assert before["method"] == point.method
        assert set(before) == set(after)
        changed[point.method] = {name for name in before if before[name] != after[name]}
    used = {name: set(method.options) for name, method in METHODS.items()}
    assert changed == {name: options - set(IMPROVEMENTS) for name, options in used.items()}
    # A calibration's own alignment comes first.
    assert job_options.prune_options(other, DEBIAS)["alignment"] == "pad"


def test_the_regime_dense_is_a_checkpoint_of_methods_that_shift():
    config = configured(experiments={"one": {"regimes": ["dense", "2of4"]}})
    points = grids.experiment_checkpoints(config, "one")
    shifted = Checkpoint("m", "debias-lora", "dense", "ss", 0)
    assert [point for point in points if point.regime == "dense"] == [DENSE, shifted]
    assert [point.is_base for point in (DENSE, shifted)] == [True, False]
    found = Paths(config)
    assert found.ready(shifted) == "out/pruned/m/debias-lora/dense/ss/s0/check.json"
    assert found.ready(shifted) in found.pruned_files()


def test_facts_are_those_of_the_code_that_prunes():
    from evenprune.pruning.engine import Options

    for name, method in METHODS.items():
        if method.prunes:
            relevant = Options(name, "2of4").relevant()
            used = {key for key, value in relevant.items() if value is not None}
            assert used - {"method", "regime", "seed", "packing", "bos"} == set(method.options)


def test_a_benchmark_is_told_only_the_options_that_it_uses():
    found = job_options.benchmark_options(configured(), DEBIAS)
    assert set(found) == {"mmlu", "harm"}
    assert found["mmlu"]["seed"] == 3
    assert "seed" not in found["harm"]  # all items: no sample
    assert found["mmlu"]["dtype"] == "bfloat16"
    assert set(job_options.benchmark_options(configured(), MAGNITUDE)) == {"mmlu"}
    config = configured(benchmarks={"harm": {"judge": "guard", "lexicon": "world"}})
    told = job_options.benchmark_options(config, DEBIAS)["harm"]
    assert told["judge"] == "guard"
    assert "lexicon" not in told
    told = json.loads(job_options.benchmarks_json(Paths(config), DEBIAS))["harm"]
    assert told["judge"] == "out/sources/models/guard.json"


def test_bos_of_a_model_counts_in_its_calibration_and_nothing_else_depends_on_it():
    grids = {"one": {"models": ["m", "guard"]}}
    before, after = (
        Paths(configured(experiments=grids, models={"m": own})) for own in ({}, {"bos": "always"})
    )
    assert job_options.prune_options(after.config, DEBIAS)["bos"] == "always"
    assert job_options.prune_options(after.config, MAGNITUDE)["bos"] is None  # reads no text
    first, second = (job_options.dependencies(run, lambda *_: "") for run in (before, after))
    rerun = {job for rule, job in first if rule in ("build_calibration", "prune_model")
             and first[rule, job] != second[rule, job]}  # fmt: skip
    assert {"m/ss", "m/sparsegpt/2of4/ss"} <= rerun
    assert all(job.startswith("m/") and "magnitude" not in job for job in rerun)


def test_the_run_sheet_is_read_as_it_was_written(tmp_path):
    paths = Paths(configured())
    write_run_sheet(tmp_path / "run_sheet.json", paths.config)
    run_sheet = read_run_sheet(tmp_path / "run_sheet.json")
    assert run_sheet.checkpoints == paths.checkpoints
    assert run_sheet.masks(DEBIAS) == paths.masks(DEBIAS)
    assert DEBIAS in run_sheet.mask_references
    assert set(run_sheet.experiments) == {"one", "two"}
    local = {"mirror": "/m", "lock": "l", "device": "cuda", "threads": 9}
    local |= {"models": {name: {"gpus": 4} for name in RAW["models"]}}
    assert contents(configured(**local, pdf=False)) == contents(paths.config)


def asked(model, **benchmark):
    """Return the options that the benchmark mmlu gets for a model with these keys."""
    config = configured(models={"m": model}, benchmarks={"mmlu": benchmark})
    return job_options.benchmark_options(config, DENSE)["mmlu"]


def test_a_model_decides_what_a_benchmark_leaves_open():
    plain = asked({})
    assert (plain["bos"], plain["chat_template"]) == ("auto", False)
    assert "split" not in plain
    own = {"mmlu": {"bos": "always", "split": "validation", "chat_template": True}}
    assert asked({"protocol": own}) == plain | own["mmlu"]
    said = {"bos": "never", "split": "test", "chat_template": "auto"}
    assert asked({"protocol": own}, **said) == plain | said
    # Of another task: nothing. Of the model as a whole: what its task's entry leaves open.
    assert asked({"protocol": {"bbq": {"bos": "never"}}}) == plain
    found = asked({"bos": "never", "protocol": {"mmlu": {"split": "dev"}}})
    assert found == plain | {"bos": "never", "split": "dev"}
