"""The masks of a run: results.csv, the table, the claim, and the paper's own rows."""

import pytest
from reporting_run import made_table, make_table, prepare, read_csv, small_config
from scipy import stats as scipy_stats

from evenprune.analysis import mask_diffs
from evenprune.analysis.claims import NOT_SUPPORTED, NOT_TESTED
from evenprune.config import grids

NAMES = ("disagreement", "pattern_disagreement", "jaccard", "relative_frobenius")


def test_concentration_is_the_hypergeometric_test():
    values = {
        f"{layer}.self_attn.{kind}": 0.1 for layer in range(20) for kind in ("q_proj", "k_proj")
    }
    values |= {f"{layer}.self_attn.o_proj": 0.2 for layer in range(20)}
    assert mask_diffs.concentration(values) == mask_diffs.Concentration(20, 20, 20, 60)
    values |= {f"{layer}.self_attn.o_proj": 0.05 for layer in range(5)}
    found = mask_diffs.concentration(values)
    assert found == mask_diffs.Concentration(15, 20, 20, 60)
    assert found.excess == pytest.approx(15 / 20 - 1 / 3)
    law = scipy_stats.hypergeom(60, 20, 20)
    masses = law.pmf(range(21))
    assert found.p_value == pytest.approx(masses[masses <= law.pmf(15) * (1 + 1e-7)].sum())
    assert mask_diffs.concentration({f"{k}.self_attn.o_proj": 0.1 for k in range(20)}) is None
    assert mask_diffs.concentration({f"{k}.mlp.fc1": 0.1 for k in range(40)}) is None


def test_which_checkpoints_are_compared(repo, tmp_path):
    def compared(config):
        return {ours.key: theirs.key for ours, theirs in grids.mask_references(config).items()}

    config = small_config(repo, tmp_path)
    point = "world/{}/2of4/ss-uc256/s0".format
    assert compared(config) == {point("debias-sparsegpt"): point("sparsegpt")}
    # Without the experiment masks: all of them.
    methods = {"debias.b64": {"method": "debias-sparsegpt", "bias_weight": 64.0}}
    grid = {"methods": ["dense", "magnitude", "wanda", "sparsegpt", *methods], "seeds": [0, 3]}
    changes = {"methods": methods, "experiments": {"main": grid}}
    point = "world/{}/1of4/ss/s{}".format
    config = small_config(repo, tmp_path, only=["main"], **changes)
    assert compared(config) == {
        point("debias.b64", seed): point("sparsegpt", seed) for seed in (0, 3)
    }
    assert not compared(config.model_copy(update={"tables": ["main"]}))


# A run


def test_the_table_lists_the_largest(world):
    root, _ = world
    rows = read_csv(root / "tables/masks.csv")
    source = read_csv(root / "pruned/world/debias-sparsegpt/2of4/ss-uc256/s0/masks.csv")
    source.sort(key=lambda row: -float(row["pattern_disagreement"]))
    assert len(rows) == 20
    for row, origin in zip(rows, source, strict=False):
        assert (row["layer"], row["module"]) == (origin["layer"], origin["kind"])
        for name in NAMES:
            assert row[name] == f"{float(origin[name]):.4f}"
            assert row[f"{name}_printed"] == ""
    text = (root / "tables/masks.md").read_text().replace("\\", "")
    lines = [line.split("|")[3:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    for column, name in enumerate(NAMES):
        shown = [float(row[name]) for row in rows]
        best = min(shown) if name == "jaccard" else max(shown)
        assert ["**" in line[column] for line in lines] == [value == best for value in shown]
    assert "20 of 28 matrices are listed: " in text
    assert "invented world" in text


def test_several_grid_points_and_two_seeds(repo, tmp_path):
    grid = {"methods": ["sparsegpt", "debias-sparsegpt"], "regimes": ["u50", "2of4"]}
    grids = {"masks": {**grid, "seeds": [0, 1]}}
    root, _ = prepare(repo, tmp_path, items=40, only=["masks"], experiments=grids)
    rows = made_table(root, "masks")
    assert [row["regime"] for row in rows] == ["u50"] * 20 + ["2of4"] * 20
    assert {row["seeds"] for row in rows} == {"0 1"}
    assert "*World-Llama, 50%," in (root / "tables/masks.md").read_text().replace("\\", "")


def test_a_run_without_those_masks_shows_none_and_does_not_test_the_claim(repo, tmp_path, capsys):
    grids = {"main": {"methods": ["debias-sparsegpt"]}}
    root, _ = prepare(repo, tmp_path, items=40, only=["main"], experiments=grids)
    assert make_table(root, "masks") == 2
    assert "the table masks compares masks" in capsys.readouterr().err
    row = claim_of(root)
    assert row["verdict"] == NOT_TESTED
    assert "the compared masks of World-Llama, Debias-SparseGPT, 2:4" in row["reason"]


# The claim


def claim_of(root):
    return {row["claim"]: row for row in made_table(root, "claims")}["output_masks"]


def test_the_claim_is_tested_on_the_run(world):
    root, _ = world
    row = claim_of(root)
    assert "4 of 20 are o_proj, of all 4 of 28 +5.71, p = " in row["evidence"]
    assert row["comparisons"] == "1"
    # All four are among the first 20 of 28, which chance alone often does.
    assert row["verdict"] == NOT_SUPPORTED
    assert "Fisher" in (root / "tables/claims.md").read_text()
