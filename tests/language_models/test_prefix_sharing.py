import pytest
import torch
from evaluation_fixtures import tiny_lm

from evenprune.language_models.prefix_sharing import choose_stems, last_states


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_states_on_stems_equal_states_of_whole_rows(batch_size):
    lm = tiny_lm()
    generator = torch.Generator().manual_seed(0)
    heads = torch.randint(2, 60, (3, 12), generator=generator).tolist()
    rows = []
    for k in range(20):
        tail = torch.randint(2, 60, (2 + k % 5,), generator=generator).tolist()
        rows.append([*heads[k % 3][k % 3 :], *tail] if k % 4 else tail)
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


def test_rows_longer_than_a_window_are_computed_whole():
    lm = tiny_lm()
    rows = [[*range(2, 22), k] for k in range(2, 6)]
    counts = [len(batch) for batch, _ in last_states(lm, rows, [1] * 4, 2)]
    assert counts == [4]  # four tails in one row
    lm.model.config.sliding_window = 20
    assert [len(batch) for batch, _ in last_states(lm, rows, [1] * 4, 2)] == [2, 2]


def sentences_in_groups():
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(2, 60, (9, 9), generator=generator).tolist()
    groups = [[[1, *drawn[k][:n], *drawn[k + 3][: n + 1]] for n in (0, 3, 5, 5)] for k in range(6)]
    # A beginning of another one, and no word that they have in common.
    return [*groups, [drawn[0], drawn[0][:4], drawn[1]], [drawn[2][:2]]]


def test_losses_of_trees_equal_those_of_whole_rows():
    lm, groups = tiny_lm(), sentences_in_groups()
    assert lm.shares_prefixes
    found = lm.group_losses(groups)
    for rows, several in zip(groups, found, strict=True):
        for row, losses in zip(rows, several, strict=True):
            assert losses == pytest.approx(lm.row_losses([row])[0], abs=1e-4)
    lm.model.config.sliding_window = 3  # stands in the place of a tree's mask
    whole = iter(lm.row_losses([row for rows in groups for row in rows]))
    assert lm.group_losses(groups) == [[next(whole) for _ in rows] for rows in groups]


@pytest.mark.parametrize(("noisy", "shares"), [(range(16, 20), True), (range(100), False)])
def test_roundoff_at_some_words_does_not_end_sharing_and_at_all_it_does(noisy, shares, capsys):
    lm = tiny_lm()

    def disturb(_module, args, output):
        if torch.isin(args[0], torch.tensor([*noisy])).any():
            output.last_hidden_state += torch.randn_like(output.last_hidden_state)

    lm.model.base_model.register_forward_hook(disturb)
    assert lm.shares_prefixes is shares
    assert ("cannot share" in capsys.readouterr().err) is not shares
