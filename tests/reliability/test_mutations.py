"""Damaged input, thousands of times: right output, or one sentence with exit status 2.

The rule is in ``mutation/harness.py``; nothing is searched for, every case follows from the seed
and its number: MUTATION_SEED and MUTATION_CASE in the environment ask for others, or for one alone.
"""

import os
import random

import pytest

from mutation.harness import Session, snapshot
from mutation.mutations import damage_file, json_text

SEED, CASE = int(os.environ.get("MUTATION_SEED", 0)), os.environ.get("MUTATION_CASE")


@pytest.fixture(scope="module")
def session():
    made = Session(SEED)
    yield made
    made.close()


@pytest.mark.slow
def test_nine_hundred_damaged_inputs(session):
    report = session.run([int(CASE)] if CASE else range(900))
    assert not report.failures, "\n".join(map(str, report.failures))
    # every command takes part, and neither answer is the only one
    assert CASE or len(report.cases) == len(session.scenarios)
    assert CASE or min(report.success.total(), report.refused.total()) > 100


@pytest.mark.slow
def test_a_case_follows_from_seed_and_number(session):
    words = []
    for _ in range(2):
        for number in (3, 17, 40):
            scenario, rng = session.draw(number)
            folder = session.sandbox(scenario, f"again-{len(words)}")
            argv, _, done = session.damage(scenario, folder, rng)
            words.append((scenario.name, argv, done, snapshot(folder / "in")))
    assert words[:3] == words[3:]


@pytest.mark.slow
def test_the_rule_notices_each_kind(session):
    """A command that does what it must not do is found by the harness, kind by kind."""
    from mutation.harness import Outcome

    scenario = next(s for s in session.scenarios if s.name == "fetch-model")
    folder = session.sandbox(scenario, "rule")
    before = snapshot(folder)

    def kind(outcome, after):
        found = session.judge(scenario, folder, outcome, before, after, list(scenario.outputs))
        return found and found[0]

    refused = Outcome(2, "error: no such model\n")
    assert kind(refused, before) is None
    assert kind(Outcome(2, "error: one\nerror: two\n"), before) == "not one sentence"
    assert kind(Outcome(2, "Traceback (most recent call last)\nerror: x\n"), before) is not None
    assert kind(Outcome(1, ""), before) == "exit 1"
    assert kind(Outcome(None, raised="KeyError"), before) == "KeyError"
    assert kind(refused, {**before, "record.json": b"{}"}) == "output left"
    assert kind(Outcome(0), {**before, "elsewhere": b""}) == "stray file"
    lost = {name: data for name, data in before.items() if name != "victim/notes.txt"}
    assert kind(refused, lost) == "input lost or changed"
    assert kind(Outcome(0), before) == "silently wrong"  # no output at all


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"a": [1, {"b": "c"}], "d": null}'),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n'),
        ("a.csv", "a,b\n1,2\n3,4\n"),
        ("a.txt", "words"),
    ],
)
def test_damage_never_fails_and_mostly_changes(tmp_path, name, text):
    changed = 0
    for seed in range(200):
        file = tmp_path / f"{seed}-{name}"
        file.write_text(text)
        assert damage_file(file, random.Random(seed))
        changed += not file.is_file() or file.read_bytes() != text.encode()
    assert changed > 150
    assert json_text("[1]", random.Random(0)) == json_text("[1]", random.Random(0))
