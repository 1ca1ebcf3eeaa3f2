"""Distances to the optimum with their intervals."""

import numpy as np
import pytest
from reporting_run import read_csv

from evenprune.analysis import dto
from evenprune.stats.measures import MEASURES
from evenprune.stats.paired import jackknife, sums_of

BBQ = dto.Definition("dto_bbq", (dto.Component("bbq", "acc_dis"), dto.Component("bbq", "acc_amb")))


def scores(values, prefix="i"):
    rows = [
        {"item_id": f"{prefix}{k}", "correct": value, "cluster": str(k)}
        for k, value in enumerate(values)
    ]
    return sums_of(MEASURES["unqover", "acc"], rows)


def test_both_parts_of_bbq_share_their_clusters():
    # A cluster's disambiguated and ambiguous items are right or wrong together, in opposite
    # ways: what one part gains the other one loses, and the distance stays.
    right = np.repeat([0.0, 1.0], 10)
    parts = [scores(right), scores(1 - right)]
    together = jackknife(BBQ.joined(parts)).estimate(lambda only: only).stderr
    parts[1] = scores(1 - right, prefix="a")
    apart = jackknife(BBQ.joined(parts)).estimate(lambda only: only).stderr
    assert together < 0.05 * apart


def test_every_distance_has_its_interval(world):
    root, _ = world
    rows = {
        (row["method"], row["regime"], row["calibration"], row["metric"]): row
        for row in read_csv(root / "results.csv")
        if row["benchmark"] == "dto"
    }
    # main has one grid point a method; 50 % and 2:4; UltraChat, of the frontier too; CrowS-Pairs.
    assert len(rows) == (6 + 2 * 2 + 4 + 2) * 6
    for key, row in rows.items():
        if key[3] in ("dto", "dto_bbq"):
            low, high = (
                float(rows[*key[:3], f"{key[3]}_{end}"]["value"]) for end in ("low", "high")
            )
            assert low < float(row["value"]) < high
            width = 2 * 1.96 * float(row["stderr"])
            assert high - low == pytest.approx(width, rel=0.2)
