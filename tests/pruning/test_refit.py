"""Refitting on a fixed mask, against naive float64 forms."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pruning_models import prune_command, random_pairs, save_model, write_rows

from evenprune.cli import main
from evenprune.config.facts import REGIMES
from evenprune.methods import find
from evenprune.methods.hessian import Gram
from evenprune.methods.masks import group_mask
from evenprune.methods.metric import InputMetric
from evenprune.methods.options import PRUNING_METHODS, Options
from evenprune.methods.refit import refit, row_losses

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


# --- as an option of every method ------------------------------------------------------------


def prune(method, weight, h, regime, **options):
    given = Options(method, regime.slug, **options)
    assert find(method).summed(given) is Gram
    return find(method).prune([weight], h, regime, given, ["layer"])[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)
@pytest.mark.parametrize("method", PRUNING_METHODS)
def test_every_method_is_improved_and_keeps_its_pattern(method, regime, dtype):
    _, goal, h, _ = problem(5, rows=8, width=32, dtype=torch.float32)
    h[3], h[:, 3] = 0.0, 0.0  # a dead column
    weight = goal.to(dtype)
    plain, _ = prune(method, weight, h, regime, refit_steps=1)
    pruned, report = prune(method, weight, h, regime, refit_steps=15)
    assert pruned.dtype == dtype
    zero = pruned == 0
    assert not (zero & pruned.signbit()).any()
    assert torch.equal(zero, plain == 0)
    assert report.loss_after < report.loss_before


def test_the_losses_are_of_what_is_stored():
    """In bfloat16: of the rounded weights, and no row is worse than before."""
    _, goal, h, _ = problem(6, rows=8, width=32, dtype=torch.float32)
    weight = goal.bfloat16()
    (plain, _), (pruned, report) = (
        find("sparsegpt").prune(
            [weight], h, REGIMES["2of4"], Options("sparsegpt", "2of4", refit_steps=steps), ["layer"]
        )[0]
        for steps in (0, 20)
    )
    damped = InputMetric(h, 0.01, "layer").damped()
    before, after = (row_losses(one.float(), weight.float(), damped) for one in (plain, pruned))
    assert (after <= before).all()
    assert report.loss_before == pytest.approx(float(before.sum()), rel=1e-5)
    assert report.loss_after == pytest.approx(float(after.sum()), rel=1e-5)


def test_a_refitted_run_is_recorded_and_checked(tmp_path):
    """Of magnitude, which then needs calibration text."""
    base = save_model(tmp_path / "base", "llama2", num_hidden_layers=1)
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(12))
    argv = prune_command(base, tmp_path / "out", method="magnitude", refit_steps=10)
    assert main(argv) == 2  # no text
    assert main([*argv, "--pairs", str(pairs)]) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "layers.csv").open()))
    assert len(rows) == 7
    for row in rows:
        assert float(row["loss_after"]) < float(row["loss_before"])
    check = ["check", "--model", str(tmp_path / "out"), "--base", str(base)]
    assert main([*check, "--out", str(tmp_path / "check.json")]) == 0
