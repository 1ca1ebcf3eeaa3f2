"""Progress: a bar on a terminal, lines in a log."""

import io
import itertools

import pytest

from evenprune.io import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by four seconds whenever it is asked."""
    ticks = itertools.count(0, 4)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(ticks)))


def test_a_log_has_lines_with_the_time_left(clock, monkeypatch, capsys):
    assert list(progress.track("abcd", 4, "items")) == list("abcd")
    assert capsys.readouterr().err == ("items 2/4  8 s  eta 8 s\nitems 4/4  16 s  eta 0 s\n")


def test_a_terminal_has_a_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", screen)
    bar = progress.Progress(3, "layers")
    for _ in range(3):
        bar.update(note="mlp")
    text = screen.getvalue()
    assert "layers: 100%" in text
    assert "3/3" in text
    assert "mlp" in text
    assert text.endswith("\n")
