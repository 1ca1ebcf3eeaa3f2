"""results.csv and significance.csv as frames: what was written is what is read."""

import math

import pytest

from evenprune.analysis.frames import make_frame, read_frame, write_frame
from evenprune.io.errors import UserError
from evenprune.io.files import write_csv

COLUMNS = (
    "model", "method", "regime", "calibration", "seed", "benchmark", "metric", "category",
    "value", "n",
)  # fmt: skip
VALUES = (0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e22, math.pi)


def rows():
    """Not sorted; names that pandas takes for nothing by itself, one that needs quotes."""
    names = ("None", "NA", "nan", "null", "", 'a, "b"', "é")
    for index, (name, value) in enumerate(zip(names, VALUES)):
        yield dict(zip(COLUMNS[:8], (name, "m", "r", "c", 10 - index, "b", "x", ""))) | {
            "value": value,
            "n": None if index else 2**53 + 1,
        }


def test_what_is_written_is_read_and_has_the_bytes_of_csv(tmp_path):
    """Sorted by the names as text, whole numbers whole beside empty cells."""
    path = tmp_path / "results.csv"
    write_frame(path, make_frame(rows(), COLUMNS))
    found = read_frame(path, ("model", "value", "seed"))
    assert dict(zip(found["model"], map(repr, found["value"]))) == {
        row["model"]: repr(row["value"]) for row in rows()
    }
    assert set(found["seed"]) == {str(row["seed"]) for row in rows()}
    ordered = sorted(rows(), key=lambda row: tuple(str(row[name]) for name in COLUMNS[:8]))
    write_csv(tmp_path / "theirs.csv", COLUMNS, ordered)
    assert path.read_bytes() == (tmp_path / "theirs.csv").read_bytes()


def test_a_cell_that_is_no_number_is_one_sentence(tmp_path):
    path = tmp_path / "results.csv"
    write_csv(path, COLUMNS, ({**row, "value": "many"} for row in rows()))
    with pytest.raises(UserError, match=r"the column value of .*many.*run collect-results again"):
        read_frame(path, COLUMNS)
    with pytest.raises(UserError, match="but stderr is missing"):
        read_frame(path, ("stderr",))
    path.write_text(",".join(COLUMNS) + "\na,b\n")
    with pytest.raises(UserError, match="expected 10 columns on line 2"):
        read_frame(path, COLUMNS)
