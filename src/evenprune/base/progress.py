"""Progress with an estimate of the time left, for a terminal or a log file."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def format_seconds(seconds: float) -> str:
    """Return a short duration such as ``8 s``, ``3 min`` or ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Progress:
    """Count finished units; print a line with the ETA at most every ``interval`` seconds.

    On a terminal the line is rewritten in place, in a log each one is a line of its own.
    """

    def __init__(self, total: int, label: str, interval: float = 5.0) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self.start = time.monotonic()
        self.last = self.start
        self.live = sys.stderr.isatty()
        self.interval = 0.2 if self.live else interval
        self.printed = False

    def update(self, count: int = 1, note: str = "") -> None:
        """Add ``count`` finished units and print if the interval has passed."""
        self.done += count
        now = time.monotonic()
        if now - self.last < self.interval and self.done < self.total:
            return
        if self.done >= self.total and not self.printed and not self.live:
            return  # finished before the first line was due: stay silent
        self.last = now
        elapsed = now - self.start
        left = elapsed / self.done * max(self.total - self.done, 0) if self.done else 0.0
        line = (
            f"{self.label} {self.done}/{self.total}  {format_seconds(elapsed)}"
            f"  eta {format_seconds(left)}{'  ' + note if note else ''}"
        )
        end = "\n" if not self.live or self.done >= self.total else ""
        print(f"\r{line}" if self.live else line, end=end, file=sys.stderr, flush=True)
        self.printed = True


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield ``items`` and report progress after each."""
    progress = Progress(total, label)
    for item in items:
        yield item
        progress.update()
