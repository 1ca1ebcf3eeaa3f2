"""Progress in a log: lines, at most one every few seconds."""

import itertools

import pytest

from evenprune.io import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by four seconds whenever it is asked."""
    ticks = itertools.count(0, 4)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(ticks)))


def test_a_log_has_lines_with_the_time_left(clock, capsys):
    assert list(progress.track("abcd", 4, "items")) == list("abcd")
    assert capsys.readouterr().err == ("items 2/4  8 s  eta 8 s\nitems 4/4  16 s  eta 0 s\n")
