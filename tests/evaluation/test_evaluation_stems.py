import pytest
import torch
from evaluation_fixtures import tiny_lm
from hypothesis import given, settings
from hypothesis import strategies as st

from evenprune.evaluation import stems
from evenprune.evaluation.stems import choose_stems, common_prefix, last_states

ROWS = st.lists(st.lists(st.integers(1, 2), min_size=2, max_size=6), min_size=1, max_size=7)


def computed(rows, lengths):
    """Tokens that go through the model: each different stem once, and what is left of each row."""
    heads = {tuple(row[:length]) for row, length in zip(rows, lengths) if length}
    return sum(map(len, heads)) + sum(len(row) - n for row, n in zip(rows, lengths))


@settings(max_examples=400, deadline=None)
@given(ROWS)
def test_stems_save_at_least_what_simple_groupings_save(rows):
    shortest, stems.MIN_STEM = stems.MIN_STEM, 1
    try:
        lengths = choose_stems(rows, [1] * len(rows))
    finally:
        stems.MIN_STEM = shortest
    assert all(0 <= n < len(row) for n, row in zip(lengths, rows))
    limit = min(map(len, rows)) - 1
    common = min([limit, *(common_prefix(rows[0], row) for row in rows)])
    one_stem = sum(map(len, rows)) - common * (len(rows) - 1)
    distinct = set(map(tuple, rows))
    equal_rows = sum(map(len, rows)) - sum(
        (len(row) - 1) * (rows.count(list(row)) - 1) for row in distinct
    )
    assert computed(rows, lengths) <= min(sum(map(len, rows)), one_stem, equal_rows)


def test_short_beginnings_are_not_shared():
    rows = [[1, 2, 3, k] for k in range(5)]
    assert choose_stems(rows, [1] * 5) == [0] * 5
    long = [[*range(20), k] for k in range(5)]
    assert choose_stems(long, [1] * 5) == [20] * 5
    assert choose_stems(long, [3] * 5) == [18] * 5
    assert choose_stems([[1] * 30], [1]) == [0]


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_states_on_stems_equal_states_of_whole_rows(batch_size):
    lm = tiny_lm()
    generator = torch.Generator().manual_seed(0)
    heads = torch.randint(2, 60, (3, 12), generator=generator).tolist()
    rows = []
    for k in range(20):
        tail = torch.randint(2, 60, (2 + k % 5,), generator=generator).tolist()
        rows.append([*heads[k % 3], *tail] if k % 4 else tail)
    counts = [1 + k % 2 for k in range(20)]
    assert lm.shares_prefixes
    assert sum(n > 0 for n in choose_stems(rows, counts)) == 15
    seen = []
    for batch, states in last_states(lm, rows, counts, batch_size):
        parts = states().split([counts[k] for k in batch])
        for k, part in zip(batch, parts):
            with torch.inference_mode():
                whole = lm.hidden(torch.tensor([rows[k]]))[0, -counts[k] :]
            torch.testing.assert_close(part, whole, rtol=1e-4, atol=1e-4)
            seen.append(k)
    assert sorted(seen) == list(range(20))


def test_a_model_without_plain_caches_is_computed_without_sharing():
    lm = tiny_lm()
    rows = [[*range(2, 22), k] for k in range(2, 6)]
    expected = [s() for _, s in last_states(lm, rows, [1] * 4, 8)]

    class NoCache:
        layers = ()

    real = lm.model.base_model.forward

    def forward(*args, **options):
        found = real(*args, **options)
        if options.get("use_cache"):
            found.past_key_values = NoCache()
        return found

    other = tiny_lm()
    other.model.base_model.forward = forward
    assert not other.shares_prefixes
    for (_, states), known in zip(last_states(other, rows, [1] * 4, 8), expected):
        torch.testing.assert_close(states(), known, rtol=1e-4, atol=1e-4)
