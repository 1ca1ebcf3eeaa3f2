"""A path that holds another evaluator's records, told by what is in its files."""

from collections.abc import Callable
from pathlib import Path

from ...io.errors import UserError
from ...io.reading import read_json
from . import every_eval_ever, inspect_logs, lm_eval
from .items import Recorded, Recording
from .metric_table import MetricTable

LM_EVAL, INSPECT, EEE = "lm-eval", "Inspect", "every_eval_ever"
MOST = 1_000  # files of a folder that are looked into


def open_recorded(text: str, table: MetricTable) -> Recorded | None:
    """Return the records at a path: a file, or a folder with those of one evaluator; else None.

    ``table`` has what metrics say. Raises UserError for a damaged record, several evaluators in one
    folder, and a task that was recorded twice.
    """
    path = Path(text)
    if not path.exists() or (path / "config.json").is_file():
        return None
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    known = [one for one in files if one.suffix in (".jsonl", ".json", ".eval")]
    if len(known) > MOST:
        raise UserError(
            f"expected at most {MOST:,} files in {text}, found {len(known):,}; name a folder in it"
        )
    readers = {file: reader for file in known if (reader := _reader(file))}
    evaluators = list(dict.fromkeys(name for name, _ in readers.values()))
    if len(evaluators) > 1:
        raise UserError(
            f"expected the records of one evaluator in {text}, found those of "
            f"{' and '.join(evaluators)}; name the folder of one"
        )
    found: dict[str, Recording] = {}
    for one in (one for file, (_, read) in readers.items() for one in read(file, table)):
        if one.task in found:
            raise UserError(
                f"expected one record of {one.task} in {path}, found {found[one.task].place} and "
                f"{one.place}; name the folder or file of one run"
            )
        found[one.task] = one
    return Recorded(text, evaluators[0], found) if evaluators else None


def _reader(file: Path) -> tuple[str, Callable[[Path, MetricTable], list[Recording]]] | None:
    """Return whose record a file is and what reads it, None for none, or what belongs to one."""
    if file.suffix == ".eval":
        return INSPECT, inspect_logs.read_inspect
    if not file.is_file() or file.stat().st_size == 0:
        return None
    if file.suffix == ".jsonl":
        return (LM_EVAL, lm_eval.read_lm_eval) if lm_eval.is_samples(file) else None
    said = read_json(file, finite=False)
    if said.keys() >= every_eval_ever.SIGNS:
        return EEE, every_eval_ever.read_record
    log = {"version", "status", "eval"} <= said.keys()
    return (INSPECT, inspect_logs.read_inspect) if log else None
