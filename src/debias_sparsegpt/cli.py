"""The command line: one subcommand per workflow step.

Each step lives in a module with ``add_arguments(parser)`` and ``run(args)``. The module
is imported only when its subcommand is called, so ``--help`` stays quick.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from . import __version__
from .errors import UserError

# subcommand -> (module, one line of help)
COMMANDS = {
    "generate-world": (".world.generator", "write the invented world's data sets"),
    "train-world": (".world.train", "train the small Llama on the invented world"),
    "shipped-world-model": (".world.shipped", "take the shipped model of the invented world"),
    "fetch-dataset": (".commands.fetch_dataset", "resolve one data set from mirror or hub"),
    "fetch-model": (".commands.fetch_model", "resolve one model from mirror or hub"),
    "prefetch": (".commands.prefetch", "fetch everything a config needs, then work offline"),
    "build-calibration": (".commands.build_calibration", "select and align calibration data"),
    "prune": (".pruning.command", "prune one model"),
    "check": (".pruning.check", "verify a pruned checkpoint before it is evaluated"),
    "compare-masks": (".pruning.patterns", "compare the zeros of two pruned checkpoints"),
    "evaluate": (".evaluation.command", "run one benchmark on one model"),
    "evaluate-checkpoint": (".evaluation.checkpoint", "run several benchmarks, one model load"),
    "benchmark-serving": (".serving.command", "measure throughput, energy and CO2"),
    "export-sparse24": (".serving.export", "compress a 2of4 checkpoint: values and 2-bit places"),
    "collect-results": (".reporting.collect", "gather all metrics into results.csv"),
    "make-table": (".reporting.make_table", "render one table as .tex, .csv and .md"),
    "make-figure": (".reporting.make_figure", "render one figure"),
    "make-paper": (".reporting.paper", "typeset the tables and figures as one PDF"),
    "report-controls": (".reporting.controls", "the bias term against its negative controls"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; return 0, or 2 after one sentence: a UserError, a missing package."""
    argv = list(sys.argv[1:] if argv is None else argv)
    # Nothing here talks to an outside host except the fetch steps.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    parser = argparse.ArgumentParser(prog="debias_sparsegpt", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if argv[:1] == [name]:
            try:
                step = importlib.import_module(module, __package__)
            except ModuleNotFoundError as error:
                print(
                    f"error: {name} needs the Python package {error.name}, which {sys.executable} "
                    "does not have; run it in the environment that `make env` (or `make vllm-env`) "
                    "builds",
                    file=sys.stderr,
                )
                return 2
            command.description = (step.__doc__ or text).strip()
            command.formatter_class = argparse.RawDescriptionHelpFormatter
            step.add_arguments(command)
            command.set_defaults(run=step.run)
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
