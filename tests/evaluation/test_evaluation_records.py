"""The schema of items.jsonl: what it lets through, what it stops, and that it is explained."""

import re
from pathlib import Path

import pytest

from evenprune.base.errors import UserError
from evenprune.evaluation.benchmarks import TASKS
from evenprune.evaluation.records import FIELDS, TASK_FIELDS, checked

GOOD = {
    "item_id": "1", "category": "law", "option_logprobs": [-1.0, -2.5], "pred": 0, "gold": 1,
    "correct": False, "tie": False,
}  # fmt: skip


def test_good_records_pass_unchanged():
    assert list(checked("mmlu", [GOOD, GOOD])) == [GOOD, GOOD]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"option_logprobs": [-1.0, float("nan")]}, "option_logprobs"),
        ({"option_logprobs": [-1.0, float("-inf")]}, "option_logprobs"),
        ({"pred": True}, "pred"),
        ({"correct": 1}, "correct"),
        ({"item_id": 1}, "item_id"),
        ({"nll": 0.5}, "nll"),
        ({"invented": 1}, "invented"),
    ],
)
def test_wrong_values_and_unknown_fields_stop(change, field):
    with pytest.raises(UserError, match=f"of mmlu is off the schema: {field} is"):
        list(checked("mmlu", [GOOD, GOOD | change]))


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_field_stops(name):
    record = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(UserError, match=f"{name} is 'missing'"):
        list(checked("mmlu", [record]))


def test_every_task_has_a_schema_of_known_fields():
    assert set(TASK_FIELDS) == set(TASKS)
    used = {name for parts in TASK_FIELDS.values() for part in parts for name in part}
    assert used | {"item_id", "category"} == set(FIELDS)


def test_every_field_is_explained():
    text = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("| `")]
    explained = {name for line in table for name in re.findall(r"`(\w+)`", line)}
    assert set(FIELDS) <= explained
