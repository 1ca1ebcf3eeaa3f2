"""Signs of tables on a terminal, and how wide it is."""

import shutil
import sys

NONE = "–"
GOOD = {"up": "high", "down": "low", "half": "0.5", "zero": "0", "": NONE}


def terminal_width() -> int | None:
    """Return the columns of the terminal that is printed to, None where it is a file or pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
