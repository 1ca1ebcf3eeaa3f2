"""Run one benchmark on one model: DIR/metrics.json and DIR/items.jsonl.

Benchmarks: perplexity (WikiText-2, or stories in a folder of stories), hellaswag, mmlu,
crows_pairs through lm-eval; stereoset by the likelihood of
sentences; unqover and bbq by the logits of the option letters; realtoxicityprompts and harmbench
by greedy answers that a judge reads. Printed is every metric of which it is known which values are
good, with the value of a model that guesses; with --baseline the difference to another model's
evaluation, paired item by item, as `compare` does.
"""

import argparse
from pathlib import Path
from typing import Any

from ..config.finished import ITEMS, METRICS, read_result
from ..evaluation import evaluate
from ..io.errors import UserError
from ..io.outputs import check_place
from ..stats.directions import chance, direction
from .columns import GOOD, NONE, aligned, terminal_width


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    evaluate.add_arguments(parser)
    parser.add_argument(
        "--baseline", type=Path, metavar="DIR",
        help="evaluation of the same benchmark with another model, such as the dense one",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Evaluate, and print the metrics, the difference to the baseline and what was written."""
    baseline = _baseline(args.baseline, args.benchmark) if args.baseline else None
    _require_own_folder(args.out, args.benchmark)
    check_place(args.out, [baseline])
    result = evaluate.evaluate(args)
    print(evaluate.headline(result))
    print(metrics_text(result))
    if baseline:
        print(f"\n{_difference(args, baseline)}\n")
    print(f"wrote {args.out / METRICS} and {args.out / ITEMS}")


def _require_own_folder(out: Path, task: str) -> None:
    """Raise UserError where ``out`` has the result of another benchmark, which would be lost."""
    if not (out / METRICS).is_file():
        return
    found = str(read_result(out)["benchmark"])
    if found != task:
        raise UserError(
            f"expected an empty folder or a result of {task} at --out {out}, found one of {found}; "
            f"give each benchmark its own folder, such as {out.with_name(f'{out.name}-{task}')}"
        )


def _difference(args: argparse.Namespace, baseline: Path) -> str:
    """Return the comparison with the baseline in words."""
    # Not at the top: SciPy and pandas, which nothing else here needs.
    from .differences import compare_results, judged
    from .report import Block, Comparison, block_notes, to_text

    names = (str(args.baseline), str(args.out))
    folders = (baseline, args.out)
    tested, notes, *_ = compare_results(args.benchmark, folders, names, known=False)
    rows = judged(tested)
    block = Block(names[1], rows, [*block_notes(rows), *notes])
    return to_text(Comparison(names[0], [block]), terminal_width())


def _baseline(place: Path, task: str) -> Path:
    """Return the folder of a benchmark's earlier result; UserError where there is none."""
    from .sides import open_evaluated

    side = open_evaluated(place)
    folder = side.find(task, task) if side else None
    if side is None or folder is None:
        has = f"only of {', '.join(side.folders)}" if side else "nor of any other benchmark"
        raise UserError(
            f"expected an evaluation of {task} at --baseline {place}, found none, {has}; name a "
            f"folder that evaluate or evaluate-checkpoint wrote"
        )
    return folder


def metrics_text(result: dict[str, Any]) -> str:
    """Return the metrics of a result as lines: value, error, which values are good, chance."""
    task = result["task"]
    lines, rest = [], 0
    for name, found in result["metrics"].items():
        way = direction(task, name)
        if not way:
            rest += 1
            continue
        level = chance(task, name)
        lines.append(
            [
                name,
                "undefined" if found["value"] is None else f"{found['value']:.4f}",
                NONE if found["stderr"] is None else f"± {found['stderr']:.4f}",
                f"{found['n']:,}",
                GOOD[way],
                NONE if level is None else f"{level:.3f}",
            ]
        )
    lines.sort(key=lambda line: (line[0] != result["headline"], line[0]))
    heads = ("metric", "value", "stderr", "n", "good", "chance")
    text = aligned(heads, lines, (0, 4))
    return text + (f"\n{rest} further diagnostics in {METRICS}" * bool(rest))
