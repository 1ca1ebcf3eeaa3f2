"""Columns of text on a terminal."""

import shutil
import sys
from collections.abc import Sequence

NONE = "–"
GOOD = {"up": "high", "down": "low", "half": "0.5", "zero": "0", "": NONE}


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Return rows of text as columns of a terminal; ``left``: columns that are not of numbers."""
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    lines = []
    for row in (heads, ["-" * width for width in widths], *rows):
        padded = (
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths))
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def terminal_width() -> int | None:
    """Return the columns of the terminal that is printed to, None where it is a file or pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
