"""The adapters of LoRA (Hu et al. 2021, arXiv 2106.09685) inside a mask: ``ΔW = B A ∘ M``.

M is 1 where a weight is and 0 where it was taken away: what is pruned stays so. An adapter is in
units of its matrix, so that one learning rate fits models of any scale.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..models.architecture import rows_of

RANK = 8
KEPT = 128 << 20  # bytes of changed weights at most for a step, else each pass makes them again
STRENGTH = 0.4  # of an adapter, times the root mean square of what its matrix makes of white noise


def mask_of(weight: Tensor) -> Tensor:
    """Return M of a weight in its dtype: a tenth of the time of a comparison and a fill."""
    return weight.sign().abs_()


class Changed(torch.autograd.Function):
    """``X Cᵀ`` of X (p, d), C = W + s u B A ∘ M (n, d), A and u B; gradients for X, A and u B.

    ``weight`` is W, which M is made of in the backward pass, ``changed`` is C: kept with the rest
    for that pass, of all blocks a second model if each were not made again in it (``checkpoint``).
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        changed: Tensor,
        inner: Tensor,
        outer: Tensor,
        scale: float,
    ) -> Tensor:
        """Return the product, (p, n)."""
        ctx.save_for_backward(rows, weight, changed, inner, outer)
        ctx.scale = scale
        return rows @ changed.T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of what ``forward`` took."""
        rows, weight, changed, inner, outer = ctx.saved_tensors
        (grad,) = grads
        before = grad @ changed if ctx.needs_input_grad[0] else None
        whole = (grad.T @ rows).mul_(mask_of(weight))
        for_inner, for_outer = outer.T @ whole, whole @ inner.T
        return before, None, None, ctx.scale * for_inner, ctx.scale * for_outer, None


class Adapters:
    """A (RANK, d) and B (n, RANK), float32, of each linear, times ``scale`` added to its weight.

    ΔW = u B A ∘ M, where u = STRENGTH · RMS(W) · √d is in the unit of the matrix: with entries of A
    of variance 1/d, B of RMS 1/√RANK makes as large an output as W does of white noise.
    """

    def __init__(self, linears: Mapping[str, nn.Module], generator: torch.Generator) -> None:
        self.scale = 1.0
        self.matrices: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        # What is computed with, in the dtype of the weights: A and u B.
        self.used: dict[str, tuple[Tensor, Tensor]] = {}
        self.weights: dict[str, Tensor] = {}
        self.sums: dict[str, tuple[float, Tensor]] = {}  # a scale, and the changed weight at it
        self.units: dict[str, float] = {}
        for name, module in linears.items():
            stored: Any = module.weight
            weight = self.weights[name] = rows_of(module, stored.detach())
            rows, columns = weight.shape
            drawn = torch.randn(RANK, columns, generator=generator) / columns**0.5
            self.matrices[name] = (
                nn.Parameter(drawn.to(weight.device)),
                nn.Parameter(torch.zeros(rows, RANK, device=weight.device)),
            )
            self.units[name] = STRENGTH * weight.float().norm().item() / rows**0.5
            module.forward = self._changed(name, module)
        self.kept = sum(weight.nbytes for weight in self.weights.values()) <= KEPT
        self.refresh()

    def _changed(self, name: str, module: nn.Module) -> Callable:
        plain = module.forward
        bias: Any = module.bias

        def forward(rows: Tensor) -> Tensor:
            if not self.scale:
                return plain(rows)
            flat, weight, both = rows.flatten(0, -2), self.weights[name], self.used[name]
            found = Changed.apply(flat, weight, self._sum(name), *both, self.scale)
            found = found.reshape(*rows.shape[:-1], -1)
            return found if bias is None else found + bias

        return forward

    @torch.no_grad()
    def _sum(self, name: str) -> Tensor:
        """Return the changed weight of a linear, (n, d)."""
        scale, found = self.sums.get(name, (0.0, None))
        if found is not None and scale == self.scale:
            return found
        inner, outer = self.used[name]
        weight = self.weights[name]
        found = torch.addmm(weight, outer, inner, alpha=self.scale).mul_(mask_of(weight))
        if self.kept:
            self.sums[name] = self.scale, found
        return found

    def refresh(self) -> None:
        """Round A and u B to the dtype of the weights: once a step, not in each pass."""
        self.sums.clear()
        for name, (one, two) in self.matrices.items():
            both = (one.detach(), self.units[name] * two.detach())
            # Copies also where the dtype stays: a step changes A and B in place.
            first, second = (matrix.to(self.weights[name].dtype, copy=True) for matrix in both)
            self.used[name] = (first.requires_grad_(), second.requires_grad_())

    def gather(self) -> None:
        """Give A and B the gradients of what was computed with."""
        for name, (one, two) in self.matrices.items():
            first, second = (matrix.grad for matrix in self.used[name])
            if first is not None and second is not None:
                one.grad, two.grad = first.float(), self.units[name] * second.float()

    @contextlib.contextmanager
    def scaled(self, scale: float) -> Iterator[None]:
        """Compute with another scale, 0 for the unchanged model, without gradients."""
        before, self.scale = self.scale, scale
        try:
            with torch.no_grad():
                yield
        finally:
            self.scale = before

    def parameters(self) -> list[nn.Parameter]:
        """Return all A and B."""
        return [matrix for pair in self.matrices.values() for matrix in pair]

    def change(self, name: str) -> Tensor:
        """Return ΔW (n, d) float32 of a linear, on the CPU."""
        one, two = self.matrices[name]
        found = (self.units[name] * two @ one).detach()
        return found.mul_(mask_of(self.weights[name])).cpu()
