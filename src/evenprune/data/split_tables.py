"""Tables of a data set as the hub and packages have them: parquet, JSON, CSV, word lists."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..io.errors import UserError
from ..io.reading import iter_csv, iter_jsonl, parse_json, read_json, read_text


@dataclass
class SplitTable:
    """Rows of one split, and the names of its class labels where the files state them.

    ``count`` are the rows that were taken.
    """

    name: str
    rows: Iterable[Mapping[str, Any]]
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    count: int = 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows, and count them."""
        for row in self.rows:
            self.count += 1
            yield row

    def label(self, column: str, value: Any, default: Sequence[str] = ()) -> str:
        """Return a class label as text: itself, or the name that its number stands for."""
        names = self.class_names.get(column, default)
        return value if isinstance(value, str) else dict(enumerate(names))[value]


def read_table(
    name: str, paths: Sequence[Path], first: int | None = None, at: str | None = None
) -> SplitTable:
    """Return the rows of parquet, JSON, JSON-lines, CSV or word list files, in order.

    They are read as they are needed. ``first`` keeps that many rows; ``at`` are the keys that
    lead to the rows of a JSON file. Raises UserError for another kind of file.
    """
    each = (_rows(path, at) for path in paths)
    rows = itertools.islice(itertools.chain.from_iterable(each), first)
    names: dict[str, list[str]] = {}
    for path in paths:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            with _arrow_errors(path):
                metadata = pq.read_schema(path).metadata or {}
            features = metadata.get(b"huggingface", b"{}").decode(errors="replace")
            names |= _class_names(parse_json(features, f"the metadata of {path}"))
    return SplitTable(name, rows, names)


@contextlib.contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise UserError(f"{path} is damaged ({error}); fetch it again") from None


def _rows(path: Path, at: str | None = None) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with _arrow_errors(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    elif path.suffix == ".jsonl" or path.suffixes[-2:] == [".jsonl", ".gz"]:
        for _, row in iter_jsonl(path):
            yield row
    elif path.suffix == ".csv":
        for _, row in iter_csv(path):
            yield row
    elif path.suffix == ".json":
        yield from _rows_at(path, at)
    elif not path.suffix:
        for number, line in enumerate(read_text(path).splitlines()):
            yield {"file": path.name, "line": number, "text": line}
    else:
        raise UserError(f"expected a .parquet, .json, .jsonl or .csv file, got {path}")


def _rows_at(path: Path, at: str | None) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a list in a JSON file, or of a mapping its keys and values."""
    found = read_json(path)
    for key in at.split(".") if at else ():
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, Mapping):
        found = [{"key": key, "value": value} for key, value in found.items()]
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise UserError(f"expected rows at {at or 'the top'} of {path}, found none; correct `at`")
    yield from found


def _class_names(features: Any) -> dict[str, list[str]]:
    """Return the names of every class label in the ``datasets`` features of a parquet file."""
    found: dict[str, list[str]] = {}
    for key, value in features.items() if isinstance(features, dict) else ():
        if isinstance(value, dict) and value.get("_type") == "ClassLabel":
            found[key] = list(value["names"])
        else:
            found |= _class_names(value)
    return found
