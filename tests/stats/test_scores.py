"""What the bootstrap draws of recorded items."""

import numpy as np
from reporting_run import write_jsonl

from evenprune.stats import bootstrap
from evenprune.stats.scores import read_scores, units


def test_few_items_a_subject_do_not_make_the_interval_collapse(tmp_path):
    """57 items of as many subjects: none of them varies within its subject."""
    rows = [
        {"item_id": str(k), "category": f"subject {k}", "correct": k % 3 == 0} for k in range(57)
    ]
    write_jsonl(tmp_path / "items.jsonl", rows)
    scores = read_scores(tmp_path / "items.jsonl", "mmlu", "acc")
    found = bootstrap.interval(bootstrap.means(scores.values, *scores.units, resamples=1000))
    error = scores.values.std() / np.sqrt(57)
    assert 3 * error < found.high - found.low < 5 * error


def test_subjects_with_enough_items_are_strata_and_clusters_come_first():
    rows = [{"category": f"s{k % 4}"} for k in range(40)]
    assert units("mmlu", rows) == (None, tuple(row["category"] for row in rows))
    assert units("mmlu", rows[:-1]) == units("hellaswag", rows) == (None, None)
    clustered = [{**row, "cluster": k} for k, row in enumerate(rows)]
    assert units("unqover", clustered) == (tuple(map(str, range(40))), None)
    assert units("unqover", [*clustered, {"category": "s0"}]) == (None, None)
