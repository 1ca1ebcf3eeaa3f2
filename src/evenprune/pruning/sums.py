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
from ..models.experts import DOWN, Expert, Experts, experts_of
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
        as ``expert_sums`` says. Without calibration text there are no sums.
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
            of_experts = expert_sums(name, layers[name], batches, kind, self.base.device)
            while True:
                with self.watch("hessian"):
                    found = next(of_experts, None)
                if found is None:
                    break
                yield found

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

        largest: dict[str, tuple[float, str]] = {}

        def locate(leader: str, inputs: Tensor, _plan: Plan, streams: list[Stream]) -> None:
            items = [item for stream in streams for item in stream.items]
            check_finite(inputs, items, f"the input of {name}.{leader}")
            value, token = inputs.abs().amax(dim=1).max(dim=0)
            largest[leader] = max(largest.get(leader, (0.0, "")), (float(value), items[token]))

        routed = collect(block, index, calibration, leaders, add)
        totals = {leader: total.result() for leader, total in sums.items()}
        for leader, total in totals.items():
            if not is_finite(total):
                collect(block, index, calibration, leaders, locate)
                value, item = largest[leader]
                weights = self.method.pair_weights(self.options, len(self.text.kept))
                heavy = max(weights, default=0.0)
                raise UserError(
                    f"the sums of squares of the input of {name}.{leader} overflow float32: up to "
                    f"{value:.1e} for calibration item {item}"
                    + (f", bias weight up to {heavy:g}" if heavy > 1 else "")
                    + ("; lower --bias-weight," if heavy > 1 else ";")
                    + " remove it, or check the weights"
                )
        return totals, routed


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
    if len(parts) == 1:
        return parts[0]
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


@torch.no_grad()
def expert_sums(
    name: str, experts: Experts, batches: Sequence[Routed], kind: Statistic, device: str
) -> Iterator[Sums]:
    """Yield the matrices of a layer's experts that share their input, their sum and facts, in turn.

    name: of the layer within its block; batches: all calibration text in front of it; kind: what
    is summed. The facts are the calibration tokens that are routed to the expert, and whether it
    took the sum of all tokens of the layer in their place. Raises UserError where float32 cannot
    hold a sum.
    """
    everyone: Tensor | None = None  # the sum of all tokens of the layer
    for number, expert in enumerate(experts.members()):
        tokens = count_tokens(batches, number)
        found = []
        # Both are taken before the matrices in front of ``DOWN`` are pruned.
        for names in (expert.ups, [DOWN]):
            width, inner = _width(expert, names[0]), names[0] == DOWN
            shared = tokens < width
            if shared and not inner and everyone is not None:
                result = everyone
            else:
                everything = ((one.hidden, one.plan) for one in batches)
                rows = everything if shared else routed_rows(batches, number)
                if inner:
                    rows = ((expert.inner(inputs), plan) for inputs, plan in rows)
                total = kind(width, device)
                for inputs, plan in rows:
                    total.add(inputs, plan)
                result = total.result()
            if not is_finite(result):
                raise UserError(
                    f"the sums of squares of the input of {name}.{number}.{names[0]} are not "
                    "finite in float32; lower --bias-weight where there is one, or check the "
                    "calibration text and the weights"
                )
            if shared and not inner:
                everyone = result
            facts = {"tokens": tokens, "shared": shared}
            found.append(([f"{name}.{number}.{n}" for n in names], result, facts))
        yield from found


def is_finite(total: Tensor) -> bool:
    """Return whether float32 could hold a sum of squares; the diagonal of a matrix tells."""
    return bool(torch.isfinite(total.diagonal() if total.ndim == 2 else total).all())


def _width(expert: Expert, name: str) -> int:
    """Return how many inputs a linear of an expert has."""
    linear = expert.get_submodule(name)
    return rows_of(linear, linear.weight).shape[1]  # type: ignore[arg-type]  # a linear's weight
