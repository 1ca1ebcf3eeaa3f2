import copy

import pytest

from evenprune.base.errors import UserError
from evenprune.base.yamlfile import merge, read_yaml
from evenprune.plan import grids
from evenprune.plan.config import load_config, validate_config


@pytest.fixture
def raw(repo):
    return merge(read_yaml(repo / "config/catalogue.yaml"), read_yaml(repo / "config/world.yaml"))


def load(repo, given):
    return load_config(given, repo / "config/world.yaml", repo / "config/catalogue.yaml")


SHIPPED = (
    "config", "controls", "paper", "paper-extended", "protocols", "real-methods", "real-small",
    "world",
)  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configurations_are_valid(repo, name):
    load(repo, read_yaml(repo / f"config/{name}.yaml"))


def test_paper_grid_has_58_pruned_and_9_dense_checkpoints(repo):
    config = load(repo, read_yaml(repo / "config/paper.yaml"))
    points = grids.all_checkpoints(config)
    assert sum(point.method != "dense" for point in points) == 58
    assert sum(point.method == "dense" for point in points) == 9
    assert len({point.key for point in points}) == len(points)


def test_stereoset_is_measured_where_it_is_a_clean_test(repo):
    """With pairs of another source, in the grids of the paper's models."""
    for name in ("paper-extended", "paper"):
        config = load(repo, read_yaml(repo / f"config/{name}.yaml"))
        found = {
            point.calibration
            for point in grids.all_checkpoints(config)
            if "stereoset" in grids.benchmarks_of(config, point)
        }
        assert "cp-uc256" in found
        assert "ss" not in found


def test_all_errors_are_reported_at_once(raw):
    broken = copy.deepcopy(raw)
    broken["prunning"] = {}
    broken["models"]["world"]["lable"] = "x"
    broken["experiments"]["main"]["models"] = ["wrld"]
    broken["experiments"]["main"]["methods"] = ["sparsegtp"]
    broken["experiments"]["main"]["regimes"] = ["2:4"]
    broken["benchmarks"]["bbq"]["limit"] = 0
    broken["benchmarks"]["mmlu"]["dataset"] = "mmlu_pro"
    with pytest.raises(UserError) as caught:
        validate_config(broken, "config.yaml")
    message = str(caught.value)
    assert "config.yaml has 7 errors" in message
    for part in (
        "prunning: unknown key; did you mean 'pruning'?",
        "models.world.lable: unknown key; did you mean 'label'?",
        "experiments.main.models.0: got 'wrld', which is no model; did you mean 'world'?",
        "main.methods.0: got 'sparsegtp', which is no method; did you mean 'sparsegpt'?",
        "experiments.main.regimes.0: got '2:4', allowed are u25, u50, 1of4, 2of4",
        "benchmarks.bbq.limit: got 0",
        "benchmarks.mmlu.dataset: got 'mmlu_pro', which is no data set; did you mean 'mmlu'?",
    ):
        assert part in message


def test_the_code_of_2026_needs_padded_pairs(raw):
    """Said for each calibration that a method with its scaling is used with, and for no other."""
    broken = copy.deepcopy(raw)
    theirs = {"method": "debias-sparsegpt", "bias_scaling": "released-2026"}
    broken["methods"]["theirs"] = theirs
    broken["experiments"]["main"]["methods"] = ["sparsegpt", "theirs"]
    used = broken["experiments"]["main"]["calibrations"]
    with pytest.raises(UserError, match="expected 'pad'") as caught:
        validate_config(broken)
    assert str(caught.value).count("expected 'pad'") == len(used)
    for name in used:
        broken["calibrations"][name]["alignment"] = "pad"
    validate_config(broken)


def test_a_variant_overrides_any_option_but_the_alignment(raw):
    given = {"method": "debias-erase", "erase_keep": 0.5, "refit_steps": 3}
    config = validate_config({**raw, "methods": raw["methods"] | {"mine": given}})
    options = grids.method_options(config, "mine")
    plain = grids.method_options(config, "debias-erase")
    assert options == plain | {"erase_keep": 0.5, "refit_steps": 3}
    assert plain["erase_modules"] == ["o_proj", "down_proj"]
    assert grids.base_method(config, "mine") == "debias-erase"
    for key, value in (
        ("alignment", "pad"), ("refit_steps", -1), ("erase_modules", []), ("solver", "obs"),
        ("erase_modules", ["$(id)"]), ("damping", 0.0),
    ):  # fmt: skip
        with pytest.raises(UserError, match=f"methods.mine.{key}"):
            mine = {"mine": {**given, key: value}}
            validate_config({**raw, "methods": raw["methods"] | mine})


@pytest.mark.parametrize("name", ["../../etc", "a b", "a;rm", "$(id)", "Qwen/Qwen", "-x", ""])
def test_names_that_would_be_unsafe_in_paths_are_refused(raw, name):
    raw["models"][name] = {"label": "x", "hub": "a/b"}
    with pytest.raises(UserError, match="models"):
        validate_config(raw)


def test_world_model_and_external_source_do_not_mix(raw):
    raw["source"] = "external"
    with pytest.raises(UserError, match="model 'world' does not go with source 'external'"):
        validate_config(raw)


def test_a_partial_configuration_lies_over_the_default(repo):
    config = load(repo, {"pruning": {"damping": 0.1}, "mirror": "somewhere"})
    assert config.pruning.damping == 0.1
    assert config.pruning.block_size == 128
    assert config.mirror == ["somewhere"]


def test_dense_and_magnitude_appear_once_in_a_grid(raw):
    config = validate_config(raw)
    keys = [point.key for point in grids.experiment_checkpoints(config, "ultrachat")]
    assert keys.count("world/dense/dense/none/s0") == 1
    assert "world/sparsegpt/2of4/ss-uc256/s0" in keys


def test_a_world_without_a_model_is_refused(repo):
    assert load(repo, {}).world.seed == 0
    assert load(repo, {"world": {"seed": 3, "retrain": True}}).world.seed == 3
    with pytest.raises(UserError, match=r"world\.seed: got 3, .*with seed 0; set world\.retrain"):
        load(repo, {"world": {"seed": 3}})
