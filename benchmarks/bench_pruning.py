"""Benchmarks of the pruning engine, run by hand: speed next to llm-compressor, and memory.

    python benchmarks/bench_pruning.py speed --pairs pairs.jsonl --peer .venv-peer/bin/python
    python benchmarks/bench_pruning.py speed --pairs pairs.jsonl --model DIR --count 1427 --peer …
    python benchmarks/bench_pruning.py speed … --texts texts.jsonl --prose wiki.test.raw
    python benchmarks/bench_pruning.py memory --pairs pairs.jsonl

``pairs.jsonl`` are StereoSet's pairs in the form that ``prune`` reads (build-calibration
writes it). `evenprune gpu-check` measures on a GPU. The peer needs an environment of its own:

    python3.11 -m venv .venv-peer && .venv-peer/bin/pip install llmcompressor==0.14.0.1

Each run is a process of its own with the same number of threads, one after the other on an
otherwise idle machine. Every command prints JSON lines; --out also writes them to a file.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.benchmark import Timer
from transformers import AutoConfig, AutoTokenizer

from pruning_cases import (
    INTERMEDIATE,
    equal_pairs,
    last_hidden_states,
    make_model,
    make_tokenizer,
    measured,
    perplexity,
)

HERE = Path(__file__).resolve().parent
RUNS = (
    ("sparsegpt", "shared-prefix"),
    ("debias-sparsegpt", "shared-prefix"),
    ("sparsegpt", "sentences"),
    ("wanda", "shared-prefix"),
)
FIELDS = ("id", "category", "stereotype", "anti_stereotype")


def child(python: str, script: str, *arguments: str, threads: int) -> dict:
    """Run a script in its own process and return the JSON of its last line."""
    paths = [str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    done = subprocess.run(
        [python, str(HERE / script), *arguments], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def prepare(work: Path, args: argparse.Namespace, dtype: torch.dtype) -> list:
    """Write model, tokenizer and calibration text; return held-out pairs."""
    if getattr(args, "model", None):
        (work / "base").symlink_to(args.model.resolve())
        tokenizer = AutoTokenizer.from_pretrained(args.model)
    else:
        make_model(work / "base", args.hidden, args.layers, dtype)
        rows = [json.loads(line) for line in args.pairs.read_text().splitlines()]
        sentences = [row[name] for row in rows for name in ("stereotype", "anti_stereotype")]
        tokenizer = make_tokenizer(work / "base", sentences)
    pairs = equal_pairs(args.pairs, tokenizer)
    random.Random(0).shuffle(pairs)
    chosen, held_out = pairs[: args.count], pairs[args.count : args.count + 200]
    with open(work / "pairs.jsonl", "w", encoding="utf-8") as out:
        for row in chosen:
            out.write(json.dumps({name: row[name] for name in FIELDS}) + "\n")
    texts = getattr(args, "texts", None)
    (work / "texts.jsonl").write_text(texts.read_text() if texts else "")
    return held_out


def floor(folder: Path, pairs: Path, texts: Path, threads: int) -> dict[str, float]:
    """Return the seconds of the products that SparseGPT cannot do without, at this CPU's rates.

    Each block runs twice, in bfloat16, over the tokens (a pair's common prefix once). The upper
    triangle of each Hessian comes in float32 (with AMX in bfloat16), its factor and the updates of
    the weights in float32. Attention, reading and writing are left out.
    """
    from evenprune.data.calibration import common_prefix
    from evenprune.io import onednn

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = 0
    for row in map(json.loads, pairs.read_text().splitlines()):
        a, b = tokenizer([row["stereotype"], row["anti_stereotype"]])["input_ids"]
        tokens += len(a) + len(b) - common_prefix(a, b)
    for row in map(json.loads, texts.read_text().splitlines()):
        tokens += len(tokenizer(row["text"])["input_ids"])
    config = AutoConfig.from_pretrained(folder)
    h, wide = config.hidden_size, config.intermediate_size
    kv = h * config.num_key_value_heads // config.num_attention_heads
    inputs = {h: [h + 2 * kv, h, 2 * wide], wide: [h]}  # widths of the outputs of each input
    pairs_of = [(width, out) for width, outs in inputs.items() for out in outs]
    forward = sum(2 * 2 * tokens * width * out for width, out in pairs_of)
    hessian = sum(tokens * width**2 for width, _ in pairs_of)
    solve = sum(width**3 + out * width**2 for width, out in pairs_of)
    rate = {}
    for dtype in (torch.bfloat16, torch.float32):
        x, w = torch.randn(1024, wide).to(dtype), torch.randn(h, wide).to(dtype)
        known = {"linear": onednn.linear, "x": x, "w": w}
        timer = Timer("linear(x, w)", globals=known, num_threads=threads)
        rate[dtype] = 2 * x.numel() * h / timer.blocked_autorange(min_run_time=2).median
    gram = torch.bfloat16 if onednn.has_tiles() else torch.float32
    seconds = forward / rate[torch.bfloat16] + hessian / rate[gram] + solve / rate[torch.float32]
    return {
        "tokens": tokens,
        "bfloat16_gflops": rate[torch.bfloat16] / 1e9,
        "float32_gflops": rate[torch.float32] / 1e9,
        "seconds": config.num_hidden_layers * seconds,
    }


def speed(args: argparse.Namespace) -> None:
    """Compare our runs with the peer's on the same model and pairs; print quality beside time."""
    threads = args.threads
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(dir=args.work) as name:
        work = Path(name)
        held_out = prepare(work, args, torch.float32)
        sentences = [ids for row in held_out for ids in row["ids"]]
        dense = last_hidden_states(work / "base", sentences) if sentences else None

        def finish(row: dict, out: Path) -> None:
            if dense is not None:
                change = last_hidden_states(out, sentences) - dense
                row["held_out_error"] = float(change.norm() / dense.norm())
            if args.prose:
                row["perplexity"] = perplexity(out, work / "base", args.prose)
            emit(args, row)
            shutil.rmtree(out)

        def products() -> float:
            found = floor(work / "base", work / "pairs.jsonl", work / "texts.jsonl", threads)
            emit(args, {"run": "floor", **found})
            return found["seconds"]

        before = products()
        for method, packing in RUNS[: args.runs]:
            out = work / "ours"
            row = child(
                sys.executable, "bench_pruning.py", "one", "--model", str(work / "base"),
                "--pairs", str(work / "pairs.jsonl"), "--result", str(out), "--method", method,
                "--packing", packing, "--texts", str(work / "texts.jsonl"), threads=threads,
            )  # fmt: skip
            # A host's rates change within minutes: those before and after a run count for it.
            after = products()
            times = {"floors": 2 * row["seconds"] / (before + after)}
            before = after
            finish({"run": f"ours {method} {packing}", **times, **row}, out)
        for batch in args.peer_batches if args.peer else ():
            out = work / "peer"
            row = child(
                args.peer, "peer_llmcompressor.py", str(work / "base"), str(work / "pairs.jsonl"),
                str(work / "texts.jsonl"), str(out), str(batch), threads=threads,
            )  # fmt: skip
            finish({"run": f"llm-compressor sparsegpt batch {batch}", **row}, out)


def one(args: argparse.Namespace) -> None:
    """Prune once in this process and print the measurements; loading and saving included."""
    from evenprune.cli import entry

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    # Everything is imported before the clock starts, as in the peer's script.
    import transformers.modeling_layers  # noqa: F401

    import evenprune.pruning.engine
    import evenprune.pruning.prune  # noqa: F401

    command = [
        "prune", "--model", str(args.model), "--pairs", str(args.pairs), "--out", str(args.result),
        "--method", args.method, "--regime", "2of4", "--packing", args.packing,
        "--device", "cpu",
    ]  # fmt: skip
    if args.texts and args.texts.stat().st_size:
        command += ["--texts", str(args.texts)]
    row = measured(lambda: entry(command))
    provenance = json.loads((args.result / "provenance.json").read_text())
    print(json.dumps(row | {"blocks": provenance["blocks"]}))


def memory(args: argparse.Namespace) -> None:
    """Measure the peak memory of pruning for several depths, of a 1.1-billion-parameter shape."""
    idle = child(sys.executable, "idle_memory.py", threads=args.threads)["peak_mb"]
    for layers in args.depths:
        args.layers = layers
        with tempfile.TemporaryDirectory(dir=args.work) as name:
            work = Path(name)
            prepare(work, args, torch.bfloat16)
            size = sum(file.stat().st_size for file in (work / "base").glob("*.safetensors"))
            row = child(
                sys.executable, "bench_pruning.py", "one", "--model", str(work / "base"),
                "--pairs", str(work / "pairs.jsonl"), "--result", str(work / "out"),
                "--method", args.method, threads=args.threads,
            )  # fmt: skip
            row |= {"idle_mb": idle, "above_idle_mb": row["peak_mb"] - idle}
            emit(
                args,
                {
                    "run": f"memory, {args.method}, {layers} blocks",
                    "weights_mb": size / 2**20,
                    **row,
                },
            )


def emit(args: argparse.Namespace, row: dict) -> None:
    """Print one result and append it to --out."""
    line = json.dumps(row)
    print(line, flush=True)
    if args.out:
        with open(args.out, "a", encoding="utf-8") as out:
            out.write(line + "\n")


def main() -> None:
    """Parse the command line and run one benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    sizes = {"speed": (speed, 512, 500), "memory": (memory, 2048, 200)}
    for name, (function, hidden, count) in sizes.items():
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(function=function)
        command.add_argument("--pairs", type=Path, required=True)
        command.add_argument("--out", type=Path)
        command.add_argument("--work", type=Path, help="folder for models, default: temporary")
        command.add_argument("--threads", type=int, default=os.cpu_count())
        command.add_argument("--hidden", type=int, default=hidden, choices=INTERMEDIATE)
        command.add_argument("--layers", type=int, default=8)
        command.add_argument("--count", type=int, default=count, help="pairs")
        if name == "speed":
            command.add_argument(
                "--model", type=Path, help="a real model, in place of a random one"
            )
            command.add_argument("--texts", type=Path, help="further text for both sides")
            command.add_argument("--prose", type=Path, help="text to take the perplexity of")
            command.add_argument("--runs", type=int, default=len(RUNS), help="the first of ours")
            command.add_argument("--peer", help="python of the environment with llm-compressor")
            command.add_argument("--peer-batches", type=int, nargs="*", default=[1, 16, 64])
        if name == "memory":
            command.add_argument("--method", default="debias-sparsegpt")
            command.add_argument("--depths", type=int, nargs="*", default=[4, 16, 22])
    command = commands.add_parser("one", help=one.__doc__)
    command.set_defaults(function=one)
    command.add_argument("--model", type=Path, required=True)
    command.add_argument("--pairs", type=Path, required=True)
    command.add_argument("--result", type=Path, required=True)
    command.add_argument("--method", default="debias-sparsegpt")
    command.add_argument("--packing", default="shared-prefix")
    command.add_argument("--texts", type=Path)
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
