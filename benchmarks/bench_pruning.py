"""Benchmarks of the pruning engine, run by hand: speed beside llm-compressor, memory, kills.

    python benchmarks/bench_pruning.py speed --pairs pairs.jsonl --peer .venv-peer/bin/python
    python benchmarks/bench_pruning.py memory --pairs pairs.jsonl
    python benchmarks/bench_pruning.py memory --pairs pairs.jsonl --method debias-gradient
    python benchmarks/bench_pruning.py kill --pairs pairs.jsonl

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
import time
from pathlib import Path

import torch

from evenprune.base.onednn import ONEDNN, is_faster, linear, subtract_product
from evenprune.data.calibration import TokenPair
from evenprune.pruning.factor import inverse_factor
from evenprune.pruning.hessian import Gram, Plan
from evenprune.pruning.packing import CPU_TOKENS, pack_pairs
from pruning_cases import (
    INTERMEDIATE,
    equal_pairs,
    last_hidden_states,
    make_model,
    make_tokenizer,
    measured,
)

HERE = Path(__file__).resolve().parent
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


def prepare(work: Path, args: argparse.Namespace, dtype: torch.dtype) -> tuple[list, list]:
    """Write model, tokenizer and calibration text; return calibration and held-out pairs."""
    make_model(work / "base", args.hidden, args.layers, dtype)
    rows = [json.loads(line) for line in args.pairs.read_text().splitlines()]
    sentences = [row[name] for row in rows for name in ("stereotype", "anti_stereotype")]
    pairs = equal_pairs(args.pairs, make_tokenizer(work / "base", sentences))
    random.Random(0).shuffle(pairs)
    chosen, held_out = pairs[: args.count], pairs[args.count : args.count + 200]
    with open(work / "pairs.jsonl", "w", encoding="utf-8") as out:
        for row in chosen:
            out.write(json.dumps({name: row[name] for name in FIELDS}) + "\n")
    return chosen, held_out


@torch.no_grad()
def floor_seconds(pairs: list[dict], hidden: int, inner: int, layers: int) -> dict[str, float]:
    """Return the time of the matrix products that pruning cannot do without, each measured.

    They are those that pruning takes, oneDNN's or torch's own as ``EVENPRUNE_ONEDNN`` says.
    Forward passes of packed pairs (the last block once, down_proj only where its output is used),
    one Gram matrix for each distinct input, its factor, and the products that carry the weight
    update to later columns. Best of three for each shape.
    """

    def best(run) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return min(times)

    tokens = [
        TokenPair(row["id"], "", tuple(row["ids"][0]), tuple(row["ids"][1]), ()) for row in pairs
    ]
    batches = pack_pairs(tokens, [0.0] * len(tokens), True, CPU_TOKENS)
    sizes = [batch.parts[0].ids.numel() for batch in batches]
    total = dict.fromkeys(("forward", "hessian", "factor", "update"), 0.0)
    none = torch.zeros(0, dtype=torch.int64)
    for size in sizes:
        narrow, wide = torch.randn(size, hidden), torch.randn(size, inner)
        square, up = torch.randn(hidden, hidden), torch.randn(inner, hidden)
        down = torch.randn(hidden, inner)
        first = 4 * best(lambda x=narrow, w=square: linear(x, w))
        first += 2 * best(lambda x=narrow, w=up: linear(x, w))
        second = first + best(lambda x=wide, w=down: linear(x, w))
        total["forward"] += layers * first + (layers - 1) * second
        plan = Plan(torch.ones(size), none, none, torch.zeros(0))
        for x, count in ((narrow, 3), (wide, 1)):
            gram = Gram(x.shape[1], "cpu")
            total["hessian"] += layers * count * best(lambda g=gram, x=x, p=plan: g.add(x, p))
    for width, rows, count in (
        (hidden, 3 * hidden, 1), (hidden, hidden, 1), (hidden, 2 * inner, 1), (inner, hidden, 1)
    ):  # fmt: skip
        x = torch.randn(2 * width, width)
        gram = x.T @ x
        total["factor"] += layers * count * best(lambda g=gram: inverse_factor(g, 0.01))
        weight, factor = torch.randn(width, rows), gram / gram.max()

        def update(weight=weight, factor=factor, width=width) -> None:
            for start in range(0, width, 128):
                stop = min(start + 128, width)
                left = factor[start:stop, stop:].T
                subtract_product(weight[stop:], left, weight[start:stop])

        total["update"] += layers * count * best(update)
    return total | {"seconds": sum(total.values())}


def speed(args: argparse.Namespace) -> None:
    """Compare our runs with the peer's on the same model and pairs; print quality beside time."""
    threads = args.threads
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(dir=args.work) as name:
        work = Path(name)
        pairs, held_out = prepare(work, args, torch.float32)
        sentences = [ids for row in held_out for ids in row["ids"]]
        dense = last_hidden_states(work / "base", sentences)

        def finish(row: dict, out: Path) -> None:
            change = last_hidden_states(out, sentences) - dense
            emit(args, row | {"held_out_error": float(change.norm() / dense.norm())})
            shutil.rmtree(out)

        asked = os.environ.get(ONEDNN, "")
        for run, products in (("floor", asked), ("floor, torch's own products", "0")):
            os.environ[ONEDNN] = products
            is_faster.cache_clear()
            floor = floor_seconds(pairs, args.hidden, INTERMEDIATE[args.hidden], args.layers)
            emit(args, {"run": run, **floor})
        os.environ[ONEDNN] = asked
        for method, packing in (
            ("sparsegpt", "shared-prefix"),
            ("debias-sparsegpt", "shared-prefix"),
            ("sparsegpt", "sentences"),
            ("wanda", "shared-prefix"),
        ):
            out = work / "ours"
            row = child(
                sys.executable, "bench_pruning.py", "one", "--model", str(work / "base"),
                "--pairs", str(work / "pairs.jsonl"), "--result", str(out), "--method", method,
                "--packing", packing, threads=threads,
            )  # fmt: skip
            finish({"run": f"ours {method} {packing}", **row}, out)
        for batch in args.peer_batches if args.peer else ():
            out = work / "peer"
            row = child(
                args.peer, "peer_llmcompressor.py", str(work / "base"), str(work / "pairs.jsonl"),
                str(out), str(batch), threads=threads,
            )  # fmt: skip
            finish({"run": f"llm-compressor sparsegpt batch {batch}", **row}, out)


def one(args: argparse.Namespace) -> None:
    """Prune once in this process and print the measurements; loading and saving included."""
    from evenprune.cli import entry

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    # Everything is imported before the clock starts, as in the peer's script.
    import evenprune.pruning.engine  # noqa: F401

    command = [
        "prune", "--model", str(args.model), "--pairs", str(args.pairs), "--out", str(args.result),
        "--method", args.method, "--regime", "2of4", "--packing", args.packing,
        "--device", "cpu",
    ]  # fmt: skip
    if args.method == "debias-gradient":
        command += ["--gradient-steps", "1"]
    row = measured(lambda: entry(command))
    provenance = json.loads((args.result / "provenance.json").read_text())
    print(json.dumps(row | {"blocks": provenance["blocks"]}))


def memory(args: argparse.Namespace) -> None:
    """Measure the peak memory of pruning a 1.1-billion-parameter shape, for several depths."""
    args.hidden, args.count = 2048, 200
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


def kill(args: argparse.Namespace) -> None:
    """Kill one pruning run 20 times at random moments; compare the bytes with a whole run's."""
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads)}
    environment["PYTHONPATH"] = str(HERE.parent / "src")
    with tempfile.TemporaryDirectory(dir=args.work) as name:
        work = Path(name)
        prepare(work, args, torch.float32)

        def command(out: Path) -> list[str]:
            return [
                sys.executable, "-m", "evenprune", "prune", "--model", str(work / "base"),
                "--pairs", str(work / "pairs.jsonl"), "--method", "debias-sparsegpt",
                "--regime", "2of4", "--out", str(out),
            ]  # fmt: skip

        def contents(folder: Path) -> dict[str, bytes]:
            files = sorted(folder.iterdir())
            return {f.name: f.read_bytes() for f in files if f.name != "provenance.json"}

        start = time.monotonic()
        subprocess.run(command(work / "whole"), env=environment, check=True, capture_output=True)
        duration = time.monotonic() - start
        rng, kills, finished = random.Random(0), 0, 0
        while kills < 20:
            process = subprocess.Popen(
                command(work / "out"), env=environment, stderr=subprocess.DEVNULL
            )
            try:
                process.wait(duration * rng.random())
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
            if (work / "out").exists():  # the run was done: begin another one
                finished += 1
                assert contents(work / "out") == contents(work / "whole")
                shutil.rmtree(work / "out")
        subprocess.run(command(work / "out"), env=environment, check=True, capture_output=True)
        equal = contents(work / "out") == contents(work / "whole")
        emit(args, {"run": "kill", "kills": kills, "finished": finished + 1, "equal": equal})


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
    for name, function in (("speed", speed), ("memory", memory), ("kill", kill)):
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(function=function)
        command.add_argument("--pairs", type=Path, required=True)
        command.add_argument("--out", type=Path)
        command.add_argument("--work", type=Path, help="folder for models, default: temporary")
        command.add_argument("--threads", type=int, default=os.cpu_count())
        command.add_argument("--hidden", type=int, default=512, choices=(256, 512, 1024))
        command.add_argument("--layers", type=int, default=8)
        command.add_argument("--count", type=int, default=500, help="pairs")
        if name == "speed":
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
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
