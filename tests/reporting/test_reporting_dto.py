"""Distances to the optimum with their intervals."""

import pytest
from reporting_run import read_csv


def test_every_distance_has_its_interval(world):
    root, _ = world
    rows = {
        (row["method"], row["regime"], row["calibration"], row["metric"]): row
        for row in read_csv(root / "results.csv")
        if row["benchmark"] == "dto"
    }
    # main has one grid point a method; 50 % and 2:4; UltraChat, other strengths; CrowS-Pairs.
    assert len(rows) == (6 + 2 * 2 + 4 + 2) * 3
    for key, row in rows.items():
        if key[3] == "dto":
            low, high = (float(rows[*key[:3], f"dto_{end}"]["value"]) for end in ("low", "high"))
            assert low < float(row["value"]) < high
            width = 2 * 1.96 * float(row["stderr"])
            assert high - low == pytest.approx(width, rel=0.2)
