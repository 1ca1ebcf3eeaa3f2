"""The schema of items.jsonl: what it lets through, what it stops, and that it is explained."""

import re
import sys
from pathlib import Path

import pytest

from evenprune.config.tasks import FACTS
from evenprune.evaluation.benchmarks import find
from evenprune.io.errors import UserError
from evenprune.tasks.mmlu import TASK
from evenprune.tasks.records import ITEM, checked

GOOD = {
    "item_id": "1", "category": "law", "option_logprobs": [-1.0, -2.5], "pred": 0, "gold": 1,
    "correct": False, "tie": False,
}  # fmt: skip


def test_good_records_pass_unchanged():
    assert list(checked("mmlu", TASK.fields, [GOOD, GOOD])) == [GOOD, GOOD]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"option_logprobs": [-1.0, float("nan")]}, "option_logprobs"),
        ({"pred": True}, "pred"),
        ({"correct": 1}, "correct"),
        ({"item_id": 1}, "item_id"),
        ({"nll": 0.5}, "nll"),
        ({"invented": 1}, "invented"),
    ],
)
def test_wrong_values_and_unknown_fields_stop(change, field):
    with pytest.raises(UserError, match=f"of mmlu is off the schema: {field} is"):
        list(checked("mmlu", TASK.fields, [GOOD, GOOD | change]))


def fields_of(task):
    fields = find(task).fields
    return {**ITEM, **fields.required, **fields.optional}


def test_a_field_is_the_same_in_every_task():
    seen = {}
    for task in FACTS:
        for name, check in fields_of(task).items():
            assert seen.setdefault(name, check) is check, (task, name)


@pytest.mark.parametrize("task", FACTS)
def test_every_field_is_explained(task):
    """In docs/evaluation.md, or by the module of the task whose own it is."""
    text = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("| `")]
    explained = {name for line in table for name in re.findall(r"`(\w+)`", line)}
    explained.update(re.findall(r"``(\w+)``", sys.modules[type(find(task)).__module__].__doc__))
    assert set(fields_of(task)) <= explained
