"""The sums of one pass over a block: what the method asks for, for each input of its linears."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from ..blocks.base_model import BaseModel
from ..blocks.forward import Batches, Routed, Stream, check_finite, collect
from ..blocks.packing import Plan, Text
from ..io.errors import UserError
from ..methods.method import Method
from ..methods.options import Options
from ..models.experts import experts_of
from .provenance import Stopwatch
from .routed import ExpertSums, Facts, is_finite

Sums = tuple[list[str], Sequence[Tensor], Facts | None]


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
        """Run the text to the inputs of some groups of a block; return groups with their sums.

        groups: names of linears of one input, or of a layer of experts. Experts come last, in turn,
        as ``routed.ExpertSums`` says. Without calibration text there are no sums.
        """
        if calibration is None:
            return iter([(group, (), None) for group in groups])
        return self._with_sums(index, groups, *self._statistics(index, calibration, groups))

    def _with_sums(
        self,
        index: int,
        groups: list[list[str]],
        statistics: dict[str, list[Tensor]],
        routed: dict[str, list[Routed]],
    ) -> Iterator[Sums]:
        """Yield the groups of a pass with their statistics; those of experts last, in turn."""
        for group in groups:
            if group[0] not in routed:
                yield group, statistics.pop(group[0], ()), None
        for name, batches in routed.items():
            experts = experts_of(self.base.blocks[index])[name]
            of_experts = ExpertSums(
                name, experts, batches, self.method, self.options, self.base.device
            ).groups()
            while True:
                with self.watch("hessian"):
                    found = next(of_experts, None)
                if found is None:
                    break
                yield found

    def _statistics(
        self, index: int, calibration: Batches, groups: list[list[str]]
    ) -> tuple[dict[str, list[Tensor]], dict[str, list[Routed]]]:
        """Return the method's statistics of each group's input; a group without any is left out.

        Of a layer of experts what comes to it is returned.
        """
        block, name = self.base.blocks[index], self.base.block_name(index)
        experts = experts_of(block)
        kinds = {
            group[0]: self.method.statistics(self.options, group)
            for group in groups
            if group[0] not in experts
        }
        layers = [group[0] for group in groups if group[0] in experts]
        leaders = [leader for leader, needed in kinds.items() if needed] + layers
        sums: dict[str, list[Any]] = {}
        if not leaders:
            return {}, {}

        def add(leader: str, inputs: Tensor, plan: Plan, _streams: list[Stream]) -> None:
            if leader not in sums:
                sums[leader] = [kind(inputs.shape[1], self.base.device) for kind in kinds[leader]]
            with self.watch("hessian"):
                for total in sums[leader]:
                    total.add(inputs, plan)

        largest: dict[str, tuple[float, str]] = {}

        def locate(leader: str, inputs: Tensor, _plan: Plan, streams: list[Stream]) -> None:
            items = [item for stream in streams for item in stream.items]
            check_finite(inputs, items, f"the input of {name}.{leader}")
            value, token = inputs.abs().amax(dim=1).max(dim=0)
            largest[leader] = max(largest.get(leader, (0.0, "")), (float(value), items[token]))

        routed = collect(block, index, calibration, leaders, add)
        results = {leader: [one.result() for one in totals] for leader, totals in sums.items()}
        for leader, totals in results.items():
            if not all(map(is_finite, totals)):
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
        return results, routed
