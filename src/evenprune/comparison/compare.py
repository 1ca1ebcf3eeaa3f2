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
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from .. import __version__
from ..config.finished import read_result
from ..config.flags import add_flags, checked, flag
from ..config.grids import in_calibration
from ..config.tasks import TASKS
from ..data.hub import LOCK
from ..evaluation import benchmarks
from ..evaluation.load_model import Loader
from ..io.errors import UserError, printable
from ..io.files import write_json, write_text
from ..io.outputs import check_file, check_place
from ..models.stored import Stored
from ..stats.verdicts import BIAS_MARGIN, LESS_FAIR, LOST, MARGIN, WORSE
from . import sides
from .differences import Compared, Limits, by_category, compare_results, judged, read_records
from .export import card_of, write_card, write_record
from .fidelity import LIMIT, Fidelity, ask_text
from .moved import Moved, most_moved, texts_of
from .recorded.items import Recorded, compare_recordings
from .recorded.metric_table import MetricTable, read_table
from .recorded.sides import open_recorded
from .report import Block, Comparison, block_notes, to_html
from .sides import Evaluated, Load, Model, Side

FAILED = 3  # the exit status of a verdict that --fail-if names
# name -> the verdict, and the kind of metrics that can have it
FAIL_IF = {
    "worse": (WORSE, "ability"), "less-fair": (LESS_FAIR, "bias"), "ability-lost": (LOST, "bias")
}  # fmt: skip
JSON, HTML = "comparison.json", "comparison.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("dense", metavar="DENSE", help="the model before pruning")
    add("pruned", metavar="PRUNED", nargs="+", help="after pruning; several for a table each")
    add("--benchmark", action="append", choices=TASKS, help="give one --benchmark a benchmark")
    add("--data", action="append", type=Path, metavar="PATH",
        help="folder with its canonical files; the first is of the first --benchmark")  # fmt: skip
    add("--lock", type=Path, default=Path(LOCK), metavar="FILE",
        help="commits of models on the hub")  # fmt: skip
    add_flags(parser, Limits)
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
    benchmarks.add_protocol_arguments(parser)
    benchmarks.add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate what is missing, print the comparison, and return the exit status."""
    comparison = compare(**vars(args))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(printable(comparison.text(width)))
    if args.out:
        print(f"wrote {args.out / JSON} and {HTML}")
    for line in comparison.failed:
        print(f"failed: {line}", file=sys.stderr)
    return FAILED if comparison.failed else 0


def compare(
    dense: Path | str,
    pruned: Path | str | Sequence[Path | str],
    *,
    benchmark: str | Sequence[str] | None = None,
    data: Path | str | Sequence[Path | str] | None = None,
    lock: Path | str = LOCK,
    margin: float = MARGIN,
    bias_margin: float = BIAS_MARGIN,
    plan: float | None = None,
    fail_if: str | Sequence[str] = (),
    fidelity: Path | str | None = None,
    metrics: Path | str | None = None,
    out: Path | str | None = None,
    every_eval_ever: Path | str | None = None,
    card: bool = False,
    evals: Path | str | None = None,
    device: str | None = None,
    gpus: int = 1,
    trust_remote_code: bool = False,
    **options: Any,
) -> Comparison:
    """Compare pruned models with their dense one on the same items.

    Models are evaluated first; what was evaluated once is kept and taken from there.

    Parameters
    ----------
    dense : path or str
        The model before pruning: a folder, a GGUF file, a name in the catalogue or on the hub, or
        a folder with its evaluation.
    pruned : path, str, or several
        The models after pruning, or their evaluations.
    benchmark : str or several, optional
        What to evaluate; by default all that evaluations share, or for models the benchmarks of
        the default configuration.
    data : path or several, optional
        A folder or file with the data of each benchmark, in the same order.
    lock : path
        The commits of models on the hub.
    margin : float
        Abilities are the same within ± this, perplexities within a factor of 1 + this.
    bias_margin : float
        Bias metrics are equally fair within ± this.
    plan : float, optional
        Also compute how many items show a change of this size in 80 % of runs.
    fail_if : str or several
        `worse`, `less-fair` or `ability-lost`: list such rows in ``failed``.
    fidelity : path, optional
        A folder of WikiText-2 or of documents: also measure how far next tokens are from the dense
        model's on that text; "" takes the text of the default configuration.
    metrics : path, optional
        YAML that says what metrics of another evaluator's records mean.
    out : path, optional
        A folder for ``comparison.json`` and ``comparison.html``.
    every_eval_ever : path, optional
        A folder for the evaluations as JSON of every_eval_ever.
    card : bool
        Put the results into the pruned models' cards.
    evals : path, optional
        Where evaluations are kept; by default in the user's cache.
    device : str, optional
        `cpu` or `cuda`; by default CUDA where there is a GPU.
    gpus : int
        How many GPUs hold a model together.
    trust_remote_code : bool
        Run the Python code that the models' folders bring.
    **options
        What can change the numbers, such as ``limit``, ``seed``, ``split`` and ``batch_size``, all
        explained by ``evenprune compare --help``.

    Returns
    -------
    Comparison
        A row for each metric, with its difference, interval and verdict: ``to_frame()``,
        ``plot()``, ``text()``; a notebook shows the page.

    Raises
    ------
    UserError
        If a model, benchmark or option cannot be used, or two evaluations are no pair.

    References
    ----------
    arXiv 2609.02496 compares point values; here each difference is tested on the same items, with
    the jackknife's error and Holm's correction (docs/verdicts.md).

    Examples
    --------
    >>> import evenprune
    >>> found = evenprune.compare("dense", "pruned", benchmark="unqover", data="unqover", limit=16)
    >>> list(found.to_frame()["metric"])
    ['acc']
    """
    given = {"margin": margin, "bias_margin": bias_margin, "plan": plan}
    limits, asked = checked(Limits, given), _several(fail_if)
    benchmarks.require_options(options)
    if odd := [name for name in asked if name not in FAIL_IF]:
        raise UserError(
            f"expected --fail-if among {', '.join(FAIL_IF)}, got {odd[0]!r}; correct it"
        )
    names, chosen = [str(dense), *map(str, _several(pruned))], _several(benchmark)
    files = [Path(one) for one in _several(data)]
    kept = sides.evaluations_folder(evals)
    place, table = Path(out) if out else None, read_table(Path(metrics) if metrics else None)
    if place:
        _check_out(place, [*map(Path, names), *files])
    opened = [
        sides.open_evaluated(name)
        or open_recorded(name, table)
        or sides.open_model(name, Path(lock), trust_remote_code)
        for name in names
    ]
    blocks: list[Block] = []
    stored: Mapping[str, Stored | None] = {}
    if any(isinstance(side, Recorded) for side in opened):
        ours = {"benchmark": chosen, "data": files, "fidelity": fidelity is not None}
        ours |= {"every_eval_ever": every_eval_ever, "card": card}
        blocks += _recorded_blocks(opened, [name for name in ours if ours[name]], table, limits)
    else:
        mine = [side for side in opened if not isinstance(side, Recorded)]
        for side in mine[1:]:
            sides.require_roles(mine[0], side)
        benchmarks.quiet_libraries()
        cards = {side.name: card_of(side) for side in mine[1:] if card}
        tasks, request = sides.requests_of(chosen, files, options, mine)
        how = (kept, partial(Loader, device=device, gpus=gpus), trust_remote_code)
        found, faithful = _evaluated(mine, tasks, request, *how, fidelity, options)
        results = {name: read_result(found[name][next(iter(tasks))]) for name in found}
        stored = {name: Stored.of(one.get("stored")) for name, one in results.items()}
        base = found[mine[0].name]
        texts = {slug: texts_of(read_result(base[slug]), one) for slug, one in request.items()}
        several = [one for one in mine if isinstance(one, Evaluated) and len(one.folders) > 1]
        missing = sides.not_compared({side.name: side.folders for side in several}, tasks)
        runs = {side.name: sides.run_of(side) for side in mine}
        for side in mine[1:]:
            both = (mine[0].name, side.name)
            compared = dict[str, Compared]()
            for slug in tasks:
                # Whether a side's run says that its calibration pairs are of the same data.
                known = any(in_calibration(*run, slug) for name in both if (run := runs[name]))
                folders = [found[name][slug] for name in both]
                compared[slug] = compare_results(slug, folders, both, known)
            last = sides.notes_of(mine[0], side, [one.task for one in compared.values()])
            faith = faithful.get(side.name)
            blocks.append(_block(side.name, compared, texts, limits, missing, last, faith))
        for side in mine if every_eval_ever else ():
            for slug, folder in found[side.name].items():
                root, one = Path(str(every_eval_ever)), read_records(folder)
                into = write_record(root, slug, side.name, one, texts.get(slug, {}))
                print(f"wrote {into}", file=sys.stderr)
        for block in blocks:
            if block.pruned in cards:
                write_card(cards[block.pruned], block.rows)
                print(f"wrote the results into {cards[block.pruned]}", file=sys.stderr)
    failed = _broken(asked, blocks)
    whole = Comparison(names[0], blocks, margin, bias_margin, plan, asked, failed, stored)
    if place:
        said = "Holm, over all rows of one pruned model; family_low and family_high alike"
        write_json(place / JSON, {"evenprune": __version__, "correction": said, **asdict(whole)})
        write_text(place / HTML, to_html(whole))
    return whole


def _several(given: Any) -> list[Any]:
    return [given] if isinstance(given, str | Path) else list(given or ())


def _evaluated(
    mine: Sequence[Side], tasks: Mapping[str, str], request: sides.Asked, kept: Path, load: Load,
    trust: bool, fidelity: Path | str | None, options: Mapping[str, Any],
) -> tuple[dict[str, Mapping[str, Path]], dict[str, Fidelity]]:  # fmt: skip
    """Return the results of all sides by name and benchmark, and each model's fidelity."""
    models = {side.name: side for side in mine if isinstance(side, Model)}
    folders: dict[str, Mapping[str, Path]] = {
        side.name: sides.results_of(side, tasks) for side in mine if isinstance(side, Evaluated)
    }
    for spec, source in request.values() if models else ():
        benchmarks.data_checksums(source, spec)  # says at once what is missing
    # Standard output is the comparison's alone.
    with contextlib.redirect_stdout(sys.stderr):
        # All are looked at before the first is evaluated.
        asked = {
            name: sides.ask_model(one, request, kept, load, trust) for name, one in models.items()
        }
        text = None if fidelity is None else ask_text(fidelity, mine, load, trust, options)
        for number, (name, evaluate) in enumerate(asked.items(), 1):
            print(f"model {number} of {len(asked)}: {name}", flush=True)
            folders[name] = evaluate()
        return folders, text(kept) if text else {}


def _recorded_blocks(
    opened: Sequence[Side | Recorded], ours: Sequence[str], table: MetricTable, limits: Limits
) -> Iterator[Block]:
    """Yield the comparisons of other evaluators' records.

    ``ours`` are options that were given and are for our own evaluations only. Raises UserError
    for these, and for sides that are no pair.
    """
    dense, *others = [side for side in opened if isinstance(side, Recorded)]
    evaluators = {getattr(side, "evaluator", "evenprune") for side in opened}
    if len(evaluators) > 1:
        raise UserError(
            "expected all sides to be of one evaluator, as others ask otherwise, got those of "
            f"{', '.join(sorted(evaluators))}; evaluate all with the same one"
        )
    if ours:
        raise UserError(
            f"{flag(ours[0])} is for models that evenprune evaluates, but {dense.name} is a record "
            f"of {dense.evaluator}; leave it out"
        )
    for side in others:
        held = {one.name: {task: task for task in one.tasks} for one in (dense, side)}
        shared = sides.shared(held)
        compared = {
            task: compare_recordings(dense.tasks[task], side.tasks[task], table) for task in shared
        }
        yield _block(side.name, compared, {}, limits, sides.not_compared(held, shared))


def _block(
    name: str, compared: Mapping[str, Compared], texts: Mapping[str, Any], limits: Limits,
    first: Sequence[str], last: Sequence[str] = (), fidelity: Fidelity | None = None,
) -> Block:  # fmt: skip
    """Return one pruned model's comparison; notes stand ``first`` and ``last`` among those of the
    benchmarks. ``texts``: benchmark -> those of items by id that are not in the records."""
    tested = [row for one in compared.values() for row in one.tested]
    rows = judged(tested, limits)
    notes, moved = [*block_notes(rows), *first], list[Moved]()
    for slug, one in compared.items():
        notes += one.notes
        moved += most_moved(slug, one.task, one.records, texts.get(slug, {}))
    notes = list(dict.fromkeys([*notes, *last]))
    evidence = {slug: one.evidence for slug, one in compared.items()}
    return Block(name, rows, notes, evidence, by_category(tested, limits), moved, fidelity)


def _check_out(place: Path, inputs: Sequence[Path]) -> None:
    check_place(place, inputs)
    if (place / "config.json").exists():
        raise UserError(f"--out {place} is the folder of a model; name another folder")
    check_file(place / JSON, keys=("dense", "blocks"))
    check_file(place / HTML)


def _broken(asked: Sequence[str], blocks: Sequence[Block]) -> list[str]:
    """Return a line for each row that ``--fail-if`` names, and each kind that had no test."""
    wrong, idle = [], []
    for name, block in product(asked, blocks):
        verdict, kind = FAIL_IF[name]
        broken = [row for row in block.rows if row.verdict == verdict]
        wrong += [f"{block.pruned}: {r.benchmark} {r.metric} is {r.verdict}" for r in broken]
        if not any(row.kind == kind and row.p is not None for row in block.rows):
            idle.append(f"{block.pruned}: no metric of {kind} could be tested, for {name}")
    return [*wrong, *idle]
