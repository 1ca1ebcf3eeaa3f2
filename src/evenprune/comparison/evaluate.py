"""Run one benchmark on one model: DIR/metrics.json and DIR/items.jsonl.

Benchmarks: perplexity (WikiText-2, or stories in a folder of stories), hellaswag, mmlu,
crows_pairs through lm-eval; stereoset by the likelihood of
sentences; unqover and bbq by the logits of the option letters; realtoxicityprompts and harmbench
by greedy answers that a judge reads. Printed is every metric of which it is known which values are
good, with the value of a model that guesses. `compare` takes two such folders.
"""

import argparse
import contextlib
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.finished import ITEMS, METRICS, read_result
from ..config.tasks import TASKS
from ..data.hub_models import located
from ..evaluation import benchmarks
from ..evaluation.load_model import Loader
from ..io.checksums import source_folder
from ..io.errors import UserError
from ..io.outputs import check_place
from ..stats.directions import chance, direction
from ..stats.paired import estimate_of, fitting
from ..stats.records import clusters, read_records
from .columns import GOOD, NONE

if TYPE_CHECKING:
    from pandas import DataFrame


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--model", type=Path, required=True, help="Hugging Face model folder")
    add("--benchmark", required=True, choices=TASKS)
    add("--data", type=Path,
        help="folder with the canonical files, or your own file; for lm_eval a folder of YAML "
        "tasks; default: those of the catalogue, fetched if missing")  # fmt: skip
    add("--out", type=Path, required=True, help="folder for the two files")
    benchmarks.add_protocol_arguments(parser)
    benchmarks.add_run_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluate, and print the metrics and what was written."""
    print(evaluate(**vars(args)))
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
    """

    folder: Path
    content: dict[str, Any]

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The value, standard error and number of items (``n``) of each metric."""
        return dict(self.content["metrics"])

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
        if clusters(rows) is None:
            return {name: found["stderr"] for name, found in self.metrics.items()}
        sums = {name: fitting(task, name, rows, one["value"]) for name, one in self.metrics.items()}
        known = {name: estimate_of(one) for name, one in sums.items()}
        return {name: one.stderr if one else None for name, one in known.items()}

    def __str__(self) -> str:
        from pandas import DataFrame

        def shown(number: float | None, form: str, none: str = NONE) -> str:
            return none if number is None else form.format(number)

        lines = []
        for name, one in self.rows().items():
            if one["good"]:
                value = shown(one["value"], "{:.4f}", "undefined")
                numbers = (value, shown(one["stderr"], "± {:.4f}"), f"{one['n']:,}")
                lines.append([name, *numbers, GOOD[one["good"]], shown(one["chance"], "{:.3f}")])
        lines.sort(key=lambda line: (line[0] != self.content["headline"], line[0]))
        heads = ["metric", "value", "stderr", "n", "good", "chance"]
        table = DataFrame(lines, columns=heads).to_string(index=False) if lines else ""
        rest = len(self.metrics) - len(lines)
        more = f"{rest} further diagnostics in {METRICS}" * bool(rest)
        return "\n".join(filter(None, [benchmarks.headline(self.content), table, more]))

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(na_rep=NONE))


def evaluate(
    model: Path | str,
    benchmark: str,
    *,
    out: Path | str | None = None,
    data: Path | str | None = None,
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
        A folder or file with the benchmark's data; by default those of the catalogue.
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
    benchmarks.quiet_libraries()
    benchmarks.require_options(options)
    place = Path(out) if out else None
    if place:
        _require_own_folder(place, benchmark)
        check_place(place)
    benchmarks.find(benchmark)
    load = partial(Loader, device=device, gpus=gpus)
    with located(model, trust=trust_remote_code) as (given,):
        spec, source = benchmarks.asked_for(benchmark, options, data)
        folder = source_folder(given)
        if place is None:
            # Not at the top: what else is compared needs more.
            from .sides import Model, ask_model, evaluations_folder

            one, asked = Model(str(model), folder), {benchmark: (spec, source)}
            run_model = ask_model(one, asked, evaluations_folder(None), load, trust_remote_code)
            with contextlib.redirect_stdout(sys.stderr):
                place = run_model()[benchmark]
        else:
            benchmarks.check_out(place, [given, folder, data, source, spec.judge])
            with load(folder) as loader:
                benchmarks.run_benchmark(benchmarks.ask(benchmark, spec, source, loader), place)
    return Result(place, read_result(place))


def _require_own_folder(out: Path, task: str) -> None:
    """Raise UserError where ``out`` has the result of another benchmark, which would be lost."""
    found = str(read_result(out)["benchmark"]) if (out / METRICS).is_file() else task
    if found != task:
        raise UserError(
            f"expected an empty folder or a result of {task} at --out {out}, found one of {found}; "
            f"give each benchmark its own folder, such as {out.with_name(f'{out.name}-{task}')}"
        )
