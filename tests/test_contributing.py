"""CONTRIBUTING.md names only files that there are, or that its walk-throughs make."""

import re

MADE = {  # by the walk-throughs, on the reader's branch
    "src/evenprune/methods/random.py",
}
ROOMS = r"(?:src|tests|config|docs|workflow)/[\w./-]+\.(?:py|yaml|md|smk)"


def test_files_that_are_named_exist(repo):
    named = set(re.findall(ROOMS, (repo / "CONTRIBUTING.md").read_text()))
    assert len(named) >= 12
    assert sorted(name for name in named - MADE if not (repo / name).is_file()) == []
    # What a walk-through makes is an example, not yet there.
    assert sorted(name for name in MADE if (repo / name).exists()) == []
    assert named >= MADE
