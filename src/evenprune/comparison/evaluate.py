"""Run one benchmark on one model: DIR/metrics.json and DIR/items.jsonl.

Benchmarks: perplexity (WikiText-2, or stories in a folder of stories), hellaswag, mmlu,
crows_pairs through lm-eval; stereoset by the likelihood of
sentences; unqover and bbq by the logits of the option letters; realtoxicityprompts and harmbench
by greedy answers that a judge reads. Printed is every metric of which it is known which values are
good, with the value of a model that guesses; with --baseline the difference to another model's
evaluation, paired item by item, as `compare` does.
"""

import argparse
import contextlib
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.finished import ITEMS, METRICS, read_result
from ..config.tasks import LM_EVAL, TASKS
from ..data.hub_models import located
from ..evaluation.benchmarks import (
    add_protocol_arguments,
    add_run_arguments,
    ask,
    asked_for,
    check_out,
    find,
    given_data,
    headline,
    quiet_libraries,
    require_options,
    run_benchmark,
    with_data,
)
from ..evaluation.load_model import Loader
from ..io.checksums import source_folder
from ..io.errors import UserError
from ..io.outputs import check_place
from ..stats.directions import chance, direction
from ..stats.paired import fitting, jackknife
from ..stats.records import clusters, read_records
from .columns import GOOD, NONE, aligned, terminal_width

if TYPE_CHECKING:
    from pandas import DataFrame

    from .report import Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--model", type=Path, required=True, help="Hugging Face model folder")
    add("--benchmark", required=True, choices=TASKS)
    add("--data", type=Path,
        help="folder with the canonical files, or your own file; for lm_eval a folder of YAML "
        "tasks; default: the data of the default configuration, fetched if missing")  # fmt: skip
    add("--out", type=Path, required=True, help="folder for the two files")
    add_protocol_arguments(parser)
    add_run_arguments(parser)
    add("--baseline", type=Path, metavar="DIR",
        help="evaluation of the same benchmark with another model, such as the dense one",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Evaluate, and print the metrics, the difference to the baseline and what was written."""
    result = evaluate(**vars(args))
    print(result)
    if result.compared:
        print(f"\n{result.compared.text(terminal_width())}\n")
    print(f"wrote {args.out / METRICS} and {args.out / ITEMS}")


@dataclass(frozen=True)
class Result:
    """One benchmark of one model.

    Attributes
    ----------
    folder : Path
        Where metrics.json and items.jsonl are.
    content : dict
        What metrics.json holds.
    compared : Comparison or None
        The baseline's result against this one.
    """

    folder: Path
    content: dict[str, Any]
    compared: "Comparison | None" = None

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The value, standard error and number of items (``n``) of each metric."""
        found: dict[str, dict[str, Any]] = self.content["metrics"]
        return found

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the metrics, each with which values are ``good`` and the ``chance`` of a guess."""
        task, errors = self.content["task"], self.errors()
        return {
            name: found
            | {"stderr": errors[name], "good": direction(task, name), "chance": chance(task, name)}
            for name, found in self.metrics.items()
        }

    def to_frame(self) -> "DataFrame":
        """Return the metrics as a table of pandas, one row each."""
        from pandas import DataFrame

        return DataFrame.from_dict(self.rows(), orient="index")

    def errors(self) -> dict[str, float | None]:
        """Return each metric's standard error, over whole clusters where items belong together.

        None where it is not known. metrics.json has that over items in any case.
        """
        task, rows = self.content["task"], read_records(self.folder / ITEMS)
        errors = {name: found["stderr"] for name, found in self.metrics.items()}
        if clusters(rows) is None:
            return errors
        for name, found in self.metrics.items():
            sums = fitting(task, name, rows, found["value"])
            known = jackknife(sums) if sums else None
            errors[name] = known.estimate(lambda value: value).stderr if known else None
        return errors

    def __str__(self) -> str:
        def shown(number: float | None, form: str, none: str = NONE) -> str:
            return none if number is None else form.format(number)

        lines = []
        for name, one in self.rows().items():
            if one["good"]:
                value = shown(one["value"], "{:.4f}", "undefined")
                numbers = (value, shown(one["stderr"], "± {:.4f}"), f"{one['n']:,}")
                lines.append([name, *numbers, GOOD[one["good"]], shown(one["chance"], "{:.3f}")])
        lines.sort(key=lambda line: (line[0] != self.content["headline"], line[0]))
        text = aligned(("metric", "value", "stderr", "n", "good", "chance"), lines, (0, 4))
        rest = len(self.metrics) - len(lines)
        more = f"\n{rest} further diagnostics in {METRICS}" * bool(rest)
        return f"{headline(self.content)}\n{text}{more}"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(na_rep=NONE))


def evaluate(
    model: Path | str,
    benchmark: str,
    *,
    out: Path | str | None = None,
    data: Path | str | None = None,
    baseline: Path | str | None = None,
    device: str | None = None,
    gpus: int = 1,
    trust_remote_code: bool = False,
    **options: Any,
) -> Result:
    """Run one benchmark on one model.

    Parameters
    ----------
    model : path or str
        A Hugging Face folder, a GGUF file, or a name in the catalogue or on the hub.
    benchmark : str
        The task, such as `stereoset`, `crows_pairs`, `bbq`, `unqover`, `perplexity` or `mmlu`
        (docs/evaluation.md).
    out : path, optional
        The folder for ``metrics.json`` and ``items.jsonl``. By default results are kept in the
        user's cache, where `compare` finds them, and nothing is evaluated twice.
    data : path, optional
        A folder or file with the benchmark's data; by default those of the default configuration.
    baseline : path, optional
        Another model's evaluation of the same benchmark, to compare with item by item.
    device : str, optional
        `cpu` or `cuda`; by default CUDA where there is a GPU.
    gpus : int
        How many GPUs hold the model together.
    trust_remote_code : bool
        Run the Python code that the model's folder brings.
    **options
        What can change the numbers, such as ``limit``, ``seed``, ``split`` and ``batch_size``, all
        explained by ``evenprune evaluate --help``.

    Returns
    -------
    Result
        The metrics of all items (``metrics``, ``to_frame()``), and where they are.

    Raises
    ------
    UserError
        If an option, the data or the model cannot be used.

    References
    ----------
    arXiv 2609.02496 for the choice of benchmarks; docs/evaluation.md for each protocol.

    Examples
    --------
    >>> import evenprune
    >>> result = evenprune.evaluate("dense", "unqover", data="unqover", limit=16)
    >>> result.metrics["acc"]["n"]
    16
    """
    quiet_libraries()
    require_options(options)
    earlier = _baseline(Path(baseline), benchmark) if baseline else None
    place = Path(out) if out else None
    if place:
        _require_own_folder(place, benchmark)
        check_place(place, [earlier])
    find(benchmark)
    load = partial(Loader, device=device, gpus=gpus)
    with located(model, trust=trust_remote_code) as (given,):
        if data is None and benchmark != LM_EVAL:
            spec, source = with_data(benchmark, options)
        else:
            spec = asked_for(benchmark, options)
            source = given_data(spec, data)
        folder = source_folder(given)
        if place is None:
            # Not at the top: what else is compared needs more.
            from .sides import Model, Request, ask_model, evaluations_folder

            one, request = Model(str(model), folder), Request(benchmark, spec, source)
            kept = evaluations_folder(None)
            run_model = ask_model(one, {benchmark: request}, kept, load, trust_remote_code)
            with contextlib.redirect_stdout(sys.stderr):
                place = run_model()[benchmark]
        else:
            check_out(place, [given, folder, data, source, spec.judge])
            with load(folder) as loader:
                run_benchmark(ask(benchmark, spec, source, loader), place)
    compared = _compared(benchmark, (earlier, place), (str(baseline), str(place)))
    return Result(place, read_result(place), compared)


def _require_own_folder(out: Path, task: str) -> None:
    """Raise UserError where ``out`` has the result of another benchmark, which would be lost."""
    found = str(read_result(out)["benchmark"]) if (out / METRICS).is_file() else task
    if found != task:
        raise UserError(
            f"expected an empty folder or a result of {task} at --out {out}, found one of {found}; "
            f"give each benchmark its own folder, such as {out.with_name(f'{out.name}-{task}')}"
        )


def _compared(
    task: str, folders: tuple[Path | None, Path], names: tuple[str, str]
) -> "Comparison | None":
    """Return the comparison with the baseline, None where there is none."""
    if folders[0] is None:
        return None
    # Not at the top: SciPy and pandas, which nothing else here needs.
    from .differences import compare_results, judged
    from .report import Block, Comparison, block_notes

    tested, notes, *_ = compare_results(task, (folders[0], folders[1]), names, known=False)
    rows = judged(tested)
    return Comparison(names[0], [Block(names[1], rows, [*block_notes(rows), *notes])])


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
