"""Experts of mixture-of-experts blocks as modules of their own, each with its linear layers.

The library keeps the matrices of all experts of a layer in 3-D parameters, and says how they are
used: transposed or not, with biases or not, gated or not, and how the gate is applied. Here they
are taken apart, ``experts.3.down_proj`` being an ``nn.Linear`` like any other, in the place of the
library's module. The library's own code stays beside it, for the gate and to be compared with.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    Concatenate,
    MergeModulelist,
    WeightConverter,
    WeightRenaming,
    dot_natural_key,
    rename_source_key,
)
from transformers.pytorch_utils import Conv1D

from ..io.errors import UserError
from .weights import Entry

UPS = ("up_proj", "gate_up_proj")  # without and with a gate
DOWN = "down_proj"
HALVES = ("gate_proj", "up_proj")  # of gate_up_proj, where a checkpoint has them apart


@dataclass(frozen=True)
class Slot:
    """Where a parameter lies in a checkpoint: a stored tensor, or its row ``number``."""

    stored: str
    number: int | None = None

    def of(self, entries: Mapping[str, Entry]) -> Entry:
        """Return the bytes of the parameter as an entry."""
        entry = entries[self.stored]
        return entry if self.number is None else entry.part(self.number)


class Transposed(Conv1D):
    """``x W + b`` with the weight stored (inputs, outputs), with or without the bias."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        with torch.device("meta"):
            super().__init__(outputs, inputs)
        if not bias:
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        """Return (…, outputs) for (…, inputs)."""
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class Expert(nn.ModuleDict):
    """One expert: ``ups`` are the names of the linears that take the tokens, side by side."""

    def __init__(
        self,
        linears: Mapping[str, nn.Module],
        ups: Sequence[str],
        activate: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__(linears)
        self.ups = list(ups)
        self.__dict__["activate"] = activate  # the library's, whose modules stay with it

    def inner(self, rows: Tensor) -> Tensor:
        """Return the input (r, i) of ``down_proj`` for tokens (r, h)."""
        parts = [self[name](rows) for name in self.ups]
        return self.__dict__["activate"](parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the expert's output (r, h) for tokens (r, h)."""
        return self[DOWN](self.inner(rows))


class Experts(nn.Module):
    """The experts of one layer, run one after the other; in the place of the library's module."""

    def __init__(self, library: nn.Module, experts: Sequence[Expert]) -> None:
        super().__init__()
        for number, expert in enumerate(experts):
            self.add_module(str(number), expert)
        self.__dict__["library"] = library  # its 3-D parameters stay on the meta device
        self.__dict__["own"] = inspect.unwrap(type(library).forward)

    def members(self) -> list[Expert]:
        """Return the experts in order."""
        return [module for module in self.children() if isinstance(module, Expert)]

    def routing(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens (…, h), their experts (t, k) int64 and the weights (t, k) of a call."""
        call = inspect.signature(self.__dict__["own"]).bind(
            self.__dict__["library"], *args, **kwargs
        )
        hidden, index, weights = list(call.arguments.values())[1:4]
        return hidden, index, weights

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the sum over a token's experts of weight times output, of the tokens' shape."""
        tokens, index, weights = self.routing(*args, **kwargs)
        hidden = tokens.reshape(-1, tokens.shape[-1])
        dtype = torch.promote_types(hidden.dtype, weights.dtype)
        outputs = hidden.new_zeros((*index.shape, hidden.shape[1]), dtype=dtype)
        for number, expert in enumerate(self.members()):
            token, place = (index == number).nonzero(as_tuple=True)
            if len(token):
                values = expert(hidden[token]) * weights[token, place].unsqueeze(1)
                outputs[token, place] = values.to(dtype)
        return outputs.sum(dim=1).to(hidden.dtype).view(tokens.shape)

    @torch.no_grad()
    def by_library(self, hidden: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Return the same output (t, h) by the library's own loop, expert by expert.

        Its 3-D parameters are views that repeat one expert's matrices, so that it takes no memory
        for them.
        """
        library = self.__dict__["library"]
        names = [name for name, _ in library.named_parameters()]
        total = torch.zeros_like(hidden)
        kept = dict(library._parameters)
        try:
            for number, expert in enumerate(self.members()):
                token, place = (index == number).nonzero(as_tuple=True)
                if not len(token):
                    continue
                for name in names:
                    value = _packed(expert, name).unsqueeze(0).expand(kept[name].shape)
                    library._parameters[name] = nn.Parameter(value, requires_grad=False)
                found = self.__dict__["own"](
                    library, hidden[token], index[token, place].unsqueeze(1),
                    weights[token, place].unsqueeze(1),
                )  # fmt: skip
                total.index_add_(0, token, found.to(total.dtype))
        finally:
            library._parameters.update(kept)
        return total


def _packed(expert: Expert, name: str) -> Tensor:
    """Return one expert's row of the library's parameter ``name``."""
    leaf = "bias" if name.endswith("_bias") else "weight"
    linear = name.removesuffix("_bias")
    names = [DOWN] if linear == DOWN else expert.ups
    parts = [getattr(expert[one], leaf) for one in names]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def is_packed(module: nn.Module) -> bool:
    """Return whether a module holds experts in 3-D parameters as the library's interface says."""
    interface = ("has_gate", "has_bias", "is_transposed", "_apply_gate")
    if not all(hasattr(module, name) for name in interface):
        return False
    weights = [UPS[bool(module.has_gate)], DOWN]
    wanted = {*weights, *(f"{name}_bias" for name in weights if module.has_bias)}
    return wanted == {name for name, _ in module.named_parameters()} and all(
        getattr(module, name).ndim == 3 for name in weights
    )


def unpack_experts(model: PreTrainedModel, stored: Mapping[str, Entry]) -> dict[str, Slot]:
    """Put ``Experts`` in the place of the library's experts; return where parameters are stored.

    Only what is not stored under its own name is in the result; nothing is, and the model stays as
    it is, where it has no experts. Expects all parameters on the meta device. Raises UserError
    where a checkpoint holds the experts in a form that is not known.
    """
    packed = {name: module for name, module in model.named_modules() if is_packed(module)}
    if not packed:
        return {}
    slots, merged = _stored_forms(model, stored)
    for name, library in packed.items():
        biases = {one: slots.get(f"{name}.{one}_bias") for one in (UPS[library.has_gate], DOWN)}
        matrices = _matrices(name, library, slots, merged, stored)
        experts = []
        for number in range(len(getattr(library, DOWN))):
            linears: dict[str, nn.Module] = {}
            for one, places in matrices.items():
                first, second = places[number].of(stored).shape
                whole = f"{name}.{number}.{one}"
                slots[f"{whole}.weight"] = places[number]
                if bias := biases.get(one):
                    slots[f"{whole}.bias"] = Slot(bias.stored, number)
                if library.is_transposed:
                    linears[one] = Transposed(first, second, library.has_bias)
                else:
                    linears[one] = nn.Linear(second, first, library.has_bias, device="meta")
            activate = library._apply_gate if library.has_gate else library.act_fn
            experts.append(Expert(linears, [one for one in matrices if one != DOWN], activate))
        owner, _, leaf = name.rpartition(".")
        module = Experts(library, experts).eval().requires_grad_(False)
        setattr(model.get_submodule(owner), leaf, module)
    return slots


Merged = dict[str, tuple[WeightConverter, dict[str, list[str]]]]


def _stored_forms(
    model: PreTrainedModel, stored: Mapping[str, Entry]
) -> tuple[dict[str, Slot], Merged]:
    """Return what the library's loading makes of the stored names.

    Slots of parameters that are only renamed, and for each parameter that is put together its
    conversion and the stored names by the pattern that they match, in the order of the experts.
    """
    transforms = get_model_conversion_mapping(model)
    renamings = [one for one in transforms if isinstance(one, WeightRenaming)]
    converters = [one for one in transforms if isinstance(one, WeightConverter)]
    owners = {pattern: one for one in converters for pattern in one.source_patterns}
    wanted: dict[str, Any] = model.state_dict()
    slots: dict[str, Slot] = {}
    merged: Merged = {}
    for name in sorted(stored, key=dot_natural_key):
        target, pattern = rename_source_key(
            name, renamings, converters, model.base_model_prefix, wanted
        )
        if target not in wanted:
            continue
        if pattern is None:
            slots[target] = Slot(name)
        else:
            parts = merged.setdefault(target, (owners[pattern], {}))[1]
            parts.setdefault(pattern, []).append(name)
    return slots, merged


def _matrices(
    name: str, library: Any, slots: Mapping[str, Slot], merged: Merged, stored: Mapping[str, Entry]
) -> dict[str, list[Slot]]:
    """Return where one layer's experts have each of their matrices, by name, the last one last."""
    found: dict[str, list[Slot]] = {}
    for one in (UPS[library.has_gate], DOWN):
        target, shape = f"{name}.{one}", tuple(getattr(library, one).shape)
        parts: list[list[Slot]] = []
        if whole := slots.get(target):
            if stored[whole.stored].shape == shape:
                parts = [[Slot(whole.stored, k) for k in range(shape[0])]]
        elif target in merged and not library.has_bias:
            parts = _separate(library, *merged[target])
        each = [[slot.of(stored).shape for slot in expert] for expert in zip(*parts)]
        fits = {len(part) for part in parts} == {shape[0]} and all(
            {size[1:] for size in sizes} == {shape[2:]}
            and sum(size[0] for size in sizes) == shape[1]
            for sizes in each
        )
        if not fits or library.has_bias != (f"{target}_bias" in slots):
            raise UserError(
                f"expected the matrices of {target} {shape} in the checkpoint in one tensor, or "
                "one for each expert, found another form; convert quantised weights to bfloat16, "
                "otherwise this architecture is not supported"
            )
        found |= dict(zip(HALVES if len(parts) == 2 else [one], parts))
    return found


def _separate(
    library: Any, converter: WeightConverter, parts: Mapping[str, list[str]]
) -> list[list[Slot]]:
    """Return the places of matrices that are stored for each expert; [] for another form."""
    stacked, *joined = converter.operations
    plain = isinstance(stacked, MergeModulelist) and stacked.dim == 0
    if joined:  # two matrices of an expert, one on top of the other
        plain = plain and len(joined) == 1 and not library.is_transposed
        plain = plain and isinstance(joined[0], Concatenate) and joined[0].dim == 1
    if not plain or len(parts) != 1 + len(joined):
        return []
    return [
        [*map(Slot, parts[pattern])] for pattern in converter.source_patterns if pattern in parts
    ]


def experts_of(block: nn.Module) -> dict[str, Experts]:
    """Return the layers of experts in a block by their names within it."""
    return {name: one for name, one in block.named_modules() if isinstance(one, Experts)}


def routers_of(block: nn.Module) -> set[str]:
    """Return the names of the parameters in a block that decide which experts take a token.

    A router is the only matrix of a module beside the experts, and has a row for each of them, or
    for some more that are not in the list (Inkling's shared ones). A matrix of one row alone is the
    gate of a shared expert. (A shared expert itself has several matrices.)
    """
    found = set()
    for name, experts in experts_of(block).items():
        owner, _, leaf = name.rpartition(".")
        count = len(experts.members())
        for child, module in block.get_submodule(owner).named_children():
            flat = {one: p for one, p in module.named_parameters() if p.ndim == 2}
            matrices = {one: p for one, p in flat.items() if p.shape[0] > 1} or flat
            if child == leaf or len(matrices) != 1:
                continue
            ((one, matrix),) = matrices.items()
            if matrix.shape[0] == 1 or count <= matrix.shape[0] < 2 * count:
                found.add(".".join(filter(None, [owner, child, one])))
    return found
