"""The sums of one pass over a block: what the method asks for, for each input of its linears.

Experts: one forward pass of a block keeps the tokens in front of its experts and where each is
routed. From these the experts are taken in turn: one expert's sums are held at a time. An expert
with fewer tokens than a matrix has inputs would give a singular sum; that matrix takes the sums of
all tokens of the layer. For ``down_proj`` the expert is then run on all of them: the hidden units
of another expert are none of its own, so that its sums would say nothing.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..blocks.base_model import BaseModel
from ..blocks.forward import Batches, Routed, Stream, check_finite, collect
from ..blocks.packing import TOKENS, Plan, Text
from ..io.errors import UserError
from ..methods.hessian import Gram, SquareNorms
from ..methods.method import Method, Statistic
from ..methods.options import Options
from ..models.architecture import rows_of
from ..models.experts import DOWN, Experts, experts_of
from .provenance import Stopwatch

# Matrices of one input by their names in the block, its sum, and what is to be recorded of them.
Sums = tuple[list[str], Tensor | None, dict[str, Any]]


class BlockSums:
    """Takes sums of the calibration text ``text`` in front of a block's linears."""

    def __init__(
        self, base: BaseModel, method: Method, options: Options, text: Text, watch: Stopwatch
    ) -> None:
        self.base, self.method, self.options = base, method, options
        self.text, self.watch = text, watch

    def take(
        self, index: int, calibration: Batches | None, groups: list[list[str]]
    ) -> Iterator[Sums]:
        """Run the text to the inputs of some groups of a block; yield groups with their sums.

        groups: names of linears of one input, or of a layer of experts. Experts come last, in turn,
        as ``_of_experts`` says. Without calibration text there are no sums.
        """
        kind = self.method.summed(self.options)
        if calibration is None or kind is None:
            yield from ((group, None, {}) for group in groups)
            return
        with self.watch("forward"):
            leaders = [group[0] for group in groups]
            totals, routed = self._totals(index, calibration, leaders, kind)
        for group in groups:
            if group[0] in totals:
                yield group, totals.pop(group[0]), {}
        layers = experts_of(self.base.blocks[index])
        for name, batches in routed.items():
            yield from self._of_experts(name, layers[name], batches, kind)

    def _totals(
        self, index: int, calibration: Batches, leaders: list[str], kind: Statistic
    ) -> tuple[dict[str, Tensor], dict[str, list[Routed]]]:
        """Return the sums of the inputs of some linears, and what comes to layers of experts."""
        block, name = self.base.blocks[index], self.base.block_name(index)
        sums: dict[str, Gram | SquareNorms] = {}

        def add(leader: str, inputs: Tensor, plan: Plan, _streams: list[Stream]) -> None:
            if leader not in sums:
                sums[leader] = kind(inputs.shape[1], self.base.device)
            with self.watch("hessian"):
                sums[leader].add(inputs, plan)

        largest: list[tuple[float, str]] = []

        def locate(leader: str, inputs: Tensor, _plan: Plan, streams: list[Stream]) -> None:
            items = [item for stream in streams for item in stream.items]
            check_finite(inputs, items, f"the input of {name}.{leader}")
            value, token = inputs.abs().amax(dim=1).max(dim=0)
            largest.append((float(value), items[token]))

        routed = collect(block, index, calibration, leaders, add)
        totals = {leader: total.result() for leader, total in sums.items()}
        for leader, total in totals.items():
            if not is_finite(total):
                collect(block, index, calibration, [leader], locate)
                value, item = max(largest)
                weights = self.method.pair_weights(self.options, len(self.text.kept))
                heavy = max(weights, default=0.0)
                bias = f", bias weight up to {heavy:g}; lower --bias-weight," if heavy > 1 else ";"
                raise UserError(
                    f"the sums of squares of the input of {name}.{leader} overflow float32: up to "
                    f"{value:.1e} for calibration item {item}{bias} remove it, or check the weights"
                )
        return totals, routed

    @torch.no_grad()
    def _of_experts(
        self, name: str, experts: Experts, batches: Sequence[Routed], kind: Statistic
    ) -> Iterator[Sums]:
        """Yield the matrices of a layer's experts that share their input, their sum and facts.

        name: of the layer within its block; batches: all calibration text in front of it. The
        experts come in turn. The facts are the calibration tokens that are routed to the expert,
        and whether it took the sum of all tokens of the layer in their place. Raises UserError
        where float32 cannot hold a sum.
        """
        whole = [(one.hidden, one.plan) for one in batches]
        everyone: Tensor | None = None  # the sum of all tokens of the layer
        for number, expert in enumerate(experts.members()):
            found = []
            with self.watch("hessian"):
                tokens = count_tokens(batches, number)
                # Both are taken before the matrices in front of ``DOWN`` are pruned.
                for names in (expert.ups, [DOWN]):
                    linear: Any = expert[names[0]]
                    width = rows_of(linear, linear.weight).shape[1]
                    shared, inner = tokens < width, names[0] == DOWN
                    total = everyone if shared and not inner else None
                    if total is None:
                        sums = kind(width, self.base.device)
                        for rows, plan in whole if shared else routed_rows(batches, number):
                            sums.add(expert.inner(rows) if inner else rows, plan)
                        total = sums.result()
                    if not is_finite(total):
                        raise UserError(
                            f"the sums of squares of the input of {name}.{number}.{names[0]} are "
                            "not finite in float32; lower --bias-weight where there is one, or "
                            "check the calibration text and the weights"
                        )
                    if shared and not inner:
                        everyone = total
                    facts = {"tokens": tokens, "shared": shared}
                    found.append(([f"{name}.{number}.{one}" for one in names], total, facts))
            yield from found


def restricted(plan: Plan, chosen: Tensor) -> Plan:
    """Return the plan of some of a batch's tokens, ``chosen`` (r,) int64 in ascending order.

    Two matched tokens stay matched where both are chosen; one that is left alone is a plain token.
    """
    place = torch.full_like(plan.weights, -1, dtype=torch.int64)
    place[chosen] = torch.arange(len(chosen), device=chosen.device)
    first, second = place[plan.first], place[plan.second]
    # Places, not masks: each mask that takes tokens out of a tensor makes the host wait for a GPU.
    both = ((first >= 0) & (second >= 0)).nonzero().flatten()
    return Plan(plan.weights[chosen], first[both], second[both], plan.bias[both])


def joined(parts: Sequence[tuple[Tensor, Plan]]) -> tuple[Tensor, Plan]:
    """Return rows and plan of several batches as one."""
    starts = itertools.accumulate((len(rows) for rows, _ in parts), initial=0)
    moved = [
        (plan.weights, plan.first + start, plan.second + start, plan.bias)
        for start, (_, plan) in zip(starts, parts, strict=False)
    ]
    return torch.cat([rows for rows, _ in parts]), Plan(*map(torch.cat, zip(*moved)))


def routed_rows(batches: Sequence[Routed], number: int) -> Iterator[tuple[Tensor, Plan]]:
    """Yield the tokens (r, h) of expert ``number`` and their plans, a batch's worth at a time."""
    parts: list[tuple[Tensor, Plan]] = []
    for batch in batches:
        chosen = (batch.index == number).any(dim=1).nonzero().flatten()
        if len(chosen):
            parts.append((batch.hidden[chosen], restricted(batch.plan, chosen)))
        if sum(len(rows) for rows, _ in parts) >= TOKENS:
            yield joined(parts)
            parts = []
    if parts:
        yield joined(parts)


def count_tokens(batches: Sequence[Routed], number: int) -> int:
    """Return how many tokens are routed to an expert, each as often as it counts."""
    chosen = ((batch.index == number).any(dim=1) for batch in batches)
    return int(sum((b.plan.weights * c).sum() for b, c in zip(batches, chosen, strict=True)))


def is_finite(total: Tensor) -> bool:
    """Return whether float32 could hold a sum of squares; the diagonal of a matrix tells."""
    return bool(torch.isfinite(total.diagonal() if total.ndim == 2 else total).all())
