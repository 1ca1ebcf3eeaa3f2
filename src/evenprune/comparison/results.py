"""Finished results of a benchmark in two models: found, checked against each other, compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..plan.finished import read_result
from .differences import Difference, differences, read_records
from .sides import Evaluated, Request

# Of a protocol what decides which items are asked, and how; the rest is told where it differs.
DECISIVE = (
    *("limit", "seed", "style", "split", "orders", "bos", "judge", "judge_forms", "lexicon"),
    *("max_new_tokens",),
)
TOLD = ("dtype", "backend", "chat_template", "batch_size")


def results_of(side: Evaluated, requests: Mapping[str, Request]) -> dict[str, Path]:
    """Return the folder of each benchmark that was evaluated; UserError where one was not."""
    found = {slug: side.find(slug, request.task) for slug, request in requests.items()}
    missing = [slug for slug, folder in found.items() if folder is None]
    if missing:
        raise UserError(
            f"the evaluation {side.name} has no result of {', '.join(missing)}, only of "
            f"{', '.join(side.folders)}; evaluate it, or name the model's folder instead"
        )
    return {slug: folder for slug, folder in found.items() if folder is not None}


def require_same_protocol(slug: str, dense: Any, pruned: Any, names: Sequence[str]) -> list[str]:
    """Return what differs between two results without harm, in words.

    ``names`` are those of the two sides. Raises UserError where task, data or what decides the
    items differs.
    """
    pairs = [("task", dense["task"], pruned["task"]), ("data", dense["data"], pruned["data"])]
    specs = [one.get("spec", {}) for one in (dense, pruned)]
    pairs += [(name, specs[0].get(name), specs[1].get(name)) for name in DECISIVE]
    for what, one, other in pairs:
        if one != other:
            values = "" if what == "data" else f": {one!r} and {other!r}"
            raise UserError(
                f"{slug} was evaluated with another {what} for {names[0]} and {names[1]}{values}; "
                "evaluate both with the same data and options"
            )
    return [
        f"{slug}: {what.replace('_', ' ')} {specs[0].get(what)} (dense), {specs[1].get(what)}"
        for what in TOLD
        if specs[0].get(what) != specs[1].get(what)
    ]


def compare_results(
    slug: str, folders: Sequence[Path], names: Sequence[str], margin: float, known: bool
) -> tuple[list[Difference], list[str]]:
    """Return the rows of a benchmark, before the correction for their number, and notes on it.

    ``folders`` and ``names`` are those of the dense and the pruned model; ``known``: its data are
    among the calibration pairs. Raises UserError where the two are no pair.
    """
    dense, pruned = (read_result(folder) for folder in folders)
    notes = require_same_protocol(slug, dense, pruned, names)
    if str(dense.get("spec", {}).get("judge") or "").startswith("lexical:"):
        notes.append(f"{slug}: a word list judges the answers, which measures no safety")
    base = pruned.get("base_sha256")
    if base and base != dense.get("files_sha256"):
        notes.append(f"{names[1]} was pruned from another model than {names[0]}")
    both = (read_records(folders[0], dense), read_records(folders[1], pruned))
    return differences(slug, *both, margin=margin, in_calibration=known), notes
