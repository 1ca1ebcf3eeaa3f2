"""Whether the files of a run belong together: no row is built from two base models.

Every evaluation, check and serving measurement names the digest of the base model (see
``identity.py``), every check those of the calibration texts; here they are compared.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..config.finished import SUMMARY, read_summary, remedy
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..io.checksums import again, read_sealed
from ..io.errors import UserError
from ..io.progress import Progress
from .measurements import read_part
from .measurements import remedy as redo


def read_check(path: Path | str) -> dict[str, Any]:
    """Return a checkpoint's check.json; raise UserError where it is not as ``check`` wrote it."""
    return read_sealed(path, f"check the checkpoint again: run {again(path)}")


def _digests(sheet: RunSheet, point: Checkpoint) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each file about a checkpoint with what it says, and how to make it again."""
    files, evals = sheet.files[point], Path(str(sheet.files[point]["evals"]))
    if path := files["check"]:
        yield path, read_check(path), f"run {again(path)}"
    yield str(evals / SUMMARY), read_summary(evals), remedy(evals)
    if path := files["serving"]:
        yield path, read_part(path, point), redo(path)


def _check_calibration(check: dict[str, Any], path: str, manifest: str) -> None:
    """Raise UserError where a checkpoint was pruned with other texts than its calibration's."""
    made = read_sealed(manifest, f"build it again: run {again(manifest)}").get("files", {})
    used = check.get("calibration", {})
    for name in ("pairs", "texts"):
        # A calibration without texts has an empty file of them, which pruning does not read.
        if used.get(f"{name}_sha256") not in (None, made.get(f"{name}.jsonl")):
            folder = Path(path).parent / "model"
            raise UserError(
                f"{folder} was pruned with other {name} than {manifest} is of; prune again: "
                f"run {again(folder)}"
            )


def check_one_base(run_sheet: RunSheet) -> None:
    """Raise UserError that names both where two files of a model are of different base models.

    Also where a pruned checkpoint was evaluated, measured or calibrated as another one.
    """
    progress = Progress(len(run_sheet.files), "base models")
    bases: dict[str, tuple[str, str | None]] = {}
    for point in sorted(run_sheet.files, key=lambda point: not point.is_base):
        first, about = "", dict[str, Any]()
        for path, says, mend in _digests(run_sheet, point):
            first, about = first or path, about or says
            base = says.get("files_sha256" if point.is_base else "base_sha256")
            known, expected = bases.setdefault(point.model, (path, base))
            if base != expected or base is None:
                raise UserError(
                    f"expected one base model behind all checkpoints of {point.model}, but {known} "
                    f"is of {str(expected)[:12]} and {path} of {str(base)[:12]}; make both again: "
                    "run `snakemake --cores all --forcerun fetch_source` with this run's "
                    "configuration"
                )
            if not point.is_base and says.get("model_sha256") != about.get("model_sha256"):
                raise UserError(f"{path} is of other weights than {first}; {mend}")
        if manifest := run_sheet.files[point]["calibration_manifest"]:
            _check_calibration(about, first, manifest)
        progress.update()
