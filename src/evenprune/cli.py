"""The command line: commands for people (`evenprune`) and steps (`python -m evenprune.steps`).

Each lives in a module with ``add_arguments(parser)`` and ``run(args)``, which is imported only
when it is called, so that ``--help`` stays quick.
"""

import argparse
import contextlib
import errno
import gc
import importlib
import os
import re
import select
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import __version__
from .io.errors import UserError, nearest, shown

Commands = Mapping[str, str]  # subcommand -> module
# What `evenprune --help` says: the commands for people, in groups, with an example each.
OVERVIEW = """\
One model:
  prune           prune one model
      evenprune prune --model smollm2-135m --method debias-sparsegpt --regime 2of4 --out pruned/a
  check           verify a pruned checkpoint, or say what any folder holds
      evenprune check --model pruned/a --base smollm2-135m --out pruned/a-check.json
  evaluate        run one benchmark on one model
      evenprune evaluate --model pruned/a --benchmark crows_pairs --limit 200 --out evals/a
  compare         a pruned model against its dense one, on the same items
      evenprune compare smollm2-135m pruned/a --benchmark stereoset --limit 200
  export-sparse24 compress a 2of4 checkpoint: values and 2-bit places
      evenprune export-sparse24 --model pruned/a --out exported/a
A whole run:
  plan            how long a run takes and how much disk it needs
      evenprune plan --configfile config/paper.yaml
  prefetch        fetch everything a config needs, then work offline
      evenprune prefetch --configfile config/paper.yaml
  explain         say where one number of a table comes from, and check it
      evenprune explain answer --cell smollm2-135m/debias-sparsegpt/2of4/ss.groups-b64-cf4/stereoset
This machine:
  gpu-check       try this program on a GPU, and report what was found
      evenprune gpu-check --out REPORT
Completion in bash and zsh: eval "$(register-python-argcomplete evenprune)"."""
_ROOMS = {
    "pruning": ("prune", "check", "compare-masks"),
    "comparison": ("evaluate", "compare"),
    "serving": ("export-sparse24", "benchmark-serving"),
    "config": ("plan",),
    "data": ("prefetch", "fetch-source", "build-calibration"),
    "analysis": ("collect-results", "make-items"),
    "reporting": ("explain", "make-tables", "make-paper", "say-results"),
    "hardware": ("gpu-check",),
    "evaluation": ("evaluate-checkpoint",),
}
# All subcommands: for people, and steps of the workflow, which its rules call.
COMMANDS: Commands = {
    name: f".{room}.{name.replace('-', '_')}" for room, names in _ROOMS.items() for name in names
}
PEOPLE: Commands = {
    name: COMMANDS[name] for name in re.findall(r"^ {6}evenprune (\S+)", OVERVIEW, re.MULTILINE)
}


def entry(argv: Sequence[str] | None = None, commands: Commands = PEOPLE) -> int:
    """Run ``main`` as a process of its own and return its exit status.

    Beside those of ``main``: 130 after Ctrl-C, 141 where what reads our output has gone.
    """
    _prepare_streams()
    # Imports, and a tokenizer's merges, are a million objects that stay: to look through them for
    # garbage after every 700 took a second, two and more where there are 262,000 words.
    gc.set_threshold(50_000)
    try:
        try:
            status = main(argv, commands)
        except SystemExit as end:  # argparse's, after --help or a usage error
            status = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("interrupted; run the same command again to resume", file=sys.stderr)
        return 130
    except OSError as error:
        faults = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        disk = error.filename is None and error.errno in faults
        gone = isinstance(error, BrokenPipeError) and any(map(_reader_gone, (1, 2)))
        if not disk and not gone:
            raise
        if disk:
            does, then = "write", "free some space"
            if error.errno == errno.EIO:
                does, then = "read a file or write", "check that disk"
            said = f"could not {does} the output: {error.strerror}; {then}"
            with contextlib.suppress(OSError):  # what is said may go to the same disk
                print(f"error: {said}, then run the same command again", file=sys.stderr)
        # Else Python writes the rest again when it ends, and complains.
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)
            try:
                sys.stderr.flush()
            except OSError:
                os.dup2(nothing.fileno(), 2)
        return 2 if disk else 141  # as after SIGPIPE: `… | head` has seen enough


def _reader_gone(stream: int) -> bool:
    """Say whether a stream is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def main(argv: Sequence[str] | None = None, commands: Commands = COMMANDS) -> int:
    """Run one subcommand; return 0, its own status (`compare`), or 2 after one sentence.

    The sentence is about a UserError, a missing package, or a path of the user's that the
    system does not let us use. Any other exception is a fault of the program and keeps its
    traceback.
    """
    try:
        return _run(list(sys.argv[1:] if argv is None else argv), commands)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, with the nearest name of what it does not know."""

    def error(self, message: str) -> NoReturn:
        wrong = re.fullmatch(r"(.*invalid choice: '(.*)') \(choose from (.*)\)", message)
        if wrong:
            names = [name.strip("' ") for name in wrong[3].split(",")]
            message = wrong[1] + (nearest(wrong[2], names) or f" (choose from {', '.join(names)})")
        self.exit(2, f"error: {message} (see `{self.prog} --help`)\n")


def _check_options(parser: argparse.ArgumentParser, name: str, words: Sequence[str]) -> None:
    """Raise UserError for the first option that a subcommand does not have, not even cut short.

    argparse would tell of it last, behind the options that are then missing. An empty path, which
    would be the working directory, is refused too.
    """
    known = {flag: action for action in parser._actions for flag in action.option_strings}
    for word, following in zip(words, [*words[1:], None]):
        if word == "--":
            return
        flag, given, value = word.partition("=")
        meant = [one for one in known if one.startswith(flag)]
        if flag.startswith("--") and not meant:
            raise UserError(
                f"{name} has no option {flag}{nearest(flag, known)} (see `{parser.prog} --help`)"
            )
        empty = not value if given else following == ""
        if flag.startswith("--") and empty and any(known[one].type is Path for one in meant):
            raise UserError(f"expected a path at {flag}, got nothing; name one or leave it out")


def _prepare_streams() -> None:
    """Let any text be printed: `±` becomes `\\xb1` where the terminal takes ASCII only.

    A stream that was closed (`2>&-`) is opened on nothing, lest the first file that a step
    opens takes its number and a library's warnings go there.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        with contextlib.suppress(AttributeError):  # another kind of stream, put there by a caller
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _run(argv: list[str], commands: Commands) -> int:
    if odd := [text for text in argv if re.search("[\ud800-\udfff]", text)]:
        raise UserError(f"expected arguments in UTF-8, got {shown(odd[0])}; rename that file")
    # Nothing here talks to an outside host except the fetch steps.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # the libraries' bars; ours are lines there
    completing = "_ARGCOMPLETE" in os.environ  # the shell asks for what may follow the line so far
    words = os.environ["COMP_LINE"].split()[1:] if completing else argv
    asked = next((word for word in words if not word.startswith("-")), None)
    parser, steps = _parser(commands, [one for one in commands if one == asked])
    if completing:
        import argcomplete

        argcomplete.autocomplete(parser)
    if asked in steps:
        _check_options(steps[asked], asked, argv[argv.index(asked) + 1 :])
    if not argv:
        parser.print_help()
        return 0
    args = parser.parse_args(argv)
    # What is left are the command's own options.
    name, run = vars(args).pop("command"), vars(args).pop("run")
    quiet = open(os.devnull, "w") if vars(args).pop("quiet", False) else None  # noqa: SIM115
    options = dict(vars(args))
    from .io.provenance import recorded  # not for --help

    try:
        silent = contextlib.redirect_stderr(quiet) if quiet else contextlib.nullcontext()
        with silent, recorded(name, options.get("out"), options.get("device")):
            status = run(args)
    except OSError as error:
        if not _is_given(error.filename, options.values()):
            raise
        raise UserError(
            f"could not use {shown(str(error.filename))}: {error.strerror}; check that path"
        ) from error
    return status if isinstance(status, int) else 0


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each subcommand, whose modules are imported; see ``_parser``."""
    return _parser(COMMANDS, COMMANDS)[1]


def _parser(
    known: Commands, chosen: Collection[str]
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the whole parser, and those of the ``chosen`` subcommands with all their options.

    Only their modules are imported. Raises UserError where a subcommand needs a package that is not
    installed.
    """
    package = next(iter(known.values())).partition(".")[0] or "evenprune.steps"
    parser = _Parser(
        prog="evenprune" if known is PEOPLE else f"python -m {package}",
        description="Prune language models, evaluate them, compare them.",
        epilog=OVERVIEW if known is PEOPLE else "\n".join(["Steps:", *known]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found: dict[str, argparse.ArgumentParser] = {}
    parser.add_argument("--version", action="version", version=__version__)
    _add_quiet(parser)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help=argparse.SUPPRESS
    )
    for name, module in known.items():
        command = commands.add_parser(name)
        if name in chosen:
            try:
                step = importlib.import_module(module, __package__)
            except ModuleNotFoundError as error:
                raise UserError(
                    f"{name} needs the Python package {error.name}, which {sys.executable} lacks; "
                    "use the environment that `make env` (or `make vllm-env`) builds"
                ) from None
            command.description = (step.__doc__ or "").strip()
            command.formatter_class = argparse.RawDescriptionHelpFormatter
            step.add_arguments(command)
            _add_quiet(command)
            found[name] = command
            command.set_defaults(run=step.run)
    return parser, found


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    # Before the subcommand or behind it: neither's default may hide the other's value.
    parser.add_argument(
        *("-q", "--quiet"),
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the result and errors only, no notes and no progress",
    )


def _is_given(name: object, values: Iterable[Any]) -> bool:
    """Say whether a file is one of the arguments, lies in one, or is a folder above one."""
    if not isinstance(name, str | os.PathLike):
        return False
    place = os.path.abspath(os.fspath(name))
    parts = [one for value in values for one in (value if isinstance(value, list) else [value])]
    given = [os.path.abspath(one) for one in parts if isinstance(one, str | Path) and str(one)]
    return any(os.path.commonpath([place, one]) in (place, one) for one in given)
