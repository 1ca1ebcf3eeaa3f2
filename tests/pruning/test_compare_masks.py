"""compare-masks: counts against plain numpy, identities of exact 2:4, real checkpoints, errors."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pruning_models import prune_command, random_pairs, save_model, write_rows
from transformers import AutoModelForCausalLM

from evenprune.cli import main
from evenprune.pruning import compare_masks

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def pruned_pair(rows, columns, seed, share=0.5):
    """Two random matrices with zeros of both signs at random places."""
    generator = torch.Generator().manual_seed(seed)
    pair = []
    for _ in range(2):
        weight = torch.randn(rows, columns, generator=generator)
        weight[torch.rand(rows, columns, generator=generator) < share] = 0.0
        pair.append(weight * torch.where(torch.rand(rows, 1, generator=generator) < 0.5, -1, 1))
    return pair


def expected(reference, weight):
    """The measures by their definitions, in numpy."""
    w0, w1 = (one.double().numpy() for one in (reference, weight))
    m0, m1 = w0 == 0, w1 == 0
    rows, columns = w0.shape
    changed = [
        (m0[i, k : k + 4] != m1[i, k : k + 4]).any()
        for i in range(rows)
        for k in range(0, columns, 4)
    ]
    norm = np.linalg.norm(w0)
    return {
        "disagreement": np.mean(m0 != m1), "pattern_disagreement": np.mean(changed),
        "jaccard": (m0 & m1).sum() / (m0 | m1).sum() if (m0 | m1).any() else 1.0,
        "relative_frobenius": np.linalg.norm(w1 - w0) / norm if norm else None,
        "different_weights": (m0 != m1).sum(), "zeros_reference": m0.sum(), "zeros": m1.sum(),
        "zeros_both": (m0 & m1).sum(), "groups": len(changed), "different_groups": sum(changed),
    }  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 9), st.integers(1, 21), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(DTYPES), st.booleans(), st.sampled_from([1, 8, 1 << 22]),
)  # fmt: skip
def test_measures_are_those_of_their_definitions(rows, columns, seed, share, dtype, turned, chunk):
    pair = [one.to(dtype) for one in pruned_pair(rows, columns, seed, share)]
    if turned:  # as the Conv1D of GPT-2 is read: a transposed view
        pair = [one.T.contiguous().T for one in pair]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare_masks, "CHUNK", chunk)
        found = compare_masks.compare(*pair)
    for name, value in expected(*pair).items():
        assert found[name] == (value if value is None else pytest.approx(value, rel=1e-12)), name


# Real checkpoints


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """GPT-2, which stores its weights transposed, pruned by both methods."""
    root = tmp_path_factory.mktemp("masks")
    base = save_model(root / "base", "gpt2", seed=3)
    pairs = write_rows(root / "pairs.jsonl", random_pairs(12))
    for method, own in (("sparsegpt", {}), ("debias-sparsegpt", {"bias_weight": 100})):
        assert main(prune_command(base, root / method, pairs, method=method, **own)) == 0
    return root


def compare(root):
    words = ["--model", root / "debias-sparsegpt", "--reference", root / "sparsegpt"]
    return main(["compare-masks", *map(str, words), "--out", str(root / "masks.csv")])


def test_a_row_a_matrix_along_the_inputs_and_the_same_again(checkpoints, capsys):
    assert compare(checkpoints) == 0
    assert "8 matrices; the masks differ most in transformer.h." in capsys.readouterr().out
    with open(checkpoints / "masks.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    models = [
        AutoModelForCausalLM.from_pretrained(checkpoints / name)
        for name in ("sparsegpt", "debias-sparsegpt")
    ]
    assert [(row["layer"], row["kind"]) for row in rows] == [
        (layer, kind)
        for layer in "01"
        for kind in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    ]
    for row in rows:
        assert row["module"] == f"transformer.h.{row['layer']}.{row['kind']}"
        pair = [model.get_submodule(row["module"]).weight.detach().T for model in models]
        assert (int(row["rows"]), int(row["columns"])) == tuple(pair[0].shape)
        for name, value in expected(*pair).items():
            assert float(row[name]) == pytest.approx(value, rel=1e-11), name
        # Along the outputs neither would have two zeros in each group.
        d = float(row["disagreement"])
        assert float(row["jaccard"]) == pytest.approx((1 - d) / (1 + d))
        assert d > 0
    before = (checkpoints / "masks.csv").read_bytes()
    assert compare(checkpoints) == 0
    assert before == (checkpoints / "masks.csv").read_bytes()
