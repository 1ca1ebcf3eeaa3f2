"""The authors' release of 2026, its patches written again on llm-compressor 0.8.1.

``benchmarks/peer_release.py`` runs in an environment of its own and counts; see its head.
"""

import json
import os
import subprocess

import pytest
from peer_python import llmcompressor_python
from pruning_models import random_pairs, save_model, write_rows
from safetensors.torch import load_file
from transformers import AutoTokenizer

from evenprune.blocks.packing import Text
from evenprune.data.calibration import tokenize_pairs
from evenprune.methods.options import Options
from evenprune.pruning.engine import prune_model

pytestmark = pytest.mark.slow
PAIRS, BLOCKS, LINEARS = 12, 2, 7
TOKENS = 13  # every sentence is cut there, so that none is padded


@pytest.fixture(scope="module")
def release(repo, tmp_path_factory):
    """Run the script on a small random Llama: release(*words) returns its line."""
    python = llmcompressor_python(repo, "release", "0.8.1", "benchmarks/peer_release.py")
    folder = tmp_path_factory.mktemp("release")
    model = save_model(folder / "base", "llama2", seed=1)
    rows = random_pairs(PAIRS, seed=1, low=8, high=10)
    pairs = write_rows(folder / "pairs.jsonl", rows)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}

    def run(command, *words):
        script = repo / "benchmarks/peer_release.py"
        done = subprocess.run(
            [python, script, command, model, pairs, "--dtype", "float32", *words],
            env=environment, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    run.model, run.rows, run.folder = model, rows, folder
    return run


def calls(line):
    return {(row["sentences"], row["tokens"]): row["calls"] for row in line["batches"]}


@pytest.mark.parametrize(
    ("batch", "alphas", "terms"),
    [
        # One sentence a batch, so that the condition of the term is never met, whatever α.
        (1, ("0", "1", "1000"), (0, 0, 0)),
        # The control: the same run, but for a batch size that is set by hand.
        (2, ("0", "1"), (0, PAIRS * BLOCKS * LINEARS)),
    ],
)
def test_stereoset_adds_its_term_in_batches_of_two_alone(release, batch, alphas, terms):
    words = ["--batch", "2"] if batch == 2 else []
    lines = [release("stereoset", *words, "--alpha", alpha) for alpha in alphas]
    assert tuple(line["terms"] for line in lines) == terms
    for line in lines:
        assert calls(line) == {(batch, 100): 2 * PAIRS * BLOCKS * LINEARS // batch}
        assert line["sparsity"] == 0.5
    assert len({line["sha256"] for line in lines}) == len(set(terms))


def test_mixed_adds_the_term_of_pairs_and_not_of_texts(release):
    texts = write_rows(release.folder / "texts.jsonl", [{"text": "a b c " * 400}] * 3)
    line = release("mixed", "--alpha", "1", "--texts", texts)
    per_batch = BLOCKS * LINEARS
    assert calls(line) == {(2, 64): PAIRS * per_batch, (1, 1024): 3 * per_batch}
    assert line["terms"] == PAIRS * per_batch


def test_released_2026_is_what_the_release_computes_where_nothing_is_padded(release):
    """The first block (behind it rounding of other orders of sums is amplified)."""
    theirs, alpha = release.folder / "theirs.safetensors", 20.0
    line = release("mixed", "--alpha", str(alpha), "--tokens", str(TOKENS), "--out", theirs)
    assert calls(line) == {(2, TOKENS): PAIRS * BLOCKS * LINEARS}
    tokenizer = AutoTokenizer.from_pretrained(release.model)
    text = Text(tokenize_pairs(release.rows, tokenizer, "pad", TOKENS))
    assert all(len(pair.ids0) == TOKENS for pair in text.pairs.pairs)

    expected = {n: w for n, w in load_file(theirs).items() if n.startswith("model.layers.0.")}
    assert len(expected) == LINEARS

    def distances(weight):
        """Prune with the bias weight; return the relative distance of each matrix to theirs."""
        out = release.folder / f"ours-{weight}"
        options = Options(
            "debias-sparsegpt", "2of4", bias_weight=weight, bias_scaling="released-2026",
            alignment="pad",
        )  # fmt: skip
        prune_model(release.model, options, text, out)
        got = {n: w for file in out.glob("*.safetensors") for n, w in load_file(file).items()}
        return [float((got[n] - w).norm() / w.norm()) for n, w in expected.items()]

    assert max(distances(alpha)) <= 1e-3
    # A wrong weight is seen: α without the half, and no term.
    assert min(distances(2 * alpha)) > 1e-2
    assert min(distances(0.0)) > 1e-2
