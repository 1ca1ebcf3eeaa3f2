"""Peak memory of pruning a mixture-of-experts model, for several numbers of experts.

    python benchmarks/moe_memory.py --experts 8 32

Each run is a process of its own on a random Mixtral-shaped model (float32, two blocks) and 60 pairs
of random tokens, debias-sparsegpt at 2of4. Prints a JSON line for each: the peak above that of an
idle process, beside what one block's experts, the Hessians of one expert and those of all take.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, MixtralConfig

from evenprune.data.calibration import TokenizedPairs, TokenPair
from evenprune.pruning.calibration_text import Text
from evenprune.pruning.engine import prune_model
from evenprune.pruning.options import Options
from pruning_cases import measured, peak_mb

HIDDEN, INNER, VOCABULARY, PAIRS = 256, 1024, 1000, 60
MB = 2**20


def make(folder: Path, experts: int) -> None:
    """Write the random model."""
    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, num_local_experts=experts,
        num_experts_per_tok=2, max_position_embeddings=64,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def pairs() -> Text:
    """Return pairs of random tokens that differ in one place."""
    rng = random.Random(0)
    found = []
    for number in range(PAIRS):
        one = [rng.randrange(VOCABULARY) for _ in range(30)]
        two = list(one)
        two[rng.randrange(1, 30)] = rng.randrange(VOCABULARY)
        matches = tuple((k, k) for k in range(30))
        found.append(TokenPair(f"pair-{number}", "all", tuple(one), tuple(two), matches))
    return Text(TokenizedPairs(found, 0, {}))


def one(folder: Path, experts: int) -> None:
    """Prune in this process; print what it took."""
    before = peak_mb()
    options = Options("debias-sparsegpt", "2of4")
    row = measured(lambda: prune_model(folder / "base", options, pairs(), folder / "out"))
    hessians = (HIDDEN**2 + INNER**2) * 4 / MB
    result = {
        "experts": experts,
        "above_idle_mb": row["peak_mb"] - before,
        "experts_of_a_block_mb": experts * 3 * HIDDEN * INNER * 4 / MB,
        "hessians_of_an_expert_mb": hessians,
        "hessians_of_all_mb": experts * hessians,
        "cpu_seconds": row["cpu_seconds"],
    }
    print(json.dumps({k: round(value, 1) for k, value in result.items()}))


def main() -> None:
    """Run each number of experts in its own process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--experts", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--folder", type=Path, help="prune the model in this folder only")
    args = parser.parse_args()
    if args.folder:
        one(args.folder, args.experts[0])
        return
    for experts in args.experts:
        with tempfile.TemporaryDirectory() as name:
            make(Path(name) / "base", experts)
            command = [sys.executable, __file__, "--folder", name, "--experts", str(experts)]
            subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
