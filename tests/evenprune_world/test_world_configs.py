"""The configurations of the worlds that are compared."""

import pytest

from evenprune.config.config import load_config
from evenprune.io.errors import UserError
from evenprune.io.yamlfile import read_yaml
from evenprune.workflow import typed
from evenprune_world.controls.world_configs import world_configs


@pytest.fixture
def load(repo):
    def loaded(given):
        return load_config(given, repo / "config/world.yaml", repo / "config/catalogue.yaml")

    return loaded


def test_runs_differ_in_world_and_results_only(repo, load):
    given = read_yaml(repo / "config/controls.yaml")
    before = str(given)
    found = world_configs(given, load(given))
    assert str(given) == before
    assert list(found) == ["w0", "w1", "w2"]
    whole = load({key: value for key, value in given.items() if key != "controls"})
    for name, config in found.items():
        one = load(config)
        assert one.results == f"results/controls/{name}"
        assert one.world.seed == int(name[-1])
        assert one.world.retrain == (name != "w0")  # whose models are shipped
        assert world_configs(config, one) == {}
        changes = {"results": whole.results, "world": whole.world}
        assert one.model_copy(update=changes) == whole


def test_no_worlds_no_configurations(load):
    assert world_configs({}, load({})) == {}


@pytest.mark.parametrize("worlds", [[3], [1, 1], [0, -1], [0, "x"], "0 1", [0, 1.0], [True, False]])
def test_worlds_are_several_seeds(load, worlds):
    with pytest.raises(UserError, match=r"controls\.worlds"):
        load({"controls": {"worlds": worlds}})


def test_worlds_from_the_command_line(load):
    """Snakemake hands on nested values of --config as text."""
    said = {"controls": {"worlds": ["0", "14"]}}
    given = typed({**said, "world": {"retrain": True}}, said)
    found = world_configs(given, load(given))
    assert [(name, one["world"]["retrain"]) for name, one in found.items()] == [
        ("w0", True), ("w14", True),
    ]  # fmt: skip
