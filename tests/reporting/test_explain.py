"""``explain``: what it says of a cell, that it reads everything again, and its near-misses."""

import json
from pathlib import Path

import pytest
from both import refused
from reporting_run import make_table, prepare, read_csv, seal, write_json, write_sealed

from evenprune.cli import main
from evenprune.config import grids
from evenprune.io.errors import UserError
from evenprune.reporting.explain import explain

UNQOVER = "world/debias-sparsegpt/1of4/ss/unqover"


def write_origins(root, config):
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


@pytest.fixture(scope="module")
def run(world):
    write_origins(*world)
    return world[0]


def test_a_cell_with_all_that_is_behind_it(run, capsys):
    words = ["explain", "main", "--cell", UNQOVER, "--results", str(run)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (seed,) = found["seeds"]
    items = [json.loads(line) for line in Path(seed["items"]).read_text().splitlines()]
    share = sum(row["correct"] for row in items) / len(items)
    assert found["value"] == pytest.approx(share) == pytest.approx(seed["recomputed"])
    assert found["n"] == len(items)
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
    parts = (found["shown"], seed["items"], "rev-unqover", "tables/main.csv", "seed 0")
    assert all(part in text for part in parts)


@pytest.mark.parametrize(
    ("table", "cell"),
    [
        ("main", "world/debias-sparsegpt/1of4/ss/dto"),
        ("safety", "world/debias-sparsegpt/1of4/ss/harmbench"),
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
    points = (point, "world/dense/dense/none")
    speeds = [explain(run, "efficiency", f"{one}/serving/decode_tok_per_s") for one in points]
    assert [speed["paired"] for speed in speeds] == [True, False]


def test_a_ratio_of_several_seeds_is_the_geometric_mean_that_the_table_shows(repo, tmp_path):
    grids = {"efficiency": {"seeds": [0, 1]}}
    write_origins(*prepare(repo, tmp_path, items=4, only=["efficiency"], experiments=grids))
    assert make_table(tmp_path, "efficiency") == 0
    cell = "world/debias-sparsegpt/2of4/ss-uc256/serving/decode_tok_per_s_ratio"
    found = explain(tmp_path, "efficiency", cell)
    one, other = (seed["value"] for seed in found["seeds"])
    assert one != other
    assert found["value"] == pytest.approx((one * other) ** 0.5, rel=1e-12)
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
    refused(capsys, ["explain", table, "--cell", cell, "--results", run], words)


def test_outside_of_a_run_one_sentence_says_so(tmp_path, capsys):
    words = ["explain", "main", "--cell", "m/dense/mmlu", "--results", tmp_path]
    refused(capsys, words, "found no run here; name its folder with --results")


def test_a_number_that_differs_somewhere_is_an_error(repo, tmp_path):
    write_origins(*prepare(repo, tmp_path, items=16, only=["main"]))
    assert make_table(tmp_path, "main") == 0
    folder = tmp_path / "evals/world/debias-sparsegpt/1of4/ss/s0"
    shown = explain(tmp_path, "main", UNQOVER)["shown"]

    def changed(file, change, message, sealed=True):
        """Change a file, with checksums that fit; explain must see it."""
        before = file.read_text()
        file.write_text(change(before))
        if sealed:
            seal(folder)
        with pytest.raises(UserError, match=message):
            explain(tmp_path, "main", UNQOVER)
        file.write_text(before)
        seal(folder)

    def other_answer(text):
        first, *rest = text.splitlines(keepends=True)
        row = json.loads(first)
        return "".join([json.dumps(row | {"correct": not row["correct"]}) + "\n", *rest])

    def other_value(text):
        content = json.loads(text)
        content["metrics"]["acc"]["value"] += 0.1
        return json.dumps(content)

    table, items = tmp_path / "tables/main.csv", folder / "unqover/items.jsonl"
    changed(table, lambda text: text.replace(shown, "12.34"), "make the table again")
    changed(items, other_answer, r"items\.jsonl", sealed=False)
    changed(items, other_answer, r"expected acc .* in .*items\.jsonl, which gives")
    changed(folder / "unqover/metrics.json", other_value, r"in .*metrics\.json, which gives")
    explain(tmp_path, "main", UNQOVER)
