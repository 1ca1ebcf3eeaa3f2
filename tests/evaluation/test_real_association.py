"""Does association see stereotypes in a real model? Controls on SmolLM2-135M-Instruct.

Groups drawn at random must give 0; models taught stereotypes must have more of it, models taught
the opposite less. They learn from StereoSet's development set and are judged on its test set,
whose groups are others. A quarter of an hour, so it runs with EVENPRUNE_VALIDITY=1 only.
"""

import functools
import os
import random
import shutil
from dataclasses import asdict

import pytest
import torch
from real_model import real_data, smollm2_folder
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune import cli
from evenprune.data.counterfactuals import about
from evenprune.data.readers.stereoset import read_stereoset
from evenprune.io.files import read_jsonl, write_jsonl

ITEMS, OTHERS = 1000, 2
STEPS, BATCH, RATE = 130, 16, 1e-4  # one epoch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        "EVENPRUNE_VALIDITY" not in os.environ, reason="a quarter of an hour: EVENPRUNE_VALIDITY=1"
    ),
]


def taught(side, out):
    """Write the model after it has read one side of the development set's pairs."""
    folder = smollm2_folder()
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("*.safetensors"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    texts = [getattr(item, side) for item in read_stereoset(real_data("stereoset"))]
    rng = random.Random(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    for _ in range(STEPS):
        rows = [tokenizer(text)["input_ids"] for text in rng.sample(texts, BATCH)]
        rows = [torch.tensor([tokenizer.bos_token_id, *row]) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(rows, True, -100)
        model(ids.clamp(min=0), labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    model.save_pretrained(out)
    return out


def regrouped(out):
    """Write the test items, each about a group of its bias type drawn at random."""
    rng = random.Random(0)
    items = read_stereoset(real_data("stereoset_test"))
    groups = {}
    for item in items:
        groups.setdefault(item.category, {})[item.target.casefold()] = item.target
    rows = []
    for item in items:
        target = rng.choice(sorted(groups[item.category].values()))
        sides = {
            side: about(getattr(item, side), item.target, target)
            for side in ("stereotype", "anti_stereotype", "unrelated")
        }
        if all(sides.values()):
            rows.append(asdict(item) | sides | {"target": target})
    write_jsonl(out / "intrasentence.jsonl", [row_of(row) for row in rows])
    return out


def row_of(item):
    """An item as StereoSet's own file has it."""
    sides = ("stereotype", "anti_stereotype", "unrelated")
    return {
        "id": item["id"], "target": item["target"], "bias_type": item["category"],
        "context": item["context"],
        "sentences": [
            {"id": side, "sentence": item[side], "gold_label": side.replace("_", "-")}
            for side in sides
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    @functools.cache
    def measure(folder, data=None):
        out = tmp_path_factory.mktemp("evaluated")
        words = ["--model", folder, "--benchmark", "stereoset", "--out", out / "records"]
        words += ["--data", data or real_data("stereoset_test"), "--limit", ITEMS]
        assert cli.main(["evaluate", *map(str, words), "--counterfactuals", str(OTHERS)]) == 0
        rows = read_jsonl(out / "records/items.jsonl")
        return {row["item_id"]: (row["cluster"], row["association"]) for row in rows}

    return measure


def moments(found, base=None):
    """The mean, or the mean difference from ``base``, and z, clustered by target word."""
    sums = {}
    for name, (cluster, value) in found.items():
        if value is not None:
            total, count = sums.get(cluster, (0.0, 0))
            less = base[name][1] if base else 0.0
            sums[cluster] = (total + value - less, count + 1)
    mean = sum(one for one, _ in sums.values()) / sum(n for _, n in sums.values())
    n, m = sum(n for _, n in sums.values()), len(sums)
    variance = sum((one - n_ * mean) ** 2 for one, n_ in sums.values()) * m / (m - 1) / n**2
    return mean, mean / variance**0.5


def test_groups_drawn_at_random_have_no_association(measured, tmp_path):
    mean, z = moments(measured(smollm2_folder(), regrouped(tmp_path)))
    print(f"groups at random: {mean:+.3f} nats, z {z:+.1f}")
    assert abs(z) < 1.96


def test_the_model_itself_has_association(measured):
    mean, z = moments(measured(smollm2_folder()))
    print(f"dense: {mean:+.3f} nats, z {z:+.1f}")
    assert z > 5


@pytest.mark.parametrize(("side", "sign"), [("stereotype", 1), ("anti_stereotype", -1)])
def test_fine_tuning_moves_it(measured, tmp_path, side, sign):
    found = measured(taught(side, tmp_path / "model"))
    mean, z = moments(found, measured(smollm2_folder()))
    print(f"taught {side}: {mean:+.3f} nats, z {z:+.1f}")
    assert sign * z > 1.96


def test_reversed_adapters_raise_it(measured, tmp_path):
    out = tmp_path / "pruned"
    words = ["--model", smollm2_folder(), "--method", "debias-lora", "--regime", "dense"]
    words += ["--lora-scale", "-1", "--calibration", "ss-b64-cf4", "--out", out]
    assert cli.main(["prune", *map(str, words)]) == 0
    mean, z = moments(measured(out), measured(smollm2_folder()))
    print(f"reversed adapters: {mean:+.3f} nats, z {z:+.1f}")
    assert z > 3
