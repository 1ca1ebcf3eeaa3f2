import pytest

from evenprune.config import grids
from evenprune.config.config import load_config, validate_config
from evenprune.io.errors import UserError
from evenprune.io.yamlfile import merge, read_yaml


@pytest.fixture
def raw(repo):
    return merge(read_yaml(repo / "config/catalogue.yaml"), read_yaml(repo / "config/world.yaml"))


def load(repo, given):
    return load_config(given, repo / "config/world.yaml", repo / "config/catalogue.yaml")


def test_shipped_configurations_are_valid(repo):
    parts = ("catalogue", "smollm2-hub")  # stand beside another one
    files = [file for file in (repo / "config").glob("*.yaml") if file.stem not in parts]
    assert len(files) == 8
    for file in files:
        load(repo, read_yaml(file))


def test_stereoset_is_measured_where_it_is_a_clean_test(repo):
    """With pairs of another source, in the grid of the paper's models."""
    config = load(repo, read_yaml(repo / "config/paper.yaml"))
    found = {
        point.calibration
        for point in grids.all_checkpoints(config)
        if "stereoset" in grids.benchmarks_of(config, point)
    }
    assert "cp-uc256" in found
    assert "ss" not in found


def test_the_code_of_2026_needs_padded_pairs(raw):
    """Said for each calibration that a method with its scaling is used with, and for no other."""
    theirs = {"method": "debias-sparsegpt", "bias_scaling": "released-2026"}
    grid = {"main": {"methods": ["sparsegpt", "theirs"]}}
    broken = merge(raw, {"methods": {"theirs": theirs}, "experiments": grid})
    used = broken["experiments"]["main"]["calibrations"]
    with pytest.raises(UserError, match="expected 'pad'") as caught:
        validate_config(broken)
    assert str(caught.value).count("expected 'pad'") == len(used)
    validate_config(merge(broken, {"calibrations": {name: {"alignment": "pad"} for name in used}}))


def test_a_variant_overrides_any_option_but_the_alignment(raw):
    given = {"method": "debias-lora", "lora_scale": 0.5, "refit_steps": 3}
    config = validate_config(merge(raw, {"methods": {"mine": given}}))
    options = grids.method_options(config, "mine")
    plain = grids.method_options(config, "debias-lora")
    assert options == plain | {"lora_scale": 0.5, "refit_steps": 3}
    assert grids.base_method(config, "mine") == "debias-lora"
    for key, value in (
        ("alignment", "pad"), ("refit_steps", -1), ("solver", "obs"), ("damping", 0.0),
    ):  # fmt: skip
        with pytest.raises(UserError, match=f"methods.mine.{key}"):
            validate_config(merge(raw, {"methods": {"mine": {**given, key: value}}}))


@pytest.mark.parametrize("name", ["../../etc", "a b", "a;rm", "$(id)", "Qwen/Qwen", "-x", ""])
def test_names_that_would_be_unsafe_in_paths_are_refused(raw, name):
    raw["models"][name] = {"label": "x", "hub": "a/b"}
    with pytest.raises(UserError, match="models"):
        validate_config(raw)


def test_a_package_without_the_split_that_is_asked_for_is_no_source(repo):
    def package(**options):
        one = {"task": "crows_pairs", "dataset": "crows_pairs", **options}
        given = read_yaml(repo / "config/config.yaml") | {"benchmarks": {"cp": one}}
        given["tables"] = ["answer"]
        return load(repo, given).datasets["crows_pairs"].package

    assert package(split="anonymized")
    assert package() is None
    assert package(split="revised") is None
