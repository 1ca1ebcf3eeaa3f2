"""Progress with an estimate of the time left, for a terminal or a log file."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
INTERVAL = 5.0  # seconds


def format_seconds(seconds: float) -> str:
    """Return a short duration such as ``8 s``, ``3 min`` or ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Progress:
    """Count finished units: a bar with the time left on a terminal, else lines for a log.

    In a log a line comes at most every ``INTERVAL`` seconds, none where all is done before;
    ``announced`` says at once how many units there are.
    """

    def __init__(self, total: int, label: str, announced: bool = False) -> None:
        self.total, self.label = total, label
        self.done, self.printed = 0, False
        self.start = self.last = time.monotonic()
        self.bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            # Others' bars may be switched off by TQDM_DISABLE, which is read at the import.
            self.bar = tqdm(total=total, desc=label, dynamic_ncols=True, disable=False)
        elif announced:
            print(f"{label}: {total:,} to do", file=sys.stderr, flush=True)

    def update(self, count: int = 1, note: str = "") -> None:
        """Add ``count`` finished units; show them if the interval has passed."""
        self.done += count
        if self.bar is not None:
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(count)
            if self.done >= self.total:
                self.bar.close()
            return
        now, finished = time.monotonic(), self.done >= self.total
        # What is finished before its first line was due stays silent.
        if not self.printed if finished else now - self.last < INTERVAL:
            return
        self.last, self.printed = now, True
        elapsed = format_seconds(now - self.start)
        rest = max(self.total - self.done, 0) / max(self.done, 1)
        left = format_seconds((now - self.start) * rest)
        line = f"{self.label} {self.done}/{self.total}  {elapsed}  eta {left}  {note}"
        print(line.rstrip(), file=sys.stderr, flush=True)


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield ``items`` and report progress after each."""
    progress = Progress(total, label)
    for item in items:
        yield item
        progress.update()
