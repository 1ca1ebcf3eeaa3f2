"""single.csv: differences between two evaluated models each.

python docs/single.py NAME FIRST SECOND [NAME FIRST SECOND ...]   # folders evals/…/s0 of runs
"""

import sys
from pathlib import Path

import controls
import pandas as pd

import evenprune

ROWS = controls.FOLDER / "single.csv"
NAMES = {"dense": "first", "pruned": "second"}


def read_pair(name: str, first: str, second: str) -> pd.DataFrame:
    """Return a row a measure: the second's values less the first's."""
    (block,) = evenprune.compare(Path(first), Path(second)).blocks
    rows = pd.DataFrame(map(vars, block.rows))
    rows = rows[rows.metric.isin(controls.MEASURES)][controls.KEPT].drop(columns="category")
    return rows.rename(columns=NAMES).assign(comparison=name).set_index("comparison")


if __name__ == "__main__":
    words = iter(sys.argv[1:])
    rows = pd.concat([read_pair(*three) for three in zip(words, words, words, strict=True)])
    rows.to_csv(ROWS, lineterminator="\n")
