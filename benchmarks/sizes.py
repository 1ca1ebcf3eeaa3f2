"""Print time and memory of ordinary work at growing sizes, as a table of Markdown.

Each row is one process: seconds of the processor (user and system) and its peak memory. Memory and
time should grow no faster than the size. Of 200,000 items `--cases scored` takes ten minutes.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

REPO = Path(__file__).parents[1]
STEPS, EVENPRUNE = ("-m", "evenprune.steps"), ("-c", "from evenprune.cli import entry; entry()")
# What `prune` does before its first block.
BEFORE = """
import sys
from evenprune.pruning import engine, prune
engine.PruningRun._prune_block = lambda *_: sys.exit(0)
prune.prune("model", pairs="pairs.jsonl", out="pruned", method="debias-sparsegpt", regime="2of4",
            alignment="suffix", device="cpu")
"""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Case = tuple[str, int, str, list[str]]  # what, how many, of what, the command's words


def words(generator: random.Random, count: int) -> str:
    return " ".join(generator.choices(LETTERS, k=count))


def save_model(positions: int) -> None:
    """Write a model of one block, in another process: a child's peak begins with its parent's."""
    told = f"Path('model'), max_position_embeddings={positions}, num_hidden_layers=1"
    code = f"from pruning_models import Path, save_model; save_model({told})"
    measured(["-c", code])


def write_items(count: int) -> list[str]:
    """Write questions of the user's own and a model of one block; return what asks it."""
    draw = random.Random(count)
    save_model(512)
    with open("quiz.jsonl", "w", encoding="utf-8") as file:
        for k in range(count):
            item = {"question": f"{words(draw, 12)}?", "options": ["a", "b", "c"], "answer": k % 3}
            print(json.dumps(item | {"stereotype": (k + k % 2) % 3}), file=file)
    told = ("--benchmark", "multiple_choice", "--data", "quiz.jsonl", "--device", "cpu")
    return [*EVENPRUNE, "evaluate", "--model", "model", *told, "--out", "scores"]


def items(count: int) -> Iterator[Case]:
    """A benchmark of the user's own, of which ten items are scored."""
    yield "`evaluate --limit 10`", count, "items", [*write_items(count), "--limit", "10"]


def scored(count: int) -> Iterator[Case]:
    """The whole of it."""
    yield "`evaluate`", count, "items", write_items(count)
    yield "`compare`, recorded", count, "items", [*EVENPRUNE, "compare", "scores", "scores"]


def pairs(count: int) -> Iterator[Case]:
    """Pairs of two sentences of 512 tokens that differ in a word at the first quarter."""
    draw = random.Random(count)
    save_model(1024)
    with open("pairs.jsonl", "w", encoding="utf-8") as file:
        for _ in range(count):
            one, two = draw.sample(LETTERS, 2)
            head, tail = words(draw, 64), words(draw, 191)
            pair = {"stereotype": f"{head} {one} {tail}", "anti_stereotype": f"{head} {two} {tail}"}
            print(json.dumps(pair), file=file)
    told = ("--model", "model", "--pairs", "own", "--pairs-data", "pairs.jsonl", "--out", "built")
    build = [*STEPS, "build-calibration", *told, "--alignment", "suffix"]
    yield "`build-calibration`", count, "pairs", build
    yield "`prune`, before its first block", count, "pairs", ["-c", BEFORE]


def configuration(models: int, seeds: int, **more: object) -> str:
    """Write a configuration of ``models``, of which one is pruned in 10 ways with each seed."""
    entries = {f"m{k}": {"path": "model", "label": f"Model {k}"} for k in range(models)}
    grid = {"models": ["m0"], "regimes": ["2of4", "u50"], "seeds": list(range(seeds))}
    grid |= {"methods": ["wanda", "sparsegpt", "debias-sparsegpt", "b.2", "debias-lora"]}
    content = {
        **{"source": "external", "results": "results", "models": entries, "pdf": False},
        "methods": {"b.2": {"method": "debias-sparsegpt", "bias_weight": 2.0, "label": "b = 2"}},
        "calibrations": {"own": {"pairs": "pairs.jsonl", "alignment": "suffix"}},
        "benchmarks": {
            "quiz": {"task": "multiple_choice", "dataset": "quiz.jsonl"},
            "more": {"task": "multiple_choice", "dataset": "quiz.jsonl", "experiments": ["main"]},
        },
        "experiments": {"main": grid | {"calibrations": ["own"]}},
        "tables": ["main", "masks"],
        **more,
    }
    Path("run.yaml").write_text(json.dumps(content), encoding="utf-8")
    return "run.yaml"


def inputs() -> None:
    save_model(512)
    item = {"question": "a b?", "options": ["a", "b"], "answer": 0}
    Path("quiz.jsonl").write_text(json.dumps(item) + "\n", encoding="utf-8")
    pair = {"stereotype": "a b c", "anti_stereotype": "a d c"}
    Path("pairs.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")


def planned(file: str, *more: str) -> list[str]:
    told = ("-n", "--quiet", "--cores", "1", "--snakefile", str(REPO / "workflow/Snakefile"))
    return ["-m", "snakemake", *told, "--configfile", file, *more]


def checkpoints(count: int) -> Iterator[Case]:
    """A run of many checkpoints."""
    inputs()
    file = configuration(1, count // 10)
    yield "`snakemake -n`", count, "checkpoints", planned(file)
    yield "`evenprune plan`", count, "checkpoints", [*EVENPRUNE, "plan", "--configfile", file]
    sheet = "from evenprune.config.config import CATALOGUE, DEFAULT, load_config\n"
    sheet += "from evenprune.io.yamlfile import read_yaml\n"
    sheet += "from evenprune.config.run_sheet import read_run_sheet, write_run_sheet\n"
    sheet += "write_run_sheet('sheet.json', load_config(read_yaml('run.yaml'), DEFAULT, CATALOGUE))"
    measured(["-c", sheet])
    read = "from evenprune.config.run_sheet import read_run_sheet; read_run_sheet('sheet.json')"
    yield "read the run sheet", count, "checkpoints", ["-c", read]


def catalogue(count: int) -> Iterator[Case]:
    """A configuration that names many models."""
    inputs()
    file = configuration(count, 1)
    yield "`evenprune plan`", count, "models", [*EVENPRUNE, "plan", "--configfile", file]
    yield "`snakemake -n`", count, "models", planned(file)
    Path("config").mkdir()
    Path("run.yaml").rename("config/config.yaml")
    Path("config/catalogue.yaml").write_text((REPO / "config/catalogue.yaml").read_text())
    told = ("--method", "magnitude", "--regime", "2of4", "--out", "pruned")
    yield "`prune` by a name", count, "models", [*EVENPRUNE, "prune", "--model", "m1", *told]


CASES: dict[str, tuple[Callable[[int], Iterator[Case]], tuple[int, ...]]] = {
    "items": (items, (2_000, 20_000, 200_000)),
    "scored": (scored, (2_000, 20_000, 200_000)),
    "pairs": (pairs, (50, 500, 5_000)),
    "checkpoints": (checkpoints, (100, 1_000)),
    "catalogue": (catalogue, (200, 2_000)),
}


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Return seconds of the processor and peak MB of a process; exit with its words if it fails."""
    with open("said", "w+b") as said:
        child = subprocess.Popen([sys.executable, *command], stdout=said, stderr=said)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if status:
            sys.exit(f"{' '.join(command)}\n{Path('said').read_text(errors='replace')[-3000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sizes", nargs="+", type=int, help="only these")
    args = parser.parse_args()
    paths = ("src", "worlds", "tests/support")
    os.environ["PYTHONPATH"] = ":".join(str(REPO / path) for path in paths)
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    print("what | size | s | MB\n---|---|---|---", flush=True)
    for name in args.cases:
        case, sizes = CASES[name]
        for size in sizes:
            if args.sizes and size not in args.sizes:
                continue
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                for what, count, unit, command in case(size):
                    seconds, peak = measured(command)
                    print(f"{what} | {count:,} {unit} | {seconds:.1f} | {peak:.0f}", flush=True)
                os.chdir(REPO)


if __name__ == "__main__":
    main()
