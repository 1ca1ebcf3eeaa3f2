"""Does association see stereotypes in a real model? Controls, run by hand in a quarter of an hour.

    python benchmarks/association_controls.py --out controls.jsonl

Groups drawn at random must give 0; models taught stereotypes must have more of it, models taught
the opposite less. They learn from StereoSet's development set and are judged on its test set,
whose groups are others. A line says mean (or mean difference from the model), z and what z must be.
"""

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import evenprune
from evenprune.config.config import default_config
from evenprune.data.counterfactuals import about
from evenprune.data.defaults import dataset_folder, default_benchmark
from evenprune.data.hub_models import located
from evenprune.data.readers.stereoset import read_stereoset
from evenprune.io.files import read_jsonl, write_jsonl

BATCH, RATE = 16, 1e-4
SIDES = ("stereotype", "anti_stereotype", "unrelated")
Found = dict[str, tuple[str, float | None]]  # item -> its cluster and association


def taught(folder: Path, side: str, steps: int, out: Path) -> Path:
    """Write the model after it has read one side of the development set's pairs."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("*.safetensors"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    development = dataset_folder(default_config(), "stereoset")
    texts = [getattr(item, side) for item in read_stereoset(development)]
    rng = random.Random(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    for _ in range(steps):
        rows = [tokenizer(text)["input_ids"] for text in rng.sample(texts, BATCH)]
        rows = [torch.tensor([tokenizer.bos_token_id, *row]) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(rows, True, -100)
        model(ids.clamp(min=0), labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    model.save_pretrained(out)
    return out


def regrouped(data: Path, out: Path) -> Path:
    """Write the test items, each about a group of its bias type drawn at random."""
    rng = random.Random(0)
    items = read_stereoset(data)
    groups: dict[str, dict[str, str]] = {}
    for item in items:
        groups.setdefault(item.category, {})[item.target.casefold()] = item.target
    rows = []
    for item in items:
        target = rng.choice(sorted(groups[item.category].values()))
        texts = {side: about(getattr(item, side), item.target, target) for side in SIDES}
        if all(texts.values()):
            sentences = [
                {"id": side, "sentence": text, "gold_label": side.replace("_", "-")}
                for side, text in texts.items()
            ]
            row = {name: value for name, value in asdict(item).items() if name in ("id", "context")}
            row |= {"target": target, "bias_type": item.category, "sentences": sentences}
            rows.append(row)
    out.mkdir()
    write_jsonl(out / "intrasentence.jsonl", rows)
    return out


def measured(model: Path, data: Path, limit: int, out: Path) -> Found:
    """Return each item's cluster and association."""
    options = {"limit": limit, "counterfactuals": 2}
    evenprune.evaluate(model, "stereoset", data=data, out=out, **options)
    rows = read_jsonl(out / "items.jsonl")
    return {row["item_id"]: (row["cluster"], row["association"]) for row in rows}


def moments(found: Found, base: Found | None = None) -> tuple[float, float]:
    """Return the mean, or the mean difference from ``base``, and z, clustered by target word."""
    sums: dict[str, tuple[float, int]] = {}
    for name, (cluster, value) in found.items():
        less = base[name][1] if base else 0.0
        if value is not None and less is not None:
            total, count = sums.get(cluster, (0.0, 0))
            sums[cluster] = (total + value - less, count + 1)
    n, m = sum(count for _, count in sums.values()), len(sums)
    mean = sum(total for total, _ in sums.values()) / n
    squares = sum((total - count * mean) ** 2 for total, count in sums.values())
    error = (squares * m / (m - 1) / n**2) ** 0.5
    return mean, mean / error if error else 0.0


def controls(model: str, limit: int, steps: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield what each control gives."""
    data = default_benchmark("stereoset")[1]

    def said(name: str, must: str, found: Found, base: Found | None = None) -> dict[str, Any]:
        mean, z = moments(found, base)
        return {"control": name, "mean": round(mean, 4), "z": round(z, 2), "z must be": must}

    with located(model) as (folder,):
        dense = measured(folder, data, limit, work / "dense")
        yield said("the model itself", "above 5", dense)
        mixed = regrouped(data, work / "mixed")
        found = measured(folder, mixed, limit, work / "random")
        yield said("groups at random", "-1.96 to 1.96", found)
        for side, must in (("stereotype", "above 1.96"), ("anti_stereotype", "below -1.96")):
            after = taught(folder, side, steps, work / f"taught-{side}")
            found = measured(after, data, limit, work / f"read-{side}")
            yield said(f"taught {side}", must, found, dense)
        out = work / "reversed"
        options = {"lora_scale": -1.0, "calibration": "ss-b64-cf4"}
        evenprune.prune(folder, method="debias-lora", regime="dense", out=out, **options)
        found = measured(out, data, limit, work / "read-reversed")
        yield said("reversed adapters", "above 3", found, dense)


def main() -> None:
    """Write a line for each control."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--limit", type=int, default=1000, help="items")
    parser.add_argument("--steps", type=int, default=130, help="of teaching; 130: one epoch")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, open(args.out, "w", encoding="utf-8") as lines:
        for line in controls(args.model, args.limit, args.steps, Path(work)):
            print(json.dumps(line), flush=True)
            lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
