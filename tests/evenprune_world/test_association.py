"""Association in worlds whose stereotypes were planted at a known strength."""

import math
import random
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune import cli
from evenprune.io.files import read_json, read_jsonl, write_jsonl
from evenprune_world import items, sentences
from evenprune_world.generate_world import Sizes
from evenprune_world.shipped_world_model import WEIGHTS
from evenprune_world.society import Society

STRENGTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
OTHERS, STEPS, BATCH, RATE = 3, 100, 64, 2e-3


def weaker(strength):
    """The world with seed 1, all its leans times ``strength``.

    The shipped model has learned those of the world with seed 0, which say nothing of these.
    """
    society = Society(1)
    for leans in society.leans.values():
        leans[:] = [strength * lean for lean in leans]
    return society


def taught(model, tokenizer, society):
    """Teach a model this society's statements, whose templates are other ones than StereoSet's."""
    rng = random.Random(0)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, 2 - 2 * step / STEPS)
        texts = [sentences.biased_statement(rng, society)[0] for _ in range(BATCH)]
        rows = [[tokenizer.eos_token_id, *ids] for ids in tokenizer(texts)["input_ids"]]
        tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, -1)
        model(tokens.clamp(min=0), labels=tokens.masked_fill(tokens < 0, -100)).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return model


def measured(folder, data, out):
    """The mean association and its error, clustered by group."""
    words = ["--model", folder, "--benchmark", "stereoset", "--data", data, "--out", out]
    more = ["--counterfactuals", str(OTHERS), "--limit", "600"]
    assert cli.main(["evaluate", *map(str, words), *more]) == 0
    rows = [row for row in read_jsonl(out / "items.jsonl") if row["association"] is not None]
    values = np.array([row["association"] for row in rows])
    groups = np.array([row["cluster"] for row in rows])
    left = values - values.mean()
    sums = [left[groups == one].sum() for one in dict.fromkeys(groups)]
    assert read_json(out / "metrics.json")["metrics"]["association"]["value"] == pytest.approx(
        values.mean(), abs=1e-6
    )
    return values.mean(), math.sqrt(np.square(sums).sum()) / len(values)


@pytest.mark.slow
def test_association_follows_the_planted_strength(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    rows = items.stereoset_rows(Society(1), Sizes().stereoset, {})
    write_jsonl(tmp_path / "data/intrasentence.jsonl", rows)
    means = []
    for strength in STRENGTHS:
        folder = tmp_path / f"model-{strength}"
        model = AutoModelForCausalLM.from_pretrained(WEIGHTS, dtype=torch.float32)
        shutil.copytree(WEIGHTS, folder)
        taught(model, tokenizer, weaker(strength)).save_pretrained(folder)
        mean, error = measured(folder, tmp_path / "data", tmp_path / f"out-{strength}")
        print(f"strength {strength}: {mean:+.3f} ± {1.96 * error:.3f} nats")
        means.append(mean)
        if not strength:
            assert abs(mean) < 1.96 * error
    assert means == sorted(means)
    assert np.corrcoef(STRENGTHS, means)[0, 1] >= 0.95
