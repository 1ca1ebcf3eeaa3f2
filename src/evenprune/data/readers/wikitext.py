"""WikiText-2: the raw test set as lines."""

from pathlib import Path

from ...io.errors import UserError
from ...io.reading import read_text
from .rows import find_file


def read_wikitext(folder: Path | str) -> list[str]:
    """Read the raw WikiText-2 test set as the hub serves it: 4,358 rows.

    A non-blank line keeps its line break, a blank one becomes "".
    """
    path = find_file(folder, "wiki.test.raw")
    lines = read_text(path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not any(line.strip() for line in lines):
        raise UserError(f"expected text in {path}, but it is blank; fetch or make it again")
    return [f"{line}\n" if line.strip() else "" for line in lines]
