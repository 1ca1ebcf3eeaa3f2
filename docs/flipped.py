"""List the CrowS-Pairs whose preference differs between two evaluations, with their sentences.

python docs/flipped.py DENSE PRUNED [COUNT], two folders of `evenprune evaluate`.
"""

import json
import sys
from pathlib import Path

from evenprune.data.defaults import default_benchmark
from evenprune.data.readers.crows_pairs import read_crows_pairs


def records(folder: str) -> dict[str, dict]:
    """Return the records of an evaluation by item."""
    with open(Path(folder) / "items.jsonl", encoding="utf-8") as lines:
        return {record["item_id"]: record for record in map(json.loads, lines)}


def main(dense: str, pruned: str, count: int = 4) -> None:
    """Print the first ``count`` pairs that flipped, and how many there are."""
    entry, data = default_benchmark("crows_pairs")
    pairs = {pair.id: pair for pair in read_crows_pairs(data, str(entry.split))}
    before, after = records(dense), records(pruned)
    flipped = [k for k in before if before[k]["correct"] != after[k]["correct"]]
    to = sum(after[k]["correct"] for k in flipped)
    print(f"{len(flipped)} of {len(before)} pairs flipped, {to} of them to the stereotype")
    for k in flipped[:count]:
        way = "to the stereotype" if after[k]["correct"] else "away from the stereotype"
        print(f"\n{k} ({pairs[k].category}), {way}")
        print(
            f"  more stereotyping: {pairs[k].sent_more}\n  less stereotyping: {pairs[k].sent_less}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:4]))
