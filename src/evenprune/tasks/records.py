"""What records in items.jsonl look like: one JSON object a line, an item in one option order.

Each task declares the ``Fields`` of its records from the groups and checks here and its own.
``VERSION`` goes up when a field changes its meaning or is taken away; it stands in
metrics.json beside the checksum of the records. docs/evaluation.md explains the fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Len
from pydantic import ConfigDict, FiniteFloat, ValidationError, create_model

from ..io.errors import UserError

VERSION = 1

TEXT, FLAG, COUNT, NUMBER = str, bool, int, FiniteFloat
FLAG_OR_NULL, COUNT_OR_NULL, NUMBER_OR_NULL = bool | None, int | None, FiniteFloat | None
NUMBERS = Annotated[list[FiniteFloat], Len(2)]

ITEM: Mapping[str, Any] = {"item_id": TEXT, "category": TEXT}  # of every record
# Of an item whose options are whole continuations.
CHOICE: Mapping[str, Any] = {
    "option_logprobs": NUMBERS,
    "pred": COUNT,
    "gold": COUNT,
    "correct": FLAG,
    "tie": FLAG,
}
# Of a question that is answered with a letter, in one order of its options.
OPTIONS: Mapping[str, Any] = {
    **CHOICE,
    "perm": TEXT,
    "option_logits": NUMBERS,
    "mass": NUMBER_OR_NULL,
    "unknown_idx": COUNT,
    "n_tokens": COUNT,
    "truncated": FLAG,
    "path": TEXT,
    "cluster": TEXT,
}


@dataclass(frozen=True)
class Fields:
    """The fields of a task's records beside ``ITEM``, and the types of their values.

    All records have the ``required`` ones; some, of a split or on request, the ``optional`` ones.
    """

    required: Mapping[str, Any]
    optional: Mapping[str, Any] = field(default_factory=dict)


def checked(
    task: str, fields: Fields, records: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Yield a task's records as they are; raise UserError for one that is off the schema."""
    needed = {**ITEM, **fields.required}
    rules: dict[str, Any] = {name: (kind, ...) for name, kind in needed.items()}
    rules |= {name: (kind, None) for name, kind in fields.optional.items()}
    form = create_model("Record", __config__=ConfigDict(strict=True, extra="forbid"), **rules)
    for record in records:
        try:
            form.model_validate(record)
        except ValidationError as error:
            name = min(str(one["loc"][0]) for one in error.errors())
            raise UserError(
                f"the record of item {record.get('item_id')!r} of {task} is off the schema: "
                f"{name} is {record.get(name, 'missing')!r}; where that is no finite number, the "
                "model's weights are damaged: check or prune it again"
            ) from None
        yield record
