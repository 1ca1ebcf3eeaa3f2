"""An independent float64 reference of the pruning methods, naive on purpose.

It shares no code with the package: sentence-by-sentence forward passes of the Hugging Face
model, plain sums, an explicit inverse of the Hessian, one column after the other in numpy.
"""

import numpy as np
import torch
from transformers.pytorch_utils import Conv1D

METHODS = ("magnitude", "wanda", "sparsegpt", "debias-sparsegpt")


def linear_inputs(block, run, sentences):
    """Return {linear name: [X (d, t) of each sentence]} for one decoder block, in float64."""
    inputs = {}
    handles = []
    for name, module in block.named_modules():
        if isinstance(module, torch.nn.Linear | Conv1D):
            inputs[name] = []

            def hook(_module, args, name=name):
                inputs[name].append(
                    args[0].reshape(-1, args[0].shape[-1]).double().numpy().T.copy()
                )

            handles.append(module.register_forward_pre_hook(hook))
    with torch.no_grad():
        for sentence in sentences:
            run(torch.tensor([list(sentence)]))
    for handle in handles:
        handle.remove()
    return inputs


def hessian(pairs, texts, matches, bias):
    """Return Σ X0X0ᵀ + X1X1ᵀ + 2 b ΔΔᵀ over pairs plus Σ XXᵀ over texts.

    pairs: [(X0, X1)]; matches: for each pair its matched positions; bias: b of each pair.
    """
    total = 0.0
    for (x0, x1), places, b in zip(pairs, matches, bias, strict=True):
        delta = np.stack([x0[:, i] - x1[:, j] for i, j in places], axis=1)
        total = total + x0 @ x0.T + x1 @ x1.T + 2 * b * delta @ delta.T
    for x in texts:
        total = total + x @ x.T
    return total


def released_code_hessian(pairs, matches, alpha):
    """Return the running mean that the authors' code keeps, pair after pair."""
    total, seen = 0.0, 0
    for (x0, x1), places in zip(pairs, matches, strict=True):
        before, seen = seen, seen + 2
        total = total * (before / seen)
        total = total + 2 / seen * (x0 @ x0.T + x1 @ x1.T)
        delta = np.stack([x0[:, i] - x1[:, j] for i, j in places], axis=1)
        total = total + alpha * 2 * delta @ delta.T
    return total


def released_2026_hessian(pairs, texts, alpha):
    """Return the running mean of the authors' code of August 2026: pairs padded, then texts.

    Both sentences of a pair have one length, padding included; the difference is scaled as the
    plain terms are.
    """
    total, seen = 0.0, 0
    for x0, x1 in pairs:
        total = total * (seen / (seen + 2))
        total = total + 2 / (seen + 2) * (x0 @ x0.T + x1 @ x1.T)
        delta = np.sqrt(2 / (seen + 2)) * (x0 - x1)
        total = total + alpha * delta @ delta.T
        seen += 2
    for x in texts:
        total = total * (seen / (seen + 1)) + 2 / (seen + 1) * x @ x.T
        seen += 1
    return total


def choose(scores, count):
    """Return a mask of the ``count`` smallest scores of a flat array, ties by position."""
    mask = np.zeros(scores.size, dtype=bool)
    mask[np.argsort(scores.reshape(-1), kind="stable")[:count]] = True
    return mask.reshape(scores.shape)


def grouped(scores, count):
    """Return the N:M mask of scores (n, d)."""
    mask = np.zeros(scores.shape, dtype=bool)
    for row in range(scores.shape[0]):
        for start in range(0, scores.shape[1], 4):
            mask[row, start : start + 4] = choose(scores[row, start : start + 4], count)
    return mask


def prune(weight, h, method, regime, damping=0.01, block=128):
    """Return the pruned W (n, d) float64 for a Hessian (d, d)."""
    weight = weight.copy()
    structured = "of" in regime
    share = int(regime[0]) / 4 if structured else int(regime[1:]) / 100
    if method in ("magnitude", "wanda"):
        norms = np.sqrt(np.diag(h)) if method == "wanda" else 1.0
        scores = np.abs(weight) * norms
        if structured:
            mask = grouped(scores, int(4 * share))
        elif method == "magnitude":
            mask = choose(scores, int(share * scores.size))
        else:
            mask = np.stack([choose(row, int(share * row.size)) for row in scores])
        return np.where(mask, 0.0, weight)
    h = h.copy()
    width = len(h)
    mean = np.mean(np.diag(h))
    dead = np.diag(h) == 0
    h[np.diag_indices(width)] += damping * mean
    h[dead, dead] = 1.0
    weight[:, dead] = 0.0
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    mask = np.zeros(weight.shape, dtype=bool)
    step = 4 if structured else block
    for column in range(width):
        if column % step == 0:
            group = slice(column, min(column + step, width))
            scores = (weight[:, group] / np.diag(upper)[group]) ** 2
            if structured:
                mask[:, group] = grouped(scores, int(4 * share))
            else:
                mask[:, group] = choose(scores, int(share * scores.size))
        error = np.where(mask[:, column], weight[:, column] / upper[column, column], 0.0)
        weight[:, column:] -= np.outer(error, upper[column, column:])
    return np.where(mask, 0.0, weight)
