"""``explain``: what it says of a cell, that it reads everything again, and its near-misses."""

import json
from pathlib import Path

import pytest
from reporting_run import (
    collect,
    make_table,
    read_csv,
    seal,
    small_config,
    write_json,
    write_run,
    write_sealed,
)

from evenprune.cli import main
from evenprune.config import grids
from evenprune.io.errors import UserError
from evenprune.reporting.explain import explain

UNQOVER = "world/debias-sparsegpt/1of4/ss/unqover"


def write_origins(config, root):
    """Write the manifests and the records of sources that a real run has."""
    for point in grids.all_checkpoints(config):
        if not point.is_base:
            options = {"seed": point.seed, "damping": 0.01, "solver": None}
            path = root / "pruned" / point.key / "model/manifest.json"
            write_sealed(path, {"method": point.method, "options": options})
    names = [("data", name) for name in grids.needed_datasets(config)]
    for kind, name in [*names, *(("models", name) for name in grids.needed_models(config))]:
        record = {"origin": "hub", "revision": f"rev-{name}", "files": {"a": {"sha256": "0" * 64}}}
        write_json(root / "sources" / kind / f"{name}.json", record)


def written(config, items, tables):
    root = Path(config.results)
    write_run(config, items)
    write_origins(config, root)
    assert collect(root) == 0
    assert all(make_table(root, table) == 0 for table in tables)
    return root


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    config = small_config(repo, tmp_path_factory.mktemp("explain"))
    tables = ["main", "safety", "regimes", "masks", "claims", "efficiency"]
    return written(config, 40, tables)


def test_a_cell_with_all_that_is_behind_it(run, capsys):
    words = ["explain", "main", "--cell", UNQOVER, "--results", str(run)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (seed,) = found["seeds"]
    items = [json.loads(line) for line in Path(seed["items"]).read_text().splitlines()]
    share = sum(row["correct"] for row in items) / len(items)
    assert found["value"] == pytest.approx(share) == pytest.approx(seed["recomputed"])
    assert found["n"] == len(items) == 40
    rows = {(r["method"], r["regime"]): r for r in read_csv(run / "tables/main.csv")}
    assert found["shown"] == rows["debias-sparsegpt", "1of4"]["unqover"]
    assert found["interval"]["low"] < share < found["interval"]["high"]
    assert {(s["use"], s["revision"]) for s in found["sources"]} == {
        ("model", "rev-world"), ("data", "rev-unqover"), ("calibration pairs", "rev-stereoset"),
    }  # fmt: skip
    assert found["tests"][0]["baseline"] == "sparsegpt"
    assert found["method"]["options"] == {"seed": 0, "damping": 0.01}
    commands = [
        f"snakemake --cores all --force {run}/{name}"
        for name in ("evals/world/debias-sparsegpt/1of4/ss/s0/summary.json", "tables/main.csv")
    ]
    assert found["commands"] == commands
    assert main(words) == 0
    text = capsys.readouterr().out
    for part in (found["shown"], seed["items"], "rev-unqover", "tables/main.csv", "seed 0"):
        assert part in text


@pytest.mark.parametrize(
    ("table", "cell"),
    [
        ("main", "world/debias-sparsegpt/1of4/ss/dto"),
        ("safety", "world/debias-sparsegpt/1of4/ss/harmbench"),
        ("main", "world/dense/dense/none/mmlu"),
    ],
)
def test_intervals_recomputed_values_and_sources(run, table, cell):
    found = explain(run, table, cell)
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]
    assert found["seeds"][0]["recomputed"] == pytest.approx(found["value"])
    parts = ["mmlu", "unqover"] if cell.endswith("dto") else [cell.rpartition("/")[2]]
    assert [s["name"] for s in found["sources"] if s["use"] == "data"] == parts


def test_a_matrix_of_the_masks_and_a_measurement(run):
    row = read_csv(run / "tables/masks.csv")[0]
    point = "world/debias-sparsegpt/2of4/ss-uc256"
    cell = f"{point}/masks/pattern_disagreement/{row['layer']}.{row['module']}"
    found = explain(run, "masks", cell)
    assert found["shown"] == row["pattern_disagreement"]
    assert found["seeds"][0]["recomputed"] == found["value"]
    found = explain(run, "efficiency", f"{point}/serving/decode_tok_per_s_ratio")
    assert Path(found["seeds"][0]["measurement"]).is_file()
    assert found["seeds"][0]["recomputed"] == found["value"]
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]
    # The speed itself is the dense one times that ratio, not what was measured of this checkpoint.
    speed, dense = (
        explain(run, "efficiency", f"{one}/serving/decode_tok_per_s")
        for one in (point, "world/dense/dense/none")
    )
    assert speed["value"] == pytest.approx(dense["value"] * found["value"])
    assert speed["paired"]
    assert not dense["paired"]


def test_a_ratio_of_several_seeds_is_the_geometric_mean_that_the_table_shows(repo, tmp_path):
    config = small_config(repo, tmp_path, only=["efficiency"], tables=["efficiency"])
    grids_of = {
        name: one.model_copy(update={"seeds": [0, 1]}) for name, one in config.experiments.items()
    }
    config = config.model_copy(update={"experiments": grids_of})
    written(config, 4, ["efficiency"])
    point = "world/debias-sparsegpt/2of4/ss-uc256"
    found = explain(tmp_path, "efficiency", f"{point}/serving/decode_tok_per_s_ratio")
    seeds = [one["value"] for one in found["seeds"]]
    assert len(set(seeds)) == 2
    assert found["value"] == pytest.approx((seeds[0] * seeds[1]) ** 0.5, rel=1e-12)
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]


@pytest.mark.parametrize(
    ("table", "cell", "words"),
    [
        ("main", "wrld/debias-sparsegpt/1of4/ss/unqover", "no model 'wrld'; did you mean 'world'?"),
        ("main", "world/wanda/2of4/ss/unqover", "no regime '2of4' of world/wanda; did you mean"),
        ("main", UNQOVER + "/ac", "did you mean 'acc"),
        ("main", "world/debias-sparsegpt/1of4", "expected a cell as MODEL/METHOD"),
        ("claims", UNQOVER, "no cells of one checkpoint"),
        ("main", UNQOVER + "/confidence_wrong", "does not show unqover/confidence_wrong"),
        ("main", "world/sparsegpt/u50/ss/unqover", "the table main has no row"),
    ],
)
def test_a_wrong_cell_is_one_sentence_with_the_nearest(run, capsys, table, cell, words):
    assert main(["explain", table, "--cell", cell, "--results", str(run)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_outside_of_a_run_one_sentence_says_so(tmp_path, capsys):
    words = ("--cell", "m/dense/mmlu", "--results", str(tmp_path))
    assert main(["explain", "main", *words]) == 2
    assert "found no run here; name its folder with --results" in capsys.readouterr().err


def test_a_number_that_differs_somewhere_is_an_error(repo, tmp_path):
    written(small_config(repo, tmp_path, only=["main"]), 16, ["main"])
    explain(tmp_path, "main", UNQOVER)
    table = tmp_path / "tables/main.csv"
    good = table.read_text()
    shown = explain(tmp_path, "main", UNQOVER)["shown"]
    table.write_text(good.replace(shown, "12.34"))
    with pytest.raises(UserError, match="make the table again"):
        explain(tmp_path, "main", UNQOVER)
    table.write_text(good)
    # Records that were changed after they were counted, with checksums that fit.
    folder = next(tmp_path.glob("evals/world/debias-sparsegpt/1of4/ss/s0"))
    items = folder / "unqover/items.jsonl"
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    rows[0]["correct"] = not rows[0]["correct"]
    before = items.read_text()
    items.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"items\.jsonl"):
        explain(tmp_path, "main", UNQOVER)
    seal(folder)
    with pytest.raises(UserError, match=r"expected acc .* in .*items\.jsonl, which gives"):
        explain(tmp_path, "main", UNQOVER)
    items.write_text(before)
    seal(folder)
    explain(tmp_path, "main", UNQOVER)
    # Another value in metrics.json likewise.
    metrics = json.loads((folder / "unqover/metrics.json").read_text())
    metrics["metrics"]["acc"]["value"] += 0.1
    write_json(folder / "unqover/metrics.json", metrics)
    seal(folder)
    with pytest.raises(UserError, match=r"in .*metrics\.json, which gives"):
        explain(tmp_path, "main", UNQOVER)
