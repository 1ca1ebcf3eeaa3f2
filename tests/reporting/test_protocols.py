"""The table of protocols, on numbers made from the printed ones."""

import pytest
from reporting_run import collect, make_table, read_csv, small_config, write_run

from evenprune.analysis.printed import printed_values
from evenprune.config.run_sheet import read_run_sheet
from evenprune.io.files import write_csv

# How far the made-up numbers of a benchmark are from the printed ones, as a factor of perplexity
# and in fractions.
OFF = {"ppl.paper": 1.002, "unqover.helm": 0.004, "bbq.groups8864": -0.003, "mmlu.template": 0.001}


@pytest.fixture(scope="module")
def table(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("protocols")
    config = small_config(repo, root, "protocols.yaml")
    write_run(config, 60)
    assert collect(root) == 0
    found = read_csv(root / "results.csv")
    run = read_run_sheet(root / "run_sheet.json")
    for row in found:
        slug = row["benchmark"]
        entry = config.benchmarks.get(slug)
        if entry is None or row["category"] or row["metric"] != run.headline(slug):
            continue
        value, _ = printed_values()[(row["model"], "dense", "dense", "none", entry.task)]
        if entry.task == "perplexity":
            row["value"] = value * OFF.get(slug, 1.3)
        else:
            row["value"] = value + OFF.get(slug, 0.05)
    write_csv(root / "results.csv", list(found[0]), found)
    (root / "results.csv.sha256").unlink()  # of the numbers before
    assert make_table(root, "protocols") == 0
    folder = root / "tables"
    return read_csv(folder / "protocols.csv"), (folder / "protocols.md").read_text(), config


def test_the_nearest_protocol_comes_first(table):
    rows, page, config = table
    first = {row["task"]: row for row in rows if row["rank"] == "1"}
    for slug, off in OFF.items():
        row = first[config.benchmarks[slug].task]
        assert row["benchmark"] == slug
        expected = 0.2 if slug == "ppl.paper" else 100 * abs(off)
        assert float(row["mean_distance"]) == pytest.approx(expected, abs=0.002)
        assert row["within"] == row["models"] == "9"
    assert "style helm" in page


def test_a_protocol_of_fewer_models_comes_behind(table):
    rows, _, config = table
    with_bos = [row for row in rows if row["benchmark"] in ("ppl.gptq2048-bos", "ppl.evaluate")]
    of_nine = [row for row in rows if row["task"] == "perplexity" and row["models"] == "9"]
    assert [row["models"] for row in with_bos] == ["7", "7"]
    assert min(int(row["rank"]) for row in with_bos) > max(int(row["rank"]) for row in of_nine)
    without = {"ppl.lmeval-byte", "hellaswag.norm"}  # whose metric nobody made up
    assert {row["benchmark"] for row in rows} == set(config.benchmarks) - without
