"""Texts of one's own for calibration: one a row, in the form that `prune --texts` reads."""

from dataclasses import dataclass
from pathlib import Path

from ..calibration import read_texts
from .rows import collect, table_files


@dataclass(frozen=True)
class OwnText:
    """One text."""

    id: str
    text: str


def read_own_texts(folder: Path | str) -> list[OwnText]:
    """Read the texts of a file, or of all JSON-lines and CSV files of a folder, ids unique over
    all."""
    paths = table_files(folder)
    texts = [OwnText(**row) for path in paths for row in read_texts(path)]
    return collect(texts, paths[0] if len(paths) == 1 else Path(folder))
