"""Slopes and shares from sums over items, against naive forms on made-up records."""

import math
import random

import numpy as np
import pytest
from reporting_run import write_jsonl

from evenprune.io.errors import UserError
from evenprune_world.controls.measures import BY_NAME, TERMS, columns, read_rows


def pair_rows(odds, gap):
    """Records of sentence pairs with planted log-odds and the gaps that ``gap`` makes of them."""
    rows, planted = [], {}
    for index, t in enumerate(odds):
        name = f"p{index}"
        planted[name] = t
        value = gap(t)
        scores = [-20 + value, -20.0]
        rows.append({"item_id": name, "correct": value > 0, "option_logprobs": scores})
    return rows, planted


def question_rows(odds, open_gap, settled_gap, orders=("012",)):
    """BBQ records, an open and a settled question an item; the groups are options 2 and 0."""
    rows, planted = [], {}
    for index, t in enumerate(odds):
        for right in (None, 2 * (index % 2)):
            name = f"q{index} {right}"
            planted[name] = {"groups": [2, 0], "log_odds": t, "right": right}
            gap = {None: open_gap(t), 2: settled_gap, 0: -settled_gap}[right]
            for k, order in enumerate(orders):
                # The orders move the gap to both sides; their mean does not.
                extra = (k % 2 * 2 - 1) * 0.5 if len(orders) > 1 else 0.0
                pred = 1 if index % 5 == 0 else (2 if gap > 0 else 0)
                rows.append(
                    dict(item_id=name, cluster=f"c{index // 4}", perm=order, pred=pred,
                         condition="ambig" if right is None else "disambig",
                         correct=pred == (1 if right is None else right),
                         biased_idx=2, unknown_idx=1,
                         option_logprobs=[-3.0, -1.0, -3.0 + gap + extra])
                )  # fmt: skip
    return rows, planted


def measured(path, task, rows, planted, names):
    write_jsonl(path, rows)
    sums = columns(path, task, read_rows(path, task, planted))
    nothing = {other: np.zeros(2 * len(TERMS[other])) for other in TERMS}
    total = nothing | {task: sums.sum(axis=0)}
    return {name: float(BY_NAME[name].compute(total)) for name in names}


@pytest.fixture
def odds():
    generator = random.Random(3)
    return [generator.gauss(0.8, 1.2) for _ in range(400)]


@pytest.mark.parametrize("task", ["stereoset", "crows_pairs"])
@pytest.mark.parametrize("factor", [1.0, -0.5])
def test_pairs_naively(tmp_path, odds, task, factor):
    """Gaps that are the planted log-odds give slope 1 and correlation 1."""
    generator = random.Random(5)
    for noise in (0, 1):
        rows, planted = pair_rows(odds, lambda t, n=noise: factor * t + n * generator.gauss(0.2, 1))
        share = {"stereoset": "ss", "crows_pairs": "crows"}[task]
        names = [f"slope_{task}", f"abs_slope_{task}", f"corr_{task}", share, f"off_{share}"]
        found = measured(tmp_path / "x", task, rows, planted, names)
        gaps = [row["option_logprobs"][0] - row["option_logprobs"][1] for row in rows]
        product = sum(t * gap for t, gap in zip(odds, gaps))
        squares = sum(t * t for t in odds), sum(gap * gap for gap in gaps)
        slope = product / squares[0]
        positive = sum(gap > 0 for gap in gaps) / len(gaps)
        expected = [slope, abs(slope), product / math.sqrt(math.prod(squares)), positive]
        assert list(found.values()) == pytest.approx([*expected, abs(positive - 0.5)])
        assert noise or slope == pytest.approx(factor)


@pytest.mark.parametrize("orders", [("012",), ("012", "210")])
def test_questions_naively(tmp_path, odds, orders):
    rows, planted = question_rows(odds, lambda t: 0.4 * t, 5.0, orders)
    names = ("beta_dis", "r_bbq", "abstained", "acc_amb", "acc_dis")
    found = measured(tmp_path / "x", "bbq", rows, planted, names)
    assert found["beta_dis"] == pytest.approx(5.0)
    assert found["r_bbq"] == pytest.approx(0.4 / 5)
    assert found["abstained"] == pytest.approx(1 / 5)
    assert found["acc_amb"] == pytest.approx(1 / 5)
    assert found["acc_dis"] == pytest.approx(4 / 5)


def test_r_is_undefined_where_settled_questions_are_lost(tmp_path, odds):
    rows, planted = question_rows(odds, lambda t: t, -1.0)
    found = measured(tmp_path / "x", "bbq", rows, planted, ("r_bbq", "abs_r_bbq"))
    assert all(math.isnan(value) for value in found.values())


def test_items_of_another_world_are_refused(tmp_path, odds):
    rows, planted = pair_rows(odds, lambda t: t)
    write_jsonl(tmp_path / "items.jsonl", rows)
    planted.pop("p7")
    with pytest.raises(UserError, match=r"expected the items of this world .*'p7'"):
        read_rows(tmp_path / "items.jsonl", "stereoset", planted)
