"""Benchmark of option scoring beside lm-eval's Hugging Face model, run by hand.

    python benchmarks/bench_scoring.py --model MODEL --data UNQOVER_FOLDER --out rates.jsonl

Scores the same UnQover questions (style fairsteer, one order) with ours and through lm-eval's
HFLM, each run a process of its own, one after the other on an otherwise idle machine. Loading
is not measured, tokenising is. Prints one JSON line a run with items per second and how many
predictions are those of ours.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def ours(args: argparse.Namespace, prompts: list) -> list[int]:
    """Score with score_prompts; return the predictions."""
    from evenprune.evaluation.language_model import load_language_model
    from evenprune.evaluation.lettered_options import score_prompts

    lm = load_language_model(args.model, "cpu")
    lm.shares_prefixes  # noqa: B018  tried once a model, not once a benchmark
    args.clock()
    found = score_prompts(lm, prompts, args.batch_size, label="unqover")
    return [max(range(3), key=score.logits.__getitem__) for score in found]


def peer(args: argparse.Namespace, prompts: list) -> list[int]:
    """Score with lm-eval's HFLM as its multiple-choice tasks do; return the predictions."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    logging.disable(logging.WARNING)
    model = HFLM(pretrained=str(args.model), device="cpu", batch_size=args.batch_size)
    args.clock()
    requests = [
        Instance("loglikelihood", {}, (prefix, option), k)
        for prefix, options in prompts
        for k, option in enumerate(options)
    ]
    scores = [score for score, _ in model.loglikelihood(requests, disable_tqdm=True)]
    return [max(range(3), key=scores[k : k + 3].__getitem__) for k in range(0, len(scores), 3)]


def one(args: argparse.Namespace) -> None:
    """Run one side in this process and print its time and predictions."""
    import torch

    from evenprune.data.prompts import unqover_prompt
    from evenprune.data.readers.unqover import read_unqover
    from evenprune.evaluation.lettered_options import shown_item

    torch.set_num_threads(args.threads)
    items = read_unqover(args.data)[: args.count]
    prompts = [unqover_prompt(shown_item(item), "fairsteer") for item in items]
    times: list[tuple[float, float]] = []
    args.clock = lambda: times.append((time.perf_counter(), time.process_time()))
    found = {"ours": ours, "peer": peer}[args.side](args, prompts)
    args.clock()
    wall, cpu = (end - start for start, end in zip(*times))
    row = {"items": len(items), "seconds": wall, "cpu_seconds": cpu, "rate": len(items) / wall}
    print(json.dumps(row | {"predictions": found}))


def main() -> None:
    """Parse the command line, run ours and then lm-eval with each batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with datas_rebuilt.jsonl")
    parser.add_argument("--count", type=int, help="questions, default: all 40,008")
    parser.add_argument("--batch-size", type=int, default=32, help="ours, its default: 32")
    parser.add_argument("--peer-batches", type=int, nargs="*", default=[1, 32, 64])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", choices=("ours", "peer"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        one(args)
        return
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = str(HERE.parent / "src")
    expected: list[int] = []
    first = 0.0
    for side, batch in [("ours", args.batch_size), *(("peer", n) for n in args.peer_batches)]:
        command = [
            sys.executable, __file__, "--side", side, "--model", str(args.model), "--data",
            str(args.data), "--threads", str(args.threads), "--batch-size", str(batch),
        ]  # fmt: skip
        if args.count:
            command += ["--count", str(args.count)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        row = json.loads(done.stdout.splitlines()[-1])
        found = row.pop("predictions")
        expected, first = expected or found, first or row["rate"]
        row["equal"] = sum(a == b for a, b in zip(expected, found, strict=True)) / len(found)
        row["ours_faster"] = first / row["rate"]
        line = json.dumps({"run": f"{side} batch {batch}", **row})
        print(line, flush=True)
        if args.out:
            with open(args.out, "a", encoding="utf-8") as out:
                out.write(line + "\n")


if __name__ == "__main__":
    main()
