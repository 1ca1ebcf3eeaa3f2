"""Pairs of one's own: a stereotype and its opposite a row, in the form that `prune --pairs` reads.

The two texts of a pair may be two sentences, or one open question followed by the one and by the
other answer: what they begin with alike counts for neither.
"""

from dataclasses import dataclass
from pathlib import Path

from ..calibration import read_pairs
from .rows import collect, table_files


@dataclass(frozen=True)
class OwnPair:
    """One pair; ``stereotype`` is the text that a prejudiced model finds likelier."""

    id: str
    category: str
    stereotype: str
    anti_stereotype: str


def read_question_pairs(folder: Path | str) -> list[OwnPair]:
    """Read the pairs of a file, or of all JSON-lines and CSV files of a folder, ids unique over
    all."""
    paths = table_files(folder)
    pairs = [OwnPair(**row) for path in paths for row in read_pairs(path)]
    return collect(pairs, paths[0] if len(paths) == 1 else Path(folder))
