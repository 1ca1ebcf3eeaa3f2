"""The figure of throughput over the batch size, from made-up measurements."""

import csv
import json

import pytest
from reporting_run import small_config, write_run, write_sealed

from evenprune.cli import main
from evenprune.plan import grids

RATES = {"batch 1": 50.0, "batch 8": 300.0}


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    config = small_config(repo, root, figures=["throughput"])
    write_run(config, 4)
    for file in (root / "serving").rglob("efficiency.json"):
        content = json.loads(file.read_text())
        for part in content["checkpoints"].values():
            part["categories"] = {
                name: {
                    "decode_tok_per_s": {"value": rate},
                    "bound_decode_tok_per_s": {"value": 10 * rate},
                    "bound_2of4_decode_tok_per_s": {"value": 16 * rate},
                }
                for name, rate in RATES.items()
            }
        write_sealed(file, content)
    run_sheet, results = str(root / "run_sheet.json"), str(root / "results.csv")
    assert main(["collect-results", "--run-sheet", run_sheet, "--out", results]) == 0
    return root, config


def draw(root, name):
    return main(
        ["make-figure", "--figure", "throughput", "--run-sheet", str(root / "run_sheet.json"),
         "--results", str(root / "results.csv"), "--out-prefix", str(root / name / "throughput")]
    )  # fmt: skip


def test_measured_points_and_both_bounds_are_drawn(run):
    root, config = run
    assert draw(root, "one") == 0
    with open(root / "one" / "throughput.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    served = {point.key.rsplit("/", 1)[0] for point in grids.serving_checkpoints(config)}
    measured = [row for row in rows if row["metric"] == "decode_tok_per_s"]
    assert len(measured) == len(served) * len(RATES)
    for metric, factor in (("bound_decode_tok_per_s", 10), ("bound_2of4_decode_tok_per_s", 16)):
        found = {
            row["batch_size"]: float(row["tok_per_s"]) for row in rows if row["metric"] == metric
        }
        assert found == {"1": 50 * factor, "8": 300 * factor}


def test_a_run_without_measurements_is_refused(run, tmp_path, capsys):
    root, _ = run
    run_sheet = json.loads((root / "run_sheet.json").read_text())
    for point in run_sheet["checkpoints"]:
        point["serving"] = None
    (tmp_path / "run_sheet.json").write_text(json.dumps(run_sheet))
    (tmp_path / "results.csv").write_bytes((root / "results.csv").read_bytes())
    assert draw(tmp_path, "out") == 2
    assert "serving.experiment" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
