"""Delete the evaluations of a run after its tables were made (``keep: tables``).

Of each summary.json exactly those files are deleted that it and its metrics.json list with their
checksums, and these themselves. A folder with any other file stays, with that file.
"""

import argparse
import contextlib
from pathlib import Path

from ..base.checksums import sealed
from ..base.files import write_json
from ..base.outputs import check_file, check_ours
from ..base.provenance import FINISHED, read_record
from ..plan.finished import ITEMS, METRICS, SUMMARY, read_result, read_summary, result_folder
from .evaluate_checkpoint import TIMED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``release-evaluations``."""
    add = parser.add_argument
    add("--evals", type=Path, nargs="+", required=True, metavar="DIR", help="of a checkpoint each")
    add("--out", type=Path, required=True, metavar="FILE", help="JSON, says what was deleted")


def run(args: argparse.Namespace) -> None:
    """Look at all evaluations, delete them, then say so; UserError for one that was changed."""
    check_file(args.out, args.evals)
    check_ours(args.out, ("released",))
    found = {folder: _listed(folder) for folder in args.evals if (folder / SUMMARY).exists()}
    for folder, files in found.items():
        for file in files:
            file.unlink(missing_ok=True)
        for place in (*{file.parent for file in files} - {folder}, folder):
            with contextlib.suppress(OSError):  # it holds something else
                place.rmdir()
    names = sorted(str(folder) for folder in found)
    write_json(args.out, sealed({"released": names}))


def _listed(folder: Path) -> list[Path]:
    """Return the files of an evaluation, the summary last, all of them as they were written."""
    files = []
    for slug in read_summary(folder)["benchmarks"]:
        place = result_folder(folder, slug)
        read_result(place)
        files += [place / name for name in (ITEMS, METRICS)]
        if set(TIMED) <= set(read_record(place / FINISHED) or ()):
            files.append(place / FINISHED)
    return [*files, folder / SUMMARY]
