"""A killed evaluation goes on behind its last finished batch and ends with the same bytes."""

import json
import re
from unittest import mock

import pytest
from evaluation_fixtures import command
from safety_models import save_guard

from evenprune import cli
from evenprune.language_models.journal import Journal

# batch sizes that make several batches of each
TASKS = {
    "unqover": ("--orders", "6", "--batch-size", "8"),
    "perplexity": ("--batch-size", "2"),
    "hellaswag": ("--batch-size", "1"),
    "harmbench": (*("--batch-size", "2", "--max-new-tokens", "8"), "--judge-forms", "pr,paper"),
}


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    """A guard model, which judges what harmbench makes the model answer."""
    return save_guard(tmp_path_factory.mktemp("guard") / "guard")


def words(task, model, data, out, *more):
    return command(task, model, data, out, *TASKS[task], *more)


def computed(command, stop=None):
    """Run a command, killed behind its batch ``stop``; return (stage, number) of what it kept."""
    put, stages = Journal.put, []

    def note(journal, stage, number, values):
        put(journal, stage, number, values)
        stages.append((stage, number))
        if len(stages) == stop:
            raise KeyboardInterrupt

    with mock.patch.object(Journal, "put", note):
        if stop is None:
            assert cli.main(command) == 0
        else:
            with pytest.raises(KeyboardInterrupt):
                cli.main(command)
    return stages


def contents(folder):
    return [(folder / name).read_bytes() for name in ("metrics.json", "items.jsonl")]


@pytest.mark.parametrize("task", TASKS)
def test_an_interrupted_run_goes_on(task, model, data, guard, tmp_path, capsys):
    judge = ["--judge", str(guard)] if task == "harmbench" else []
    whole = computed(words(task, model, data, tmp_path / "whole", *judge))
    assert len(whole) >= 2
    assert not (tmp_path / "whole/partial.jsonl").exists()
    stop = len(whole) // 2
    out = tmp_path / "killed"
    computed(words(task, model, data, out, *judge), stop)
    assert [path.name for path in out.iterdir()] == ["partial.jsonl"]
    if judge:  # it was killed between two judgements; of answers there are token ids and no text
        assert whole[stop - 1][0] == "judge pr"
        kept = [json.loads(line) for line in (out / "partial.jsonl").read_text().splitlines()]
        answers = [row for *_, rows in kept[1:4] for row in rows]
        assert {type(token) for tokens, *_ in answers for token in tokens} == {int}
        assert {finish for _, finish, *_ in answers} <= {"end", "stop", "length"}
    assert computed(words(task, model, data, out, *judge)) == whole[stop:]
    told = re.findall(r"resumes after (\d+) finished batches", capsys.readouterr().err)
    assert told == [str(stop)]
    assert contents(out) == contents(tmp_path / "whole")
    assert not (out / "partial.jsonl").exists()


def test_batches_of_other_options_are_not_taken(model, data, tmp_path):
    computed(words("unqover", model, data, tmp_path / "out"), 2)
    other = [words("unqover", model, data, tmp_path / run, "--style", "helm")
             for run in ("out", "whole")]  # fmt: skip
    assert computed(other[0]) == computed(other[1])
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


# The journal itself


@pytest.mark.parametrize(("old", "new"), [("[", "{broken"), ("0.333", "0.334")])
def test_an_edited_line_and_those_after_it_are_computed_again(old, new, tmp_path, capsys):
    path = tmp_path / "partial.jsonl"
    journal = Journal(path, "k")
    for number in range(3):
        journal.put("stage", number, number / 3)
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[2]
    path.write_text("".join([*lines[:2], lines[2].replace(old, new), *lines[3:]]))
    again = Journal(path, "k")
    assert (again.count, again.get("stage", 0)) == (1, 0.0)
    assert "line 3 is not as it was written" in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe\x00")
    assert Journal(path, "k").count == 0
