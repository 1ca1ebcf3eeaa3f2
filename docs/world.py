"""docs/world.csv: slope and correlation of each model in a report on the invented world.

python -m evenprune_world report-world --world results/world/world --model NAME EVALUATION --out OUT
python docs/world.py OUT/world.csv
"""

import sys
from pathlib import Path

import pandas as pd

from evenprune_world.report_world import fitted

ROWS = Path(__file__).with_suffix(".csv")


def main() -> None:
    """Read the items of a report and write a row for each model and benchmark."""
    every = pd.read_csv(sys.argv[1]).groupby(["model", "items"], sort=False)
    rows = [(*names, len(one), *fitted(one)) for names, one in every]
    pd.DataFrame(rows, columns=["model", "items", "n", "slope", "r"]).to_csv(ROWS, index=False)


if __name__ == "__main__":
    main()
