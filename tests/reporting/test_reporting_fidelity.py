"""Fidelity to the dense model: by hand, against other libraries, and through the commands."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reporting_run import prepare, read_csv, write_jsonl
from scipy.spatial.distance import jensenshannon

from evenprune.analysis import fidelity
from evenprune.io.errors import UserError
from evenprune.io.files import read_jsonl


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 20))
def test_divergence_is_symmetric_bounded_and_scipys(seed, scale):
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet([1 / scale] * 3, size=(2, 5)) + 1e-12
    p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    found = fidelity.js_divergence(p, q)
    assert found == pytest.approx(fidelity.js_divergence(q, p), abs=1e-12)
    assert found == pytest.approx(jensenshannon(p, q, base=2, axis=1) ** 2, abs=1e-9)
    assert ((found >= 0) & (found <= 1 + 1e-12)).all()


def record(name, pred, gold=0, **more):
    scores = [2.0 * (k == pred) for k in range(3)]
    found = {"item_id": name, "pred": pred, "correct": pred == gold, "option_logprobs": scores}
    return found | more


def answers(folder, name, preds):
    path = folder / f"{name}.jsonl"
    write_jsonl(path, [record(str(k), pred) for k, pred in enumerate(preds)])
    return fidelity.read_answers(path)


def test_fidelity_by_hand(tmp_path):
    # Kept right, kept wrong, right to wrong twice, wrong to right, wrong to another wrong.
    dense = answers(tmp_path, "dense", [0, 1, 0, 0, 1, 1])
    pruned = answers(tmp_path, "pruned", [0, 1, 2, 1, 0, 2])
    found = {name: entry.value for name, entry in fidelity.fidelity(pruned, dense).items()}
    assert found["flips"] == pytest.approx(4 / 6)
    assert found["flips_to_wrong"] == pytest.approx(2 / 6)
    assert found["flips_to_right"] == pytest.approx(1 / 6)
    top = math.exp(2) / (math.exp(2) + 2)
    rest = (1 - top) / 2
    one = jensenshannon([top, rest, rest], [rest, top, rest], base=2) ** 2
    assert found["js_divergence"] == pytest.approx(4 / 6 * one)
    same = fidelity.fidelity(dense, dense)
    assert same["flips"] == (0.0, 6, 0.0)
    assert same["js_divergence"].value == 0


def test_answers_are_of_the_datas_own_order_and_of_the_items_own_options(tmp_path):
    """Logits go before logarithms of probabilities, and items may differ in their options."""
    rows = [record("a", 0, perm="012", option_logits=[0.0] * 3), record("a", 1, perm="021")]
    rows.append(record("b", 0) | {"option_logprobs": [0.0, 0.0]})
    write_jsonl(tmp_path / "items.jsonl", rows)
    found = fidelity.read_answers(tmp_path / "items.jsonl")
    assert found.chosen.tolist() == [0, 0]
    assert found.probabilities[0] == pytest.approx([1 / 3] * 3)
    assert found.probabilities[1] == pytest.approx([0.5, 0.5, 0])
    assert fidelity.fidelity(found, found)["js_divergence"].value == 0


@pytest.mark.parametrize(
    "rows", [[], [record("a", 0)] * 2, [{"item_id": "a"}], [record("a", 0, option_logprobs=[None])]]
)
def test_bad_records_are_one_sentence(rows, tmp_path):
    write_jsonl(tmp_path / "items.jsonl", rows)
    with pytest.raises(UserError, match=r"items\.jsonl"):
        fidelity.read_answers(tmp_path / "items.jsonl")


def test_other_items_than_the_dense_models_are_refused(tmp_path):
    with pytest.raises(UserError, match="items that differ"):
        fidelity.fidelity(answers(tmp_path, "a", [0, 1]), answers(tmp_path, "b", [0]))


def test_the_table_shows_the_share_of_other_answers(world):
    root, _ = world
    folders = ("dense/dense/none", "sparsegpt/u50/ss")
    dense, pruned = (
        [row["pred"] for row in read_jsonl(root / f"evals/world/{f}/s0/bbq/items.jsonl")]
        for f in folders
    )
    rows = {(row["method"], row["regime"]): row for row in read_csv(root / "tables/fidelity.csv")}
    row = rows["sparsegpt", "u50"]
    flips = 100 * np.mean(np.array(dense) != np.array(pruned))
    assert float(row["bbq_flips"]) == pytest.approx(flips, abs=0.006)


def test_without_a_dense_model_there_is_no_fidelity(repo, tmp_path):
    grids = {"main": {"methods": ["magnitude", "sparsegpt", "debias-sparsegpt"]}}
    prepare(repo, tmp_path, items=8, only=["main"], experiments=grids)
    assert ",flips," not in (tmp_path / "results.csv").read_text()
