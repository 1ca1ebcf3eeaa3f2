"""Benchmarks that share their data with the calibration: marked, neither tested nor claimed."""

import re
from dataclasses import replace

import pytest
from reporting_run import made_table, prepare, read_csv, small_config

from evenprune.config.grids import Checkpoint, in_calibration
from evenprune.reporting.rows import difference, embolden
from evenprune.reporting.tables import Cell, Column, Row

SETS = {
    "cp": {"pairs": "crows_pairs"},
    "ss.gender": {"pairs": "stereoset", "categories": ["gender"]},
    "cp.age": {"pairs": "crows_pairs", "categories": ["age"]},
}
MIXED = {
    "ss-cp": {"pairs": ["stereoset", "crows_pairs"]},
    "ss-cp.gender": {"pairs": ["stereoset", "crows_pairs"], "categories": ["gender"]},
}


@pytest.mark.parametrize(
    ("calibration", "benchmark", "category", "expected"),
    [
        ("none", "stereoset", "", False),
        ("ss", "stereoset", "", True),
        ("ss-shuffled", "stereoset", "race", True),
        ("ss.gender", "stereoset", "gender", True),
        ("ss.gender", "stereoset", "race", False),
        ("ss-cp", "stereoset", "race", True),
        ("ss-cp.gender", "stereoset", "race", False),
        ("ss-q", "unqover", "", False),
        ("ss", "calibration", "gender", False),
    ],
)
def test_the_rule(repo, tmp_path, calibration, benchmark, category, expected):
    config = small_config(repo, tmp_path, calibrations={**SETS, **MIXED})
    method = "magnitude" if calibration == "none" else "wanda"
    point = Checkpoint("world", method, "2of4", calibration, 0)
    assert in_calibration(config, point, benchmark, category) is expected


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    methods = ["dense", "magnitude", "wanda", "sparsegpt", "debias-sparsegpt"]
    grid = {"methods": methods, "calibrations": ["ss", *SETS]}
    changes = {"calibrations": SETS, "experiments": {"calib_source": grid}}
    root, only = tmp_path_factory.mktemp("run"), ["main", "calib_source"]
    prepare(repo, root, items=40, only=only, **changes)
    return root


def test_marked_cells_are_not_tested(run):
    tested = {
        (row["calibration"], row["benchmark"], row["metric"])
        for row in read_csv(run / "significance.csv", against="method")
    }
    assert {key for key in tested if key[1] == "stereoset"} == {
        (name, "stereoset", metric) for name in ("cp", "cp.age") for metric in ("icat", "lms", "ss")
    }
    crows = {key[0] for key in tested if key[1] == "crows_pairs"}
    assert crows == {"ss", "ss.gender"}


def test_the_table_marks_and_never_prefers_them(run):
    for row in made_table(run, "stereoset"):
        for column, data in (("icat", "ss"), ("crows_pairs", "cp")):
            known = row["calibration"].startswith(data)
            assert row[f"{column}_in_calibration"] == ("1" if known else "")
    text = (run / "tables/stereoset.md").read_text()
    assert "‡: no clean test" in text
    assert re.search(r"\d\}*‡", (run / "tables/stereoset.tex").read_text())
    cells = [cell.strip() for line in text.splitlines() for cell in line.split("|")]
    marked = [cell for cell in cells if cell.endswith("‡")]
    assert len(marked) == 2 * 3 * 4 + 2 * 3
    assert not any("**" in cell or "†" in cell for cell in marked)
    assert any(cell.startswith("**") for cell in cells)
    assert "‡" in (run / "tables/stereoset.tex").read_text()


def test_a_claim_on_calibration_data_is_not_tested(repo, tmp_path):
    changes = {"calibrations": {"ss": {"pairs": "crows_pairs"}}}
    prepare(repo, tmp_path, items=40, only=["main"], **changes)
    rows = {row["claim"]: row for row in made_table(tmp_path, "claims")}
    assert rows["crows_pairs"]["verdict"] == "not tested here"
    assert "a clean test: its calibration has the data of CP" in rows["crows_pairs"]["reason"]
    assert rows["unqover"]["verdict"] != "not tested here"


def test_bold_needs_two_clean_values_and_differences_keep_the_mark():
    column = Column("c", "C", direction="up")
    known, *clean = (Cell(9.0, "9", in_calibration=True), Cell(1.0, "1"), Cell(2.0, "2"))
    for cells, bold in (((known, *clean), [False, False, True]), ((known, clean[0]), [False] * 2)):
        rows = [Row(("r",), {"c": replace(cell)}) for cell in cells]
        embolden(rows, [column], range(len(rows)))
        assert [row.cells["c"].bold for row in rows] == bold
    assert difference(column, known, clean[0]).in_calibration
    assert not difference(column, *clean).in_calibration
