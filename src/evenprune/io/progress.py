"""Progress with an estimate of the time left, for a terminal or a log file."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")


def format_seconds(seconds: float) -> str:
    """Return a short duration such as ``8 s``, ``3 min`` or ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _bar(total: int, label: str) -> "tqdm":
    from tqdm import tqdm

    # Other libraries' bars may be switched off by TQDM_DISABLE, which is read at the import.
    return tqdm(total=total, desc=label, dynamic_ncols=True, mininterval=0.2, disable=False)


class Progress:
    """Count finished units: a bar with the time left on a terminal, else lines for a log.

    In a log a line comes at most every ``interval`` seconds, none where all is done before;
    ``announced`` says at once how many units there are.
    """

    def __init__(
        self, total: int, label: str, interval: float = 5.0, announced: bool = False
    ) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self.start = time.monotonic()
        self.last = self.start
        self.interval = interval
        self.printed = False
        self.bar: tqdm | None = None
        if sys.stderr.isatty():
            self.bar = _bar(total, label)
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
        now = time.monotonic()
        if now - self.last < self.interval and self.done < self.total:
            return
        if self.done >= self.total and not self.printed:
            return  # finished before the first line was due: stay silent
        self.last = now
        elapsed = now - self.start
        left = elapsed / self.done * max(self.total - self.done, 0) if self.done else 0.0
        print(
            f"{self.label} {self.done}/{self.total}  {format_seconds(elapsed)}"
            f"  eta {format_seconds(left)}{'  ' + note if note else ''}",
            file=sys.stderr,
            flush=True,
        )
        self.printed = True


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield ``items`` and report progress after each."""
    progress = Progress(total, label)
    for item in items:
        yield item
        progress.update()
