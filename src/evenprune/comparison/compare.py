"""Compare pruned models with their dense one on the same items: what got worse, what less fair.

DENSE and PRUNED are model folders, quantised ones too, GGUF files, ids on the hub (org/name,
org/name@ref) or what was evaluated before: a folder of `evaluate`, of `evaluate-checkpoint`, or of
the workflow below results/evals.
A model is evaluated first, on each --benchmark with its --data; what was evaluated once is kept
(--evals) and taken from there. Evaluations alone are compared on all benchmarks that they share,
models alone on those of the default configuration.

DENSE and PRUNED can also be records of another evaluator: what lm-eval's --log_samples wrote, a log
of Inspect, or JSON of every_eval_ever with its samples. They are compared on the tasks and items
that both hold.

Exit status: 0; 2 for bad input; 3 where a verdict occurs that --fail-if names, and where nothing
of what it asks for could be tested.
"""

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..analysis.item_texts import ItemText
from ..config.grids import in_calibration
from ..config.tasks import TASKS
from ..data.source_flags import LOCK
from ..evaluation.benchmarks import data_checksums
from ..evaluation.evaluate import add_protocol_arguments, add_run_arguments, quiet_libraries
from ..io.errors import UserError, printable
from ..io.files import write_json, write_text
from ..io.outputs import check_file, check_ours, check_place
from ..models.stored import Stored
from ..stats.verdicts import BIAS_MARGIN, LESS_FAIR, LOST, MARGIN, WORSE
from .columns import terminal_width
from .differences import Records, Tested, by_category, compare_results, judged
from .export import card_of, write_card, write_record
from .fidelity import LIMIT, ask_text
from .moved import Moved, most_moved, texts_of
from .recorded.items import Recorded, recorded_differences
from .recorded.metric_table import MetricTable, read_table
from .recorded.sides import open_recorded
from .report import Block, Comparison, as_dict, block_notes, to_html, to_text
from .requests import left_out, requests_of
from .sides import (
    Evaluated,
    Model,
    Request,
    Side,
    ask_model,
    calibration_note,
    evaluations_folder,
    open_evaluated,
    open_side,
    require_roles,
    results_of,
    run_of,
    stored_of,
)

FAILED = 3  # the exit status of a verdict that --fail-if names
FAIL_IF = {"worse": WORSE, "less-fair": LESS_FAIR, "ability-lost": LOST}
KIND_OF = {"worse": "ability", "less-fair": "bias", "ability-lost": "bias"}
Export = tuple[str, str, Records, Mapping[str, ItemText]]  # what write_record takes
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
    add("--metrics", type=Path, metavar="FILE",
        help="YAML that says which metrics of another evaluator's records are of ability or bias, "
        "before what evenprune knows; docs/your-own.md explains it")  # fmt: skip
    add("--out", type=Path, metavar="DIR", help=f"write {JSON} and {HTML} there")
    add("--every-eval-ever", type=Path, metavar="DIR",
        help="write the evaluations there too, as JSON of every_eval_ever, with every item where "
        "its texts are at hand")  # fmt: skip
    add("--card", action="store_true",
        help="put the results of PRUNED into the card in its folder, as model-index")  # fmt: skip
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
    opened = [_open(text, args) for text in (args.dense, *args.pruned)]
    if any(isinstance(side, Recorded) for side in opened):
        return _finish(args, _recorded_blocks(opened, args), {})
    sides = [side for side in opened if not isinstance(side, Recorded)]
    for side in sides[1:]:
        require_roles(sides[0], side)
    quiet_libraries()
    cards = {side.name: _card(side) for side in sides[1:]} if args.card else {}
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
    missing, exports = left_out(sides, requests), list[Export]()
    blocks = [
        replace(
            _block(
                *(sides[0], side, found[sides[0].name], found[side.name]),
                *(args, requests, missing, exports),
            ),
            fidelity=faithful.get(side.name),
        )
        for side in sides[1:]
    ]
    status = _finish(args, blocks, {side.name: stored_of(side) for side in sides})
    if args.every_eval_ever:
        for export in exports:
            print(f"wrote {write_record(args.every_eval_ever, *export)}")
    for block in blocks:
        if block.pruned in cards:
            write_card(cards[block.pruned], block.rows)
            print(f"wrote the results into {cards[block.pruned]}")
    return status


def _card(side: Side) -> Path:
    if not isinstance(side, Model) or side.revision:
        raise UserError(
            f"--card writes into the folder of a model of your own, but {side.name} is none; leave "
            "--card out"
        )
    return card_of(side.folder)


def _finish(
    args: argparse.Namespace, blocks: Sequence[Block], stored: Mapping[str, Stored | None]
) -> int:
    """Print and write the comparison, and return the exit status."""
    failed = _broken(args.fail_if, blocks)
    whole = Comparison(
        *(args.dense, blocks, args.margin, args.bias_margin, args.plan, args.fail_if, failed),
        stored=stored,
    )
    print(printable(to_text(whole, terminal_width())))
    if args.out:
        write_json(args.out / JSON, as_dict(whole))
        write_text(args.out / HTML, to_html(whole))
        print(f"wrote {args.out / JSON} and {HTML}")
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return FAILED if failed else 0


def _open(text: str, args: argparse.Namespace) -> Side | Recorded:
    if open_evaluated(Path(text), text) is None:
        recorded = open_recorded(text, args.metrics)
        if recorded:
            return recorded
    return open_side(text, args.lock, args.trust_remote_code)


def _recorded_blocks(opened: Sequence[Side | Recorded], args: argparse.Namespace) -> list[Block]:
    """Return the comparison of other evaluators' records; UserError for sides that are no pair."""
    dense, *others = [side for side in opened if isinstance(side, Recorded)]
    evaluators = {getattr(side, "evaluator", "evenprune") for side in opened}
    if len(evaluators) > 1:
        raise UserError(
            "expected all sides to be of one evaluator, as others ask otherwise, got those of "
            f"{', '.join(sorted(evaluators))}; evaluate all with the same one"
        )
    for flag in ("benchmark", "data", "fidelity", "every_eval_ever", "card"):
        if getattr(args, flag) not in (None, False):
            raise UserError(
                f"--{flag.replace('_', '-')} is for models that evenprune evaluates, but "
                f"{dense.name} is a record of {dense.evaluator}; leave it out"
            )
    table = read_table(args.metrics)
    return [_recorded_block(dense, side, table, args) for side in others]


def _recorded_block(
    dense: Recorded, pruned: Recorded, table: MetricTable, args: argparse.Namespace
) -> Block:
    shared = [task for task in dense.tasks if task in pruned.tasks]
    if not shared:
        raise UserError(
            f"expected records that share a task, got {', '.join(dense.tasks)} in {dense.name} and "
            f"{', '.join(pruned.tasks)} in {pruned.name}; evaluate both on one"
        )
    notes = []
    for side in (dense, pruned):
        rest = [task for task in side.tasks if task not in shared]
        if rest:
            notes.append(f"not compared, though {side.name} has it: {', '.join(rest)}")
    tested: list[Tested] = []
    moved, evidence = list[Moved](), {}
    for task in shared:
        both = (dense.tasks[task], pruned.tasks[task])
        found, said, rows = recorded_differences(*both, table)
        tested += found
        notes += said
        moved += most_moved(task, task, *rows)
        evidence[task] = {
            side: {**one.evidence, "recorded": one.recorded}
            for side, one in zip(("dense", "pruned"), both)
        }
    return _judged_block(pruned.name, tested, notes, moved, evidence, args)


def _judged_block(
    name: str, tested: Sequence[Tested], notes: Sequence[str], moved: Sequence[Moved],
    evidence: Mapping[str, Any], args: argparse.Namespace,
) -> Block:  # fmt: skip
    limits = (args.margin, args.bias_margin, args.plan)
    rows = judged(tested, *limits)
    told = list(dict.fromkeys([*block_notes(rows), *notes]))
    return Block(name, rows, told, evidence, by_category(tested, *limits), moved)


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
    requests: Mapping[str, Request],
    told: Sequence[str],
    exports: list[Export],
) -> Block:
    tested: list[Tested] = []
    notes, evidence, moved = list(told), {}, list[Moved]()
    names = (dense.name, pruned.name)
    runs = [run for run in map(run_of, (dense, pruned)) if run]
    for slug, folder in ours.items():
        # Whether a side's run says that its calibration pairs are of the benchmark's data.
        known = any(in_calibration(*run, slug) for run in runs)
        both = (folder, theirs[slug])
        found, said, evidence[slug], records = compare_results(slug, both, names, known)
        tested += found
        notes += said
        texts = texts_of(records[0].result, requests[slug])
        task = str(records[0].result["task"])
        if args.every_eval_ever:
            exports += [(slug, name, one, texts) for name, one in zip(names, records)]
        moved += most_moved(slug, task, records[0].rows, records[1].rows, texts)
    notes += calibration_note(pruned, list(dict.fromkeys(one.row.task for one in tested)))
    notes += [
        f"{side.name} is commit {side.revision}"
        for side in (dense, pruned)
        if isinstance(side, Model) and side.revision
    ]
    return _judged_block(pruned.name, tested, notes, moved, evidence, args)


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
