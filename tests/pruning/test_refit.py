"""Refitting on a fixed mask and exchanges, against naive float64 forms."""

import csv
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pruning_models import random_pairs, save_model, write_rows

from evenprune.cli import main
from evenprune.pruning.hessian import Differences, Gram
from evenprune.pruning.masks import REGIMES, group_mask
from evenprune.pruning.methods import find
from evenprune.pruning.options import PRUNING_METHODS, Options
from evenprune.pruning.refit import refit, row_losses, swap

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31)


def problem(seed, rows=5, width=16, dtype=torch.float64):
    """V on a 2:4 mask, W*, H' with correlated inputs of unequal size, and what is kept."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(width, 3 * width, generator=generator, dtype=torch.float64)
    x = torch.randn(width, width, generator=generator, dtype=torch.float64) @ x
    x *= torch.logspace(-1, 1, width, dtype=torch.float64).unsqueeze(1)
    h = x @ x.T
    h += 0.01 * h.diagonal().mean() * torch.eye(width, dtype=torch.float64)
    goal = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    kept = ~group_mask(goal.abs(), REGIMES["2of4"])
    weight = torch.where(kept, goal, 0.0)
    return [part.to(dtype) for part in (weight, goal, h)] + [kept]


def losses(weight, goal, h):
    return np.array([float(e @ h @ e) for e in (weight - goal).double()])


def least_squares(goal, h, kept):
    """The best V on the mask, row by row: ``V_K = W*_K + W*_P H_PK H_KK⁻¹``."""
    best = torch.zeros_like(goal)
    for row, mask in enumerate(kept):
        k, p = mask.nonzero().flatten(), (~mask).nonzero().flatten()
        right = h[k][:, k] @ goal[row, k] + h[k][:, p] @ goal[row, p]
        best[row, k] = torch.linalg.solve(h[k][:, k], right)
    return best


@quick
@given(seeds)
def test_refit_reaches_the_least_squares_solution_on_the_mask(seed):
    weight, goal, h, kept = problem(seed)
    best = least_squares(goal, h, kept)
    found = refit(weight, goal, h, kept, 60)
    assert (found[~kept] == 0).all()
    np.testing.assert_allclose(losses(found, goal, h), losses(best, goal, h), rtol=1e-6)
    torch.testing.assert_close(found, best, rtol=1e-3, atol=1e-4)


@quick
@given(seeds, st.integers(1, 20))
def test_no_step_raises_the_loss(seed, steps):
    weight, goal, h, kept = problem(seed)
    one, two = (losses(refit(weight, goal, h, kept, n), goal, h) for n in (steps - 1, steps))
    assert (two <= one * (1 + 1e-9)).all()


@quick
@given(seeds)
def test_float32_agrees_with_float64(seed):
    weight, goal, h, kept = problem(seed)
    exact = losses(refit(weight, goal, h, kept, 10), goal, h)
    single = refit(weight.float(), goal.float(), h.float(), kept, 10)
    np.testing.assert_allclose(losses(single.double(), goal, h), exact, rtol=2e-2)


def test_a_row_that_is_done_or_empty_stays_as_it_is():
    weight, goal, h, kept = problem(1)
    best = refit(weight, goal, h, kept, 100)
    best[0], kept[0] = 0.0, False
    goal[1], best[1] = torch.where(kept[1], goal[1], 0.0), torch.where(kept[1], goal[1], 0.0)
    again = refit(best, goal, h, kept, 10)
    assert torch.isfinite(again).all()
    assert torch.equal(again[0], best[0])
    assert torch.equal(again[1], best[1])
    torch.testing.assert_close(again, best, atol=1e-6, rtol=1e-6)


# --- exchanges -------------------------------------------------------------------------------


def brute_force(row, goal, h, kept, group):
    """The best loss of any one exchange within a group, or of none: all tried, none derived."""

    def loss(v):
        return float((v - goal) @ h @ (v - goal))

    best = (loss(row), None, row)
    for q, p in itertools.product(group, group):
        if not kept[q] or kept[p]:
            continue
        for_p = row.clone()
        for_p[q] = 0.0
        # The best value of p alone, by three points of the parabola.
        a, b, c = (loss(for_p.index_fill(0, torch.tensor([p]), t)) for t in (-1.0, 0.0, 1.0))
        for_p[p] = (a - c) / (2 * (a - 2 * b + c))
        if loss(for_p) < best[0]:
            best = (loss(for_p), (q, p), for_p)
    return best


@quick
@given(seeds)
def test_exchanges_are_those_of_brute_force(seed):
    """d = 8: two groups of four, the second as the first has left the row."""
    weight, goal, h, kept = problem(seed, rows=6, width=8)
    found, mask = swap(weight, goal, h, kept, 4, torch.zeros(len(h), dtype=torch.bool))
    for row in range(6):
        now, open_ = weight[row], kept[row].clone()
        for group in (range(4), range(4, 8)):
            _, exchange, now = brute_force(now, goal[row], h, open_, group)
            if exchange:
                open_[exchange[0]], open_[exchange[1]] = False, True
        torch.testing.assert_close(found[row], now, rtol=1e-6, atol=1e-8)
        assert torch.equal(mask[row], open_)
    assert (losses(found, goal, h) <= losses(weight, goal, h) * (1 + 1e-12)).all()


@quick
@given(seeds, st.sampled_from([8, 132, 300]))
def test_exchanges_over_several_blocks_keep_the_pattern(seed, width):
    weight, goal, h, kept = problem(seed, rows=3, width=width)
    found, mask = swap(weight, goal, h, kept, 4, torch.zeros(len(h), dtype=torch.bool))
    assert ((found != 0) == mask).all()
    assert (mask.reshape(3, -1, 4).sum(dim=2) == 2).all()
    one, two = losses(found, goal, h), losses(weight, goal, h)
    assert (one <= two * (1 + 1e-9)).all()


def test_exchanges_are_made_over_several_blocks():
    for seed in range(5):  # of a narrow layer none may help
        weight, goal, h, kept = problem(seed, rows=3, width=32)
        _, mask = swap(weight, goal, h, kept, 4, torch.zeros(len(h), dtype=torch.bool))
        assert (mask != kept).any()


def test_columns_behind_the_last_group_and_full_groups_stay():
    weight, goal, h, kept = problem(3, width=16)
    kept[:, :4], kept[:, 4:8] = True, False
    weight = torch.where(kept, goal, 0.0)
    found, mask = swap(
        weight[:, :15], goal[:, :15], h[:15, :15], kept[:, :15], 4, torch.zeros(15).bool()
    )
    assert torch.equal(mask[:, :8], kept[:, :8])
    assert torch.equal(found[:, 12:], weight[:, 12:15])


# --- as an option of every method ------------------------------------------------------------


def prune(method, weight, h, regime, **options):
    given = Options(method, regime.slug, erase_modules=("layer",), **options)
    made = {Gram: h.clone(), Differences: 0.1 * h}
    statistics = [made[kind] for kind in find(method).statistics(given, ["layer"])]
    return find(method).prune([weight], statistics, regime, given, ["layer"])[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)
@pytest.mark.parametrize("method", PRUNING_METHODS)
def test_every_method_is_improved_and_keeps_its_pattern(method, regime, dtype):
    _, goal, h, _ = problem(5, rows=8, width=32, dtype=torch.float32)
    h[3], h[:, 3] = 0.0, 0.0  # a dead column
    weight = goal.to(dtype)
    plain, _ = prune(method, weight, h, regime, refit_steps=1)
    for options in ({"refit_steps": 15}, {"swaps": 2}, {"refit_steps": 15, "swaps": 2}):
        pruned, report = prune(method, weight, h, regime, **options)
        assert pruned.dtype == dtype
        zero = pruned == 0
        assert not (zero & pruned.signbit()).any()
        assert zero.sum() == (plain == 0).sum()
        if regime.structured:
            assert (zero.reshape(8, -1, regime.of).sum(dim=2) >= regime.zeros).all()
        assert report.loss_after <= report.loss_before
        if "refit_steps" in options or report.swapped:
            assert report.loss_after < report.loss_before
        if "swaps" not in options:
            assert report.swapped == 0
            assert torch.equal(zero, plain == 0)
        elif regime.structured:
            assert report.swapped > 0


def test_the_losses_are_of_what_is_stored():
    """In bfloat16: of the rounded weights, and no row is worse than before."""
    _, goal, h, _ = problem(6, rows=8, width=32, dtype=torch.float32)
    weight = goal.bfloat16()
    options = Options("sparsegpt", "2of4", refit_steps=20)
    method = find("sparsegpt")
    ((plain, _),) = method.prune(
        [weight], [h.clone()], REGIMES["2of4"], Options("sparsegpt", "2of4"), ["layer"]
    )
    ((pruned, report),) = method.prune([weight], [h.clone()], REGIMES["2of4"], options, ["layer"])
    target = method.target([weight], [h.clone()], options, ["layer"])
    damped = target.metric.damped()
    before, after = (row_losses(one.float(), weight.float(), damped) for one in (plain, pruned))
    assert (after <= before).all()
    assert report.loss_before == pytest.approx(float(before.sum()), rel=1e-5)
    assert report.loss_after == pytest.approx(float(after.sum()), rel=1e-5)


@pytest.mark.parametrize("method", ["magnitude", "debias-erase"])
def test_a_run_with_refit_and_swaps_is_recorded_and_checked(method, tmp_path):
    """Magnitude too, which then needs calibration text."""
    base = save_model(tmp_path / "base", "llama2", num_hidden_layers=1)
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(12))
    argv = ["prune", "--model", str(base), "--out", str(tmp_path / "out"), "--regime", "2of4"]
    argv += ["--method", method, "--refit-steps", "10", "--swaps", "1", "--device", "cpu"]
    assert main(argv) == 2  # no text
    assert main([*argv, "--pairs", str(pairs)]) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "layers.csv").open()))
    assert len(rows) == 7
    for row in rows:
        assert float(row["loss_after"]) < float(row["loss_before"])
        assert int(row["swapped"]) > 0
    check = ["check", "--model", str(tmp_path / "out"), "--base", str(base)]
    assert main([*check, "--out", str(tmp_path / "check.json")]) == 0
