"""The records of items.jsonl, read here whoever asks."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.errors import UserError
from ..io.files import read_jsonl

Record = Mapping[str, Any]
OWN_ORDER = "012"  # records of further option orders of the same item are left out


def own_order(path: Path, records: Iterable[Record]) -> list[Record]:
    """Return the records whose options stand in the data's own order, one an item.

    Raises UserError for an item twice.
    """
    own = [record for record in records if record.get("perm", OWN_ORDER) == OWN_ORDER]
    if len({str(record["item_id"]) for record in own}) != len(own):
        raise UserError(f"expected each item_id once in {path}, found one twice; evaluate again")
    return own


def read_records(path: Path, fields: Sequence[str] = ("item_id",)) -> list[Record]:
    """Return the records of ``items.jsonl`` in the data's own order, which have these fields."""
    return own_order(path, read_jsonl(path, fields=fields))


def first_part(records: Sequence[Record]) -> list[Record]:
    """Return the records of the first category: the first protocol of perplexity's."""
    return [one for one in records if one.get("category") == records[0].get("category")]


def clusters(records: Sequence[Record]) -> tuple[str, ...] | None:
    """Return the cluster of every item, None where not all items have one."""
    if all(one.get("cluster") is not None for one in records):
        return tuple(str(one["cluster"]) for one in records)
    return None
