"""Properties of the pure parts: masks, factor, column loop, Hessian sums, refitting."""

from collections import Counter

import numpy as np
import pytest
import reference
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenprune.blocks.packing import Plan, pack_pairs
from evenprune.config.facts import REGIMES
from evenprune.data.calibration import TokenPair
from evenprune.io.errors import UserError
from evenprune.methods import find
from evenprune.methods.factor import NotPositiveDefinite, inverse_factor
from evenprune.methods.hessian import Gram, SquareNorms
from evenprune.methods.masks import group_mask, smallest, smallest_per_row, zeros_of
from evenprune.methods.metric import Group
from evenprune.methods.options import PRUNING_METHODS, Options
from evenprune.methods.refit import refit, row_losses

regimes = st.sampled_from(list(REGIMES.values()))
seeds = st.integers(0, 2**31)
STRUCTURED = [slug for slug, regime in REGIMES.items() if regime.structured]
quick = settings(max_examples=30, deadline=None)


def matrix(seed, rows, columns, levels=None):
    """Random weights; with ``levels`` few distinct values, so that scores tie."""
    generator = torch.Generator().manual_seed(seed)
    if levels:
        return torch.randint(-levels, levels + 1, (rows, columns), generator=generator).float()
    return torch.randn(rows, columns, generator=generator)


def hessian(seed, width, tokens=None):
    x = matrix(seed, width, tokens or 2 * width)
    return x @ x.T


def prune_all(method, weights, h, regime, **options):
    """Return (pruned, report) of matrices with one input, whose H a method may see all of."""
    options = Options(method, regime.slug, **options)
    made = {Gram: h, SquareNorms: h.diagonal(), None: None}
    total = made[find(method).summed(options)]
    return find(method).prune(weights, total, regime, options, ["layer"] * len(weights))


def prune(method, weight, h, regime, **options):
    return prune_all(method, [weight], h, regime, **options)[0][0]


# --- masks ---------------------------------------------------------------------------------


@quick
@given(seeds, st.integers(1, 9), st.integers(1, 9), st.data())
def test_selection_equals_a_stable_sort(seed, rows, columns, data):
    scores = matrix(seed, rows, columns, levels=2).abs()
    count = data.draw(st.integers(0, rows * columns))
    expected = reference.choose(scores.numpy(), count)
    assert (smallest(scores, count).numpy() == expected).all()
    assert (smallest(scores.T.contiguous().T, count).numpy() == expected).all()
    per_row = data.draw(st.integers(0, columns))
    expected = np.stack([reference.choose(row, per_row) for row in scores.numpy()])
    assert (smallest_per_row(scores, per_row).numpy() == expected).all()
    regime, scores = REGIMES[data.draw(st.sampled_from(STRUCTURED))], scores.repeat(1, 4)
    expected = reference.grouped(scores.numpy(), regime.zeros)
    assert (group_mask(scores, regime).numpy() == expected).all()


# --- whole matrices -------------------------------------------------------------------------


@quick
@given(seeds, st.sampled_from(PRUNING_METHODS), regimes, st.integers(1, 6), st.integers(1, 5))
def test_counts_are_exact_and_zeros_are_positive(seed, method, regime, rows, groups):
    width = 4 * groups
    pruned = prune(
        method, matrix(seed, rows, width), hessian(seed + 1, width), regime, block_size=8
    )
    zero = pruned == 0
    assert not (zero & pruned.signbit()).any()
    options = Options(method, regime.slug, block_size=8)
    assert zero.sum() == find(method).least_zeros((rows, width), regime, options)
    if regime.structured:
        assert (zero.reshape(rows, -1, regime.of).sum(dim=2) == regime.zeros).all()
    elif method == "wanda":
        assert (zero.sum(dim=1) == zeros_of(regime, width)).all()
    elif method != "magnitude":
        for start in range(0, width, 8):
            part = zero[:, start : start + 8]
            assert part.sum() == zeros_of(regime, part.numel())


@quick
@given(seeds, st.sampled_from(["magnitude", "wanda"]), regimes)
def test_kept_weights_are_unchanged_without_an_update(seed, method, regime):
    weight = matrix(seed, 5, 16).to(torch.bfloat16)
    pruned = prune(method, weight, hessian(seed, 16), regime)
    assert pruned.dtype == weight.dtype
    assert torch.equal(pruned[pruned != 0], weight[pruned != 0])


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)
@pytest.mark.parametrize(("width", "block_size"), [(296, 128), (96, 20), (48, 128)])
def test_column_loop_over_several_blocks_equals_the_reference(regime, width, block_size):
    """Rows of two stacked matrices, a last block that is shorter than the others."""
    weight, h = matrix(1, 40, width), hessian(2, width)
    stacked = prune_all("sparsegpt", [weight[:24], weight[24:]], h, regime, block_size=block_size)
    for part, (pruned, report) in zip((weight[:24], weight[24:]), stacked, strict=True):
        expected = reference.prune(
            part.double().numpy(), h.double().numpy(), "sparsegpt", regime.slug, block=block_size
        )
        assert ((pruned.numpy() == 0) == (expected == 0)).mean() >= 0.999
        distance = np.linalg.norm(pruned.numpy() - expected) / np.linalg.norm(expected)
        assert distance < 1e-3
        damped = h.double() + 0.01 * h.diagonal().mean() * torch.eye(width, dtype=torch.float64)
        change = (pruned - part).double()
        loss = float((change @ damped * change).sum())
        assert report.loss == pytest.approx(loss, rel=1e-4)


def test_dead_columns_become_zero_and_are_counted():
    h = hessian(5, 16)
    h[2, :] = h[:, 2] = 0.0
    ((pruned, report),) = prune_all("sparsegpt", [matrix(6, 4, 16)], h, REGIMES["2of4"])
    assert report.dead_columns == 1
    assert (pruned[:, 2] == 0).all()
    assert ((pruned == 0).reshape(4, 4, 4).sum(dim=2) == 2).all()


def test_kept_weights_that_round_to_zero_leave_no_negative_zero():
    weight = matrix(7, 8, 16) * 1e-8
    pruned = prune("sparsegpt", weight.half(), hessian(8, 16), REGIMES["1of4"])
    assert not ((pruned == 0) & pruned.signbit()).any()
    assert ((pruned == 0).reshape(8, 4, 4).sum(dim=2) >= 1).all()


# --- factor ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 7, 128, 129, 300, 515])
@pytest.mark.parametrize("decades", [0, 6])
def test_a_factor_by_halves_is_near_that_of_float64(width, decades):
    x = matrix(width, 2 * width, width) * torch.logspace(0, -decades / 2, width)
    h = x.T @ x
    before = h.clone()
    factor = inverse_factor(h, 0.01)
    assert torch.equal(h, before)
    damped = h.double() + 0.01 * h.double().diagonal().mean() * torch.eye(width)
    lower = torch.linalg.cholesky(damped.flip(0, 1))
    expected = torch.linalg.inv(lower).flip(0, 1)
    assert torch.equal(factor.upper, factor.upper.triu())
    assert float((factor.upper - expected).norm() / expected.norm()) < 1e-4
    assert (factor.damping, factor.precision) == (0.01, "float32")
    assert 1 <= factor.condition <= float(torch.linalg.cond(damped)) * 1.01


@pytest.mark.parametrize("place", [0, 130, 299])
def test_a_matrix_that_is_not_positive_definite_anywhere_gets_more_damping(place):
    h = hessian(3, 300, 900)
    h[place, place] = -float(h.diagonal().mean()) / 2
    factor = inverse_factor(h, 0.01)
    assert (factor.damping, factor.precision) == (pytest.approx(1.0), "float32")
    assert torch.isfinite(factor.upper).all()


def test_then_float64_then_an_error_that_names_the_layer():
    width = 8
    # Definite by 1e-9 of its diagonal: lost to rounding in float32, not in float64.
    vector = torch.ones(width, dtype=torch.float64)
    nearly = torch.outer(vector, vector) + 1e-9 * torch.eye(width, dtype=torch.float64)
    factor = inverse_factor(nearly, 0.0)
    assert factor.precision == "float64"
    assert factor.condition > 1e6

    hopeless = -torch.eye(width)
    with pytest.raises(NotPositiveDefinite):
        inverse_factor(hopeless, 0.01)
    with pytest.raises(UserError, match="the Hessian of layer is not positive definite"):
        prune("sparsegpt", torch.randn(4, width), hopeless, REGIMES["2of4"])


def test_gram_spans_several_panels():
    x = matrix(9, 40, 600).bfloat16()  # which other panels may take
    total = Gram(600, "cpu")
    none = torch.zeros(0, dtype=torch.int64)
    for part in x.split(13):
        total.add(part, Plan(torch.ones(len(part)), none, none, torch.zeros(0)))
    result = total.result()
    torch.testing.assert_close(result, x.T.float() @ x.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(result, result.T)


# --- refitting ------------------------------------------------------------------------------


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)
@pytest.mark.parametrize("method", PRUNING_METHODS)
def test_every_method_is_improved_and_keeps_its_pattern(method, regime, dtype):
    _, goal, h, _ = problem(5, rows=8, width=32, dtype=torch.float32)
    h[3], h[:, 3] = 0.0, 0.0  # a dead column
    weight = goal.to(dtype)
    (plain, _), (pruned, report) = (
        prune_all(method, [weight], h, regime, refit_steps=steps)[0] for steps in (1, 15)
    )
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
        prune_all("sparsegpt", [weight], h, REGIMES["2of4"], refit_steps=steps)[0]
        for steps in (0, 20)
    )
    damped = Group([weight], h, 0.01, "layer").damped()
    before, after = (row_losses(one.float(), weight.float(), damped) for one in (plain, pruned))
    assert (after <= before).all()
    assert report.loss_before == pytest.approx(float(before.sum()), rel=1e-5)
    assert report.loss_after == pytest.approx(float(after.sum()), rel=1e-5)


# --- packing: a tree of the sentences, each token once ---------------------------------------


sentences = st.lists(st.integers(1, 3), min_size=1, max_size=9).map(tuple)
many_pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=30)


def made(sides):
    pairs = []
    for number, (one, two) in enumerate(sides):
        same = [(t, t) for t in range(min(len(one), len(two))) if one[t] == two[t]]
        pairs.append(TokenPair(f"p{number}", "c", one, two, tuple(same)))
    return pairs


def seen(part, row, token):
    """The ids a token of a row attends to, in the order of their positions."""
    if part.visible is None:
        return tuple(part.ids[row, : token + 1].tolist())
    places = part.visible[row, token].nonzero().flatten().tolist()
    places.sort(key=lambda place: int(part.positions[row, place]))
    assert [int(part.positions[row, place]) for place in places] == list(range(len(places)))
    assert places[-1] == token
    return tuple(part.ids[row, places].tolist())


def beginnings(batch):
    """What each token of a batch sees, in the order of the plan."""
    return [
        seen(part, row, token)
        for part in batch.parts
        for row in range(len(part.ids))
        for token in range(part.ids.shape[1])
    ]


def test_rows_have_few_lengths():
    pairs = made([((n, *range(n)),) * 2 for n in range(32, 64)])
    assert len({one.parts[0].ids.shape for one in pack_pairs(pairs, [1.0] * 32, True, 64)}) == 8


@settings(max_examples=40)
@given(many_pairs, st.booleans(), st.sampled_from([1, 20, 200]))
@example([((1, 2, 3), (1, 2, 3)), ((1, 2), (1, 2, 3)), ((1,), (2,))], True, 200)
def test_every_token_sees_its_own_sentence(sides, shared, tokens):
    pairs = made(sides)
    bias = [1.0 + number for number in range(len(pairs))]
    found, matched = Counter(), Counter()
    for batch in pack_pairs(pairs, bias, shared, tokens):
        heads, plan = beginnings(batch), batch.plan
        assert len(plan.weights) == len(heads) == sum(map(len, batch.items))
        for head, weight in zip(heads, plan.weights.tolist(), strict=True):
            found[head] += weight
        names = [item for items in batch.items for item in items]
        for one, two, weight in zip(plan.first, plan.second, plan.bias, strict=True):
            assert names[one] == names[two] == f"p{int(weight) - 1}"
            matched[heads[one], heads[two], float(weight)] += 1
    wanted, apart = Counter(), Counter()
    for pair, weight in zip(pairs, bias, strict=True):
        for ids in (pair.ids0, pair.ids1):
            wanted.update(ids[: end + 1] for end in range(len(ids)))
        for t0, t1 in pair.matches:
            heads = pair.ids0[: t0 + 1], pair.ids1[: t1 + 1]
            if not shared or heads[0] != heads[1]:
                apart[*heads, weight] += 1
    assert {head: weight for head, weight in found.items() if weight} == wanted
    assert matched == apart
