"""CONTRIBUTING.md names only files that there are, or that its walk-throughs make."""

import re

MADE = {  # by the walk-throughs, on the reader's branch
    "src/evenprune/pruning/methods/random.py",
}
ROOMS = r"(?:src|tests|config|docs|workflow)/[\w./-]+\.(?:py|yaml|md|smk)"


def test_files_that_are_named_exist(repo):
    named = set(re.findall(ROOMS, (repo / "CONTRIBUTING.md").read_text()))
    assert len(named) >= 12
    assert sorted(name for name in named - MADE if not (repo / name).is_file()) == []
    # What a walk-through makes is an example, not yet there.
    assert sorted(name for name in MADE if (repo / name).exists()) == []
    assert named >= MADE


def test_a_walk_through_has_as_many_steps_as_files(repo):
    text = (repo / "CONTRIBUTING.md").read_text()
    sections = re.findall(r"## Add an? (\w+) \((\d) files?\)\n(.*?)(?=\n## |\Z)", text, re.S)
    assert {name: int(count) for name, count, _ in sections} == {
        "model": 1, "method": 3, "option": 1, "regime": 2, "benchmark": 3, "table": 1,
    }  # fmt: skip
    for name, count, body in sections:
        assert len(re.findall(r"^\d\. ", body, re.M)) == int(count), name
