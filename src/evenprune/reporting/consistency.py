"""Whether the files of a run belong together: no row is built from two base models.

Every evaluation, check and serving measurement names the digest of the base model (see
``identity.py``), every check those of the calibration texts; here they are compared.
"""

from pathlib import Path
from typing import Any

from ..base.checksums import again, read_sealed
from ..base.errors import UserError
from ..base.progress import Progress
from ..plan.finished import SUMMARY, read_summary, remedy
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet
from .measurements import read_part
from .measurements import remedy as redo


def read_check(path: Path | str) -> dict[str, Any]:
    """Return a checkpoint's check.json; raise UserError where it is not as ``check`` wrote it."""
    return read_sealed(path, f"check the checkpoint again: run {again(path)}")


def _bases(run_sheet: RunSheet, point: Checkpoint) -> dict[str, str | None]:
    """Return the base model's digest that each file about a checkpoint names."""
    files = run_sheet.files[point]
    own = "files_sha256" if point.is_base else "base_sha256"
    evals = Path(str(files["evals"]))
    found = {str(evals / SUMMARY): read_summary(evals).get(own)}
    if files["check"]:
        found[files["check"]] = read_check(files["check"]).get("base_sha256")
    if files["serving"]:
        found[files["serving"]] = read_part(files["serving"], point).get(own)
    return found


def _check_checkpoint(point: Checkpoint, files: dict[str, str | None]) -> None:
    """Compare evaluation, serving and calibration of a pruned checkpoint with its check."""
    path = str(files["check"])
    check = read_check(path)
    evals = Path(str(files["evals"]))
    if read_summary(evals).get("model_sha256") != check.get("model_sha256"):
        raise UserError(f"{evals / SUMMARY} is of other weights than {path}; {remedy(evals)}")
    serving = files["serving"]
    if serving and read_part(serving, point).get("model_sha256") != check.get("model_sha256"):
        raise UserError(f"{serving} is of other weights than {path}; {redo(serving)}")
    manifest = files["calibration_manifest"]
    if not manifest:
        return
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
    first: dict[str, tuple[str, str | None]] = {}
    for point in sorted(run_sheet.files, key=lambda point: not point.is_base):
        files = run_sheet.files[point]
        for path, base in _bases(run_sheet, point).items():
            known, expected = first.setdefault(point.model, (path, base))
            if base != expected or base is None:
                raise UserError(
                    f"expected one base model behind all checkpoints of {point.model}, but {known} "
                    f"is of {str(expected)[:12]} and {path} of {str(base)[:12]}; make both again: "
                    "run `snakemake --cores all --forcerun fetch_model` with this run's "
                    "configuration"
                )
        if files["check"]:
            _check_checkpoint(point, files)
        progress.update()
