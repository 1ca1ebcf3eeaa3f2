"""The schema of the records in items.jsonl: one JSON object a line, an item in one option order.

``VERSION`` goes up when a field changes its meaning or is taken away; it stands in
metrics.json beside the checksum of the records. docs/evaluation.md explains the fields.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..base.errors import UserError

VERSION = 1


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(map(_number, value))


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _judgements(value: Any) -> bool:
    keys = {"form", "verdict", "codes", "p_unsafe", "says_unsafe"}
    return isinstance(value, list) and all(set(entry) == keys for entry in value) and value != []


TEXT, FLAG, COUNT = _of(str), _of(bool), _of(int)
# Every field and what its values look like. null where a record has nothing to say.
FIELDS: dict[str, Callable[[Any], bool]] = {
    "item_id": TEXT,
    "category": TEXT,
    "cluster": TEXT,
    "perm": TEXT,
    "option_logits": _numbers,
    "option_logprobs": _numbers,
    "mass": lambda value: value is None or _number(value),
    "pred": COUNT,
    "gold": COUNT,
    "unknown_idx": COUNT,
    "correct": FLAG,
    "correct_norm": FLAG,
    "tie": FLAG,
    "n_tokens": COUNT,
    "truncated": FLAG,
    "path": TEXT,
    "block": COUNT,
    "flipped": FLAG,
    "negated": FLAG,
    "activity": TEXT,
    "x1": TEXT,
    "x2": TEXT,
    "x1_idx": COUNT,
    "x2_idx": COUNT,
    "condition": TEXT,
    "polarity": TEXT,
    "biased_idx": _of(int, type(None)),
    "direction": TEXT,
    "shared_logprobs": _numbers,
    "n_shared": COUNT,
    "correct_shared": FLAG,
    "unrelated_logprob": _number,
    "sentence_tokens": _numbers,
    "nll": _number,
    "n_words": COUNT,
    "n_bytes": COUNT,
    "prompt_toxicity": lambda value: value is None or _number(value),
    "subset": TEXT,
    "n_new_tokens": COUNT,
    "finish": TEXT,
    "response_sha256": TEXT,
    "response_characters": COUNT,
    "response": TEXT,
    "empty": FLAG,
    "refusal": FLAG,
    "verdict": TEXT,
    "unsafe": _of(bool, type(None)),
    "judgements": _judgements,
}
_OPTIONS = (
    *("perm", "option_logits", "option_logprobs", "mass", "pred", "gold", "unknown_idx"),
    *("correct", "tie", "n_tokens", "truncated", "path", "cluster"),
)
_CHOICE = ("option_logprobs", "pred", "gold", "correct", "tie")
_ANSWER = (
    *("n_tokens", "truncated", "n_new_tokens", "finish", "response_sha256"),
    *("response_characters", "empty", "refusal", "verdict", "unsafe", "judgements"),
)
# Of each task the fields that all records have beside item_id and category, and those that
# some have (of a split, or on request).
TASK_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "perplexity": (("nll",), ("n_tokens", "n_words", "n_bytes")),
    "hellaswag": ((*_CHOICE, "correct_norm"), ()),
    "mmlu": (_CHOICE, ("correct_norm",)),
    "crows_pairs": (
        (*_CHOICE, "direction", "shared_logprobs", "n_shared", "correct_shared"),
        (),
    ),
    "stereoset": (
        (*_CHOICE, "correct_norm", "cluster", "unrelated_logprob", "sentence_tokens"),
        (),
    ),
    "unqover": (
        _OPTIONS,
        ("block", "flipped", "negated", "activity", "x1", "x2", "x1_idx", "x2_idx"),
    ),
    "bbq": ((*_OPTIONS, "condition", "polarity", "biased_idx"), ()),
    "realtoxicityprompts": ((*_ANSWER, "prompt_toxicity"), ("response",)),
    "harmbench": ((*_ANSWER, "subset"), ("response",)),
}


def checked(task: str, records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield a task's records as they are; raise UserError for one that is off the schema."""
    required, optional = TASK_FIELDS[task]
    needed = {"item_id", "category", *required}
    allowed = needed.union(optional)
    for record in records:
        wrong = [name for name in needed if name not in record]
        wrong += [name for name, x in record.items() if name not in allowed or not FIELDS[name](x)]
        if wrong:
            name = min(wrong)
            raise UserError(
                f"the record of item {record.get('item_id')!r} of {task} is off the schema: "
                f"{name} is {record.get(name, 'missing')!r}; where that is no finite number, the "
                "model's weights are damaged: check or prune it again"
            )
        yield record
