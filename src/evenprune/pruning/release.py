"""Delete a pruned checkpoint, and its 2:4 export, after their last use.

Only a folder that carries our mark and to which nothing was added is deleted, and only where the
check beside it says what it was: `restore` makes the same checkpoint again when it is needed.
"""

import argparse
from pathlib import Path

from ..base.checksums import again, read_sealed, sealed
from ..base.files import write_json
from ..base.marks import EXPORT, PRUNED
from ..base.outputs import check_file, check_ours, discard_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``release``."""
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="DIR", help="folder of the pruned model")
    add("--export", type=Path, metavar="DIR", help="its 2:4 export")
    add("--out", type=Path, required=True, metavar="FILE", help="JSON, says what was deleted")


def run(args: argparse.Namespace) -> None:
    """Delete the folders, then say so in ``--out``; UserError for a folder that is not ours."""
    check_file(args.out, [args.model, args.export])
    check_ours(args.out, ("released",))
    check = args.model.parent / "check.json"
    checked = read_sealed(check, f"check the checkpoint again: run {again(check)}")
    for folder, kind in ((args.model, PRUNED), (args.export, EXPORT)):
        if folder is not None:
            discard_folder(folder, kind)
    write_json(args.out, sealed({"released": checked["model_sha256"]}))
