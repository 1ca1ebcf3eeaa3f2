"""Muon for the matrices of the blocks, Adam for everything else."""

import math
from typing import TYPE_CHECKING

from .training_options import TrainingOptions

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM


class Muon:
    """Muon (Jordan et al. 2024): momentum, made orthogonal by five Newton-Schulz steps.

    Written here in float32 and batched over matrices of one shape, because
    ``torch.optim.Muon`` works in bfloat16, which is very slow on older CPUs.
    """

    def __init__(self, matrices: list["torch.nn.Parameter"], momentum: float = 0.95) -> None:
        import torch

        by_shape: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        for matrix in matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = [
            (group, torch.zeros(len(group), *shape)) for shape, group in by_shape.items()
        ]
        self.momentum = momentum

    def step(self, rate: float, decay: float = 0.0) -> None:
        """Move every matrix by ``rate`` times its orthogonalised momentum; clear gradients.

        Before that, every matrix is made smaller by ``rate * decay`` of itself.
        """
        import torch

        with torch.no_grad():
            for group, average in self.groups:
                gradient = torch.stack([matrix.grad for matrix in group if matrix.grad is not None])
                average.lerp_(gradient, 1 - self.momentum)
                update = orthogonalise(gradient.lerp(average, self.momentum))
                update *= rate * math.sqrt(max(1.0, update.shape[-2] / update.shape[-1]))
                for matrix, change in zip(group, update):
                    matrix.mul_(1 - rate * decay).sub_(change)
                    matrix.grad = None


def orthogonalise(matrices: "torch.Tensor", steps: int = 5) -> "torch.Tensor":
    """Bring the singular values of each ``[..., rows, columns]`` matrix near one (float32)."""
    a, b, c = 3.4445, -4.7750, 2.0315  # the coefficients of Muon's reference implementation
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Optimiser:
    """Muon for the matrices of the blocks, Adam for everything else."""

    def __init__(self, model: "LlamaForCausalLM", options: TrainingOptions) -> None:
        import torch

        matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and ".layers." in n]
        chosen = {id(p) for p in matrices}
        others = [p for p in model.parameters() if id(p) not in chosen]
        self.model = model
        self.options = options
        self.muon = Muon(matrices)
        self.adam = torch.optim.Adam(others, betas=(0.9, 0.95))

    def step(self, factor: float) -> None:
        """Use and clear the gradients, at ``factor`` times the full learning rates."""
        import torch

        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.options.other_rate * factor
        self.adam.step()
        self.adam.zero_grad()
        self.muon.step(self.options.matrix_rate * factor, self.options.matrix_decay)
