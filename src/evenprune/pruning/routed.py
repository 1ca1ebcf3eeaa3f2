"""Statistics of experts: what the tokens that are routed to each put into its linear layers.

One forward pass of a block keeps the tokens in front of its experts and where each is routed. From
these the experts are taken in turn: one expert's sums are held at a time. An expert with fewer
tokens than a matrix has inputs would give a singular sum; that matrix takes the sums of all tokens
of the layer. For ``down_proj`` the expert is then run on all of them: the hidden units of another
expert are none of its own, so that its sums would say nothing.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..blocks.forward import Routed
from ..blocks.packing import TOKENS, Plan
from ..io.errors import UserError
from ..methods.method import Method, Statistic
from ..methods.options import Options
from ..models.architecture import rows_of
from ..models.experts import DOWN, Expert, Experts


@dataclass(frozen=True)
class Facts:
    """Of one matrix of an expert: the calibration tokens that are routed to the expert, and
    whether it took the sums of all tokens of the layer in their place."""

    tokens: int
    shared: bool


def restricted(plan: Plan, chosen: Tensor) -> Plan:
    """Return the plan of some of a batch's tokens, ``chosen`` (r,) int64 in ascending order.

    Two matched tokens stay matched where both are chosen; one that is left alone is a plain token.
    """
    place = torch.full_like(plan.weights, -1, dtype=torch.int64)
    place[chosen] = torch.arange(len(chosen), device=chosen.device)
    first, second, plus, minus = (
        place[tokens] for tokens in (plan.first, plan.second, plan.plus, plan.minus)
    )
    # Places, not masks: each mask that takes tokens out of a tensor makes the host wait for a GPU.
    both = ((first >= 0) & (second >= 0)).nonzero().flatten()
    apart = ((plus >= 0) & (minus >= 0)).nonzero().flatten()
    return Plan(
        plan.weights[chosen], first[both], second[both], plan.bias[both],
        plus[apart], minus[apart],
    )  # fmt: skip


def joined(parts: Sequence[tuple[Tensor, Plan]]) -> tuple[Tensor, Plan]:
    """Return rows and plan of several batches as one."""
    if len(parts) == 1:
        return parts[0]
    starts = itertools.accumulate((len(rows) for rows, _ in parts), initial=0)
    moved: dict[str, list[Tensor]] = {name: [] for name in Plan.__dataclass_fields__}
    for start, (_, plan) in zip(starts, parts, strict=False):
        for name, values in moved.items():
            own = getattr(plan, name)
            values.append(own + start if name in ("first", "second", "plus", "minus") else own)
    rows = torch.cat([rows for rows, _ in parts])
    return rows, Plan(**{name: torch.cat(values) for name, values in moved.items()})


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


class ExpertSums:
    """The sums of one layer's experts, in turn.

    name: of the layer within its block; batches: all calibration text in front of it.
    """

    def __init__(
        self,
        name: str,
        experts: Experts,
        batches: Sequence[Routed],
        method: Method,
        options: Options,
        device: str,
    ) -> None:
        self.name, self.experts, self.batches = name, experts, batches
        self.method, self.options, self.device = method, options, device
        self.layer: dict[str, list[Tensor]] = {}

    @torch.no_grad()
    def groups(self) -> Iterator[tuple[list[str], list[Tensor], Facts]]:
        """Yield matrices that share their input and metric (names in the block), sums and facts."""
        for number, expert in enumerate(self.experts.members()):
            tokens = count_tokens(self.batches, number)
            first = list(self._of(number, expert, expert.ups, tokens))
            # Taken before the matrices in front of it are pruned, between two groups.
            last = list(self._of(number, expert, [DOWN], tokens))
            yield from first
            yield from last

    def _of(
        self, number: int, expert: Expert, names: Sequence[str], tokens: int
    ) -> Iterator[tuple[list[str], list[Tensor], Facts]]:
        """Yield the groups of an expert's linears of one input: those before it, or ``DOWN``."""
        shared, inner = tokens < _width(expert, names[0]), names[0] == DOWN
        for part in self.method.parts(self.options, [f"{self.name}.{number}.{n}" for n in names]):
            kinds = self.method.statistics(self.options, part)
            key, kept = repr(kinds), self.layer if shared and not inner else {}
            if key not in kept:
                rows = self._all() if shared else routed_rows(self.batches, number)
                if inner:
                    rows = ((expert.inner(inputs), plan) for inputs, plan in rows)
                kept[key] = self._sums(part[0], kinds, rows)
            # A method may change its sums.
            sums = [one.clone() for one in kept[key]] if shared else kept[key]
            yield part, sums, Facts(tokens, shared)

    def _all(self) -> Iterator[tuple[Tensor, Plan]]:
        """Yield all tokens and their plans."""
        return ((batch.hidden, batch.plan) for batch in self.batches)

    def _sums(
        self, name: str, kinds: Sequence[Statistic], rows: Iterable[tuple[Tensor, Plan]]
    ) -> list[Tensor]:
        """Return the sums over inputs (r, d); UserError where float32 cannot hold them."""
        totals: list = []
        for inputs, plan in rows if kinds else ():
            totals = totals or [kind(inputs.shape[1], self.device) for kind in kinds]
            for total in totals:
                total.add(inputs, plan)
        sums = [total.result() for total in totals]
        if not all(map(is_finite, sums)):
            raise UserError(
                f"the sums of squares of the input of {name} are not finite in float32; lower "
                "--bias-weight where there is one, or check the calibration text and the weights"
            )
        return sums


def is_finite(total: Tensor) -> bool:
    """Return whether float32 could hold a sum of squares; the diagonal of a matrix tells."""
    return bool(torch.isfinite(total.diagonal() if total.ndim == 2 else total).all())


def _width(expert: Expert, name: str) -> int:
    """Return how many inputs a linear of an expert has."""
    linear = expert.get_submodule(name)
    return rows_of(linear, linear.weight).shape[1]  # type: ignore[arg-type]  # a linear's weight
