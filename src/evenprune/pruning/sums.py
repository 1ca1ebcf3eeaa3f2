"""The sums of one pass over a block: what the method asks for, for each input of its linears."""

from collections.abc import Iterator

from torch import Tensor

from ..blocks.base_model import BaseModel
from ..blocks.forward import Batches, Routed, Stream, check_finite, collect
from ..blocks.packing import Plan, Text
from ..io.errors import UserError
from ..methods.hessian import Gram, SquareNorms
from ..methods.method import Method, Statistic
from ..methods.options import Options
from ..models.experts import experts_of
from .provenance import Stopwatch
from .routed import Sums, expert_sums, is_finite


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
        as ``routed.expert_sums`` says. Without calibration text there are no sums.
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
