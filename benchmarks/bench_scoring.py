"""Benchmark of our scoring beside lm-eval's Hugging Face model, run by hand.

    python benchmarks/bench_scoring.py --model MODEL --data FOLDER --out rates.jsonl

FOLDER has hellaswag/, crows_pairs/, mmlu/ and bbq/. Their items become lm-eval's own requests
(context, continuation); the same requests are scored by ours and by lm-eval's HFLM at several
batch sizes, each run a process of its own, one after the other on an otherwise idle machine.
Loading is not measured, tokenising is. An item's decision is its likeliest continuation.
"""

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COUNTS = {"hellaswag": 500, "crows_pairs": 1508, "mmlu": 570, "bbq": 1000}


def written(task: str, data: Path, count: int) -> list[list[list[str]]]:
    """Return lm-eval's requests of each item; ``count`` items are drawn with seed 0."""
    from lm_eval.tasks.bbq.utils import UNKNOWN_RESPONSES

    from evenprune.data.readers.bbq import read_bbq
    from evenprune.data.readers.choice import read_hellaswag, read_mmlu
    from evenprune.data.readers.crows_pairs import read_crows_pairs
    from evenprune.tasks.mmlu import HEADER

    read = {
        "hellaswag": lambda: read_hellaswag(data / task),
        "crows_pairs": lambda: read_crows_pairs(data / task, "anonymized"),
        "mmlu": lambda: read_mmlu(data / task, "test"),
        "bbq": lambda: read_bbq(data / task),
    }
    items = read[task]()
    items = random.Random(0).sample(items, min(count, len(items)))
    if task == "crows_pairs":
        return [[["", one.sent_more], ["", one.sent_less]] for one in items]
    if task == "hellaswag":
        return [[[one.query, f" {choice}"] for choice in one.choices] for one in items]
    if task == "mmlu":
        found = []
        for one in items:
            header = HEADER.replace("{{subject}}", one.category.replace("_", " "))
            lines = [f"{letter}. {choice}" for letter, choice in zip("ABCD", one.choices)]
            prompt = "\n".join([header + one.query.strip(), *lines, "Answer:"])
            found.append([[prompt, f" {letter}"] for letter in "ABCD"])
        return found
    found = []
    for one in items:
        own = [one.ans0, one.ans1, one.ans2]
        known = [a for a, group in zip(own, one.info.column(1)) if group != "unknown"]
        prompt = f"{one.context}\n\nQ: {one.question}\nA:"
        found.append([[prompt, f" {choice}"] for choice in [*known, *UNKNOWN_RESPONSES]])
    return found


def score(args: argparse.Namespace) -> None:
    """Score the requests of a file with one side in this process; print times and decisions."""
    import torch
    from lm_eval.api.instance import Instance

    torch.set_num_threads(args.threads)
    logging.disable(logging.WARNING)
    items = json.loads(args.requests.read_text())
    requests = [
        Instance("loglikelihood", {}, tuple(request), k, task_name="bench")
        for k, item in enumerate(items)
        for request in item
    ]
    if args.side == "ours":
        from evenprune.language_models.language_model import load_language_model
        from evenprune.tasks.harness import Harness
        from evenprune.tasks.protocol import Protocol

        lm = load_language_model(args.model, "cpu")
        lm.shares_prefixes  # noqa: B018  tried once a model, not once a benchmark
        model = Harness(lm, Protocol(task="hellaswag", batch_size=args.batch)).model
    else:
        from lm_eval.models.huggingface import HFLM

        model = HFLM(pretrained=str(args.model), device="cpu", dtype="auto", batch_size=args.batch)
    start = time.perf_counter(), time.process_time()
    scores = iter(model.loglikelihood(requests, disable_tqdm=True))
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    found = []
    for item in items:
        values = [next(scores)[0] for _ in item]
        found.append(values.index(max(values)))
    print(json.dumps({"seconds": wall, "cpu_seconds": cpu, "decisions": found}))


def main() -> None:
    """Parse the command line; run ours, then lm-eval with each batch size, task by task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--tasks", nargs="+", choices=list(COUNTS), default=list(COUNTS))
    parser.add_argument("--count", type=int, help="items; by default 500, 1,508, 570, 1,000")
    parser.add_argument("--peer-batches", type=int, nargs="*", default=[1, 8, 32, 64])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--batch", type=int, default=32, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=("ours", "peer"), help=argparse.SUPPRESS)
    parser.add_argument("--requests", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        score(args)
        return
    sys.path.insert(0, str(HERE.parent / "src"))
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = str(HERE.parent / "src")
    for task in args.tasks:
        with tempfile.TemporaryDirectory() as folder:
            requests = Path(folder) / "requests.json"
            items = written(task, args.data, args.count or COUNTS[task])
            requests.write_text(json.dumps(items))
            ours: dict = {}
            for side, batch in [("ours", 32), *(("peer", n) for n in args.peer_batches)]:
                command = [
                    sys.executable, __file__, "--side", side, "--model", str(args.model),
                    "--threads", str(args.threads), "--batch", str(batch),
                    "--requests", str(requests),
                ]  # fmt: skip
                done = subprocess.run(
                    command, env=environment, stdout=subprocess.PIPE, text=True, check=True
                )
                row = json.loads(done.stdout.splitlines()[-1])
                found = row.pop("decisions")
                ours = ours or {**row, "decisions": found}
                equal = sum(a == b for a, b in zip(ours["decisions"], found, strict=True))
                row = {"task": task, "run": f"{side}, batch {batch}", "items": len(found), **row}
                row["equal"] = equal / len(found)
                row["ours_faster"] = row["seconds"] / ours["seconds"]
                line = json.dumps(row)
                print(line, flush=True)
                if args.out:
                    with open(args.out, "a", encoding="utf-8") as out:
                        out.write(line + "\n")


if __name__ == "__main__":
    main()
