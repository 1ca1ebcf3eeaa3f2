"""Compare pruned models with their dense one on the same items: what got worse, what less fair.

DENSE and PRUNED are model folders, quantised ones too, GGUF files, ids on the hub (org/name,
org/name@ref) or what was evaluated before: a folder of `evaluate`, of `evaluate-checkpoint`, or of
the workflow below results/evals.
A model is evaluated first, on each --benchmark with its --data; what was evaluated once is kept
(--evals) and taken from there. Evaluations alone are compared on all benchmarks that they share,
models alone on those of the default configuration.

Exit status: 0; 2 for bad input; 3 where a verdict occurs that --fail-if names, and where nothing
of what it asks for could be tested.
"""

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..base.errors import UserError
from ..base.files import write_json, write_text
from ..base.outputs import check_file, check_ours, check_place
from ..data.source_flags import LOCK
from ..evaluation.benchmarks import data_checksums
from ..evaluation.evaluate import add_protocol_arguments, add_run_arguments, quiet_libraries
from ..plan.grids import in_calibration
from ..plan.tasks import TASKS
from ..stats.verdicts import BIAS_MARGIN, LESS_FAIR, LOST, MARGIN, WORSE
from .columns import terminal_width
from .differences import Tested, compare_results, judged
from .fidelity import LIMIT, ask_text
from .report import Block, Comparison, as_dict, block_notes, to_html, to_text
from .requests import left_out, requests_of
from .sides import (
    Evaluated,
    Model,
    Side,
    ask_model,
    calibration_note,
    evaluations_folder,
    open_side,
    require_roles,
    results_of,
    run_of,
    stored_of,
)

FAILED = 3  # the exit status of a verdict that --fail-if names
FAIL_IF = {"worse": WORSE, "less-fair": LESS_FAIR, "ability-lost": LOST}
KIND_OF = {"worse": "ability", "less-fair": "bias", "ability-lost": "bias"}
JSON, HTML = "comparison.json", "comparison.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("dense", metavar="DENSE", help="the model before pruning")
    add("pruned", metavar="PRUNED", nargs="+", help="after pruning; several for a table each")
    add("--benchmark", action="append", choices=TASKS, help="give one --benchmark a benchmark")
    add("--data", action="append", type=Path, metavar="PATH",
        help="folder with its canonical files; the first is of the first --benchmark")  # fmt: skip
    add(
        "--lock", type=Path, default=Path(LOCK), metavar="FILE", help="commits of models on the hub"
    )
    add("--margin", type=float, default=MARGIN, metavar="X",
        help="ability metrics are the same within ±X, perplexities within a factor of 1 + X; "
        "default: %(default)s")  # fmt: skip
    add("--bias-margin", type=float, default=BIAS_MARGIN, metavar="X",
        help="bias metrics are equally fair within ±X; default: %(default)s")  # fmt: skip
    add("--plan", type=float, metavar="X",
        help="also say how many items each row needs to show a change of X (of a perplexity, a "
        "factor of 1 + X) in 80 %% of runs")  # fmt: skip
    add("--fail-if", action="append", choices=tuple(FAIL_IF), default=[],
        help=f"exit status {FAILED} where a row is that; may be given twice")  # fmt: skip
    add("--fidelity", nargs="?", const="", metavar="PATH",
        help="also say how far each model's next tokens are from the dense one's on a text: KL "
        "divergence, agreement, ratio of perplexities; PATH: a folder of WikiText-2 or of "
        f"documents; at most --limit windows of 512 tokens (default: {LIMIT})")  # fmt: skip
    add("--out", type=Path, metavar="DIR", help=f"write {JSON} and {HTML} there")
    add("--evals", type=Path, metavar="DIR",
        help="where evaluations are kept; default: evaluations in the user's cache")  # fmt: skip
    add_protocol_arguments(parser)
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate what is missing, print the comparison, and return the exit status."""
    for name, given in (("margin", args.margin), ("bias-margin", args.bias_margin)):
        if not 0 <= given < 1:
            raise UserError(f"expected --{name} from 0 to below 1, got {given:g}")
    if args.plan is not None and not 0 < args.plan < 1:
        raise UserError(f"expected --plan from above 0 to below 1, got {args.plan:g}")
    evals = evaluations_folder(args.evals)
    _check_out(args)
    sides = [
        open_side(text, args.lock, args.trust_remote_code) for text in (args.dense, *args.pruned)
    ]
    for side in sides[1:]:
        require_roles(sides[0], side)
    quiet_libraries()
    requests = requests_of(args, sides)
    models = {side.name: side for side in sides if isinstance(side, Model)}
    found = {s.name: results_of(s, requests) for s in sides if isinstance(s, Evaluated)}
    for spec, data in (request.asked for request in requests.values() if models):
        data_checksums(data, spec)  # says at once what is missing
    # Standard output is the comparison's alone.
    with contextlib.redirect_stdout(sys.stderr):
        # All are looked at before the first is evaluated.
        asked = {name: ask_model(model, requests, evals, args) for name, model in models.items()}
        text = ask_text(args, sides)
        for number, (name, one) in enumerate(asked.items(), 1):
            print(f"model {number} of {len(asked)}: {name}", flush=True)
            found[name] = one.evaluate()
        faithful = text.measure(evals) if text else {}
    missing = left_out(sides, requests)
    blocks = [
        replace(
            _block(sides[0], side, found[sides[0].name], found[side.name], args, missing),
            fidelity=faithful.get(side.name),
        )
        for side in sides[1:]
    ]
    failed = _broken(args.fail_if, blocks)
    whole = Comparison(
        *(args.dense, blocks, args.margin, args.bias_margin, args.plan, args.fail_if, failed),
        stored={side.name: stored_of(side) for side in sides},
    )
    print(to_text(whole, terminal_width()))
    if args.out:
        write_json(args.out / JSON, as_dict(whole))
        write_text(args.out / HTML, to_html(whole))
        print(f"wrote {args.out / JSON} and {HTML}")
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return FAILED if failed else 0


def _check_out(args: argparse.Namespace) -> None:
    if args.out is None:
        return
    inputs = [*(Path(text) for text in (args.dense, *args.pruned)), *(args.data or [])]
    check_place(args.out, inputs)
    if (args.out / "config.json").exists():
        raise UserError(f"--out {args.out} is the folder of a model; name another folder")
    for name in (JSON, HTML):
        check_file(args.out / name)
    check_ours(args.out / JSON, ("dense", "blocks"))


def _block(
    dense: Side,
    pruned: Side,
    ours: Mapping[str, Path],
    theirs: Mapping[str, Path],
    args: argparse.Namespace,
    told: Sequence[str],
) -> Block:
    tested: list[Tested] = []
    notes, evidence = list(told), {}
    names = (dense.name, pruned.name)
    runs = [run for run in map(run_of, (dense, pruned)) if run]
    for slug, folder in ours.items():
        # Whether a side's run says that its calibration pairs are of the benchmark's data.
        known = any(in_calibration(*run, slug) for run in runs)
        both = (folder, theirs[slug])
        found, said, evidence[slug] = compare_results(slug, both, names, known)
        tested += found
        notes += said
    rows = judged(tested, args.margin, args.bias_margin, args.plan)
    notes += calibration_note(pruned, list(dict.fromkeys(row.task for row in rows)))
    notes += [
        f"{side.name} is commit {side.revision}"
        for side in (dense, pruned)
        if isinstance(side, Model) and side.revision
    ]
    return Block(pruned.name, rows, list(dict.fromkeys([*block_notes(rows), *notes])), evidence)


def _broken(asked: Sequence[str], blocks: Sequence[Block]) -> list[str]:
    """Return a line for each row that ``--fail-if`` names, and each kind that had no test."""
    wrong = [
        f"{block.pruned}: {row.benchmark} {row.metric} is {row.verdict}"
        for name in asked
        for block in blocks
        for row in block.rows
        if row.verdict == FAIL_IF[name]
    ]
    idle = [
        f"{block.pruned}: no metric of {KIND_OF[name]} could be tested, for {name}"
        for name in asked
        for block in blocks
        if not any(row.kind == KIND_OF[name] and row.p is not None for row in block.rows)
    ]
    return [*wrong, *idle]
