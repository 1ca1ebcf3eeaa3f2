"""Experts in the naive float64 reference: in the library's own modules.

A matrix is named as in layers.csv, ``LAYER.NUMBER.LINEAR``; LAYER is the library's module with the
3-D parameters.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import reference
import torch
from transformers.pytorch_utils import Conv1D

LINEARS = "gate_proj|up_proj|gate_up_proj|down_proj"


def place_of(model, name):
    """Return (module, number, linear) of an expert's matrix; None for another linear."""
    found = re.fullmatch(rf"(.*)\.(\d+)\.({LINEARS})", name)
    if found is None:
        return None
    owner = model.get_submodule(found[1])
    down = getattr(owner, "down_proj", None)
    if not isinstance(down, torch.nn.Parameter) or down.ndim != 3:
        return None
    return owner, int(found[2]), found[3]


def matrix(owner, number, linear):
    """Return W (n, d) of one expert, a view."""
    if linear in ("gate_proj", "up_proj") and hasattr(owner, "gate_up_proj"):
        whole = owner.gate_up_proj[number]
        half = len(whole) // 2
        return whole[:half] if linear == "gate_proj" else whole[half:]
    whole = getattr(owner, linear)[number]
    return whole.T if owner.is_transposed else whole


def matrix_of(model, name):
    """Return W (n, d) of an expert's matrix or of a linear, a view."""
    if place := place_of(model, name):
        return matrix(*place)
    linear = model.get_submodule(name)
    return linear.weight.T if isinstance(linear, Conv1D) else linear.weight


def inner(owner, number, rows):
    """Return the input of ``down_proj`` of one expert for tokens (t, h)."""
    if not owner.has_gate:
        return owner.act_fn(rows @ matrix(owner, number, "up_proj").T)
    before = rows @ matrix(owner, number, "gate_up_proj").T
    if owner.has_bias:
        before = before + owner.gate_up_proj_bias[number]
    return owner._apply_gate(before)


@dataclass
class Taken:
    """What came to one layer of experts: for each sentence its tokens (t, h) and their experts."""

    tokens: list = field(default_factory=list)
    experts: list = field(default_factory=list)

    def hook(self, _module, args, kwargs):
        tokens, experts, *_ = (*args, *kwargs.values())
        self.tokens.append(tokens.reshape(-1, tokens.shape[-1]).clone())
        self.experts.append(experts.tolist())


def record(model, names, sentences):
    """Run sentences one by one; return what came to each layer of the experts among ``names``."""
    layers = {place_of(model, name)[0] for name in names if place_of(model, name)}
    taken = {module: Taken() for module in layers}
    handles = [
        module.register_forward_pre_hook(one.hook, with_kwargs=True)
        for module, one in taken.items()
    ]
    with torch.no_grad():
        for ids in sentences:
            model(torch.tensor([list(ids)]), use_cache=False)
    for handle in handles:
        handle.remove()
    return taken


@torch.no_grad()
def expert_hessian(model, name, taken, pairs, bias):
    """Return (H, tokens, shared) of an expert's matrix.

    The first sentences of ``taken`` are those of ``pairs`` (matched positions of each), two by two,
    then texts. A match counts where both tokens go to this expert.
    """
    owner, number, linear = place_of(model, name)
    one = taken[owner]
    places = [[t for t, to in enumerate(tokens) if number in to] for tokens in one.experts]
    tokens = sum(map(len, places))
    width = matrix(owner, number, linear).shape[1]
    shared = tokens < width
    if shared:
        places = [range(len(tokens)) for tokens in one.experts]
    inputs = []
    for sentence, chosen in zip(one.tokens, places, strict=True):
        rows = sentence[list(chosen)]
        rows = inner(owner, number, rows) if linear == "down_proj" else rows
        inputs.append(dict(zip(chosen, rows.double().numpy(), strict=True)))
    total = np.zeros((width, width))
    for x in (x for rows in inputs for x in rows.values()):
        total += np.outer(x, x)
    for k, matches in enumerate(pairs):
        first, second = inputs[2 * k], inputs[2 * k + 1]
        for i, j in matches:
            if i in first and j in second:
                delta = first[i] - second[j]
                total += 2 * bias * np.outer(delta, delta)
    return total, tokens, shared


def agreement(model, result, names, sentences, pairs, method, regime, bias=0.0):
    """Return for each expert's matrix among ``names`` how much of its mask is the reference's.

    {name: (share of equal entries, tokens, shared)}
    """
    taken = record(model, names, sentences)
    found = {}
    for name in names:
        place = place_of(model, name)
        if place is None:
            continue
        hessian, tokens, shared = expert_hessian(model, name, taken, pairs, bias)
        dense = matrix(*place).detach().double().numpy()
        pruned = matrix(*place_of(result, name)).detach().double().numpy()
        expected = reference.prune(dense, hessian, method, regime)
        found[name] = (float(np.mean((expected == 0) == (pruned == 0))), tokens, shared)
    return found
