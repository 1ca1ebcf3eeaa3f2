"""Running calibration batches through one decoder block after the other.

The model's own code does everything: its embeddings, masks and position embeddings are taken
once per batch by running the model with its blocks replaced by recorders, and each block is
later called with exactly the arguments that the model gave to it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..io.errors import Unsupported, UserError, few
from ..models.architecture import find_linears
from ..models.experts import Experts, experts_of
from ..models.loading import all_finite, total_of
from .base_model import BaseModel
from .block_recorder import Call, Form, Stop, Tape, replaced
from .packing import ROW, Batch, PackedPart, Plan

MASK = "attention_mask"


@dataclass
class Stream:
    """The activations of one part of a batch on their way through the blocks.

    hidden: (r, l, h), the input of the next block. calls: for each block the further
    arguments that the model passes to it. items: the calibration item of each of the r·l tokens.
    form: in what form the blocks return their output.
    """

    hidden: Tensor
    calls: list[Call]
    items: Sequence[str]
    form: Form

    def run(self, block: nn.Module, index: int) -> Tensor:
        """Return block ``index``'s output (r, l, h)."""
        args, kwargs = self.calls[index]
        if isinstance(kwargs.get(MASK), partial):
            kwargs = kwargs | {MASK: kwargs[MASK]()}
        return self.form.hidden(block(self.hidden, *args, **kwargs))


# Batches on the device: for each the streams of its parts and the plan of its sums.
Batches = list[tuple[list[Stream], Plan]]


@dataclass
class Routed:
    """The tokens of one batch in front of a layer's experts.

    hidden: (t, h), in the order of ``plan``; index: (t, k) int64, the experts of each token.
    """

    hidden: Tensor
    index: Tensor
    plan: Plan


@torch.no_grad()
def record_inputs(base: BaseModel, batches: Sequence[Batch], form: Form) -> Batches:
    """Return the input of the first block and the arguments of all blocks for each batch.

    Expects everything of the base model outside the blocks loaded. ``form`` is that of the
    blocks' output, as ``probe.probe_blocks`` finds it. Raises UserError naming the calibration
    item when an embedding is not finite.
    """
    recorded = []
    for batch in batches:
        streams = []
        for part, items in zip(batch.parts, batch.items, strict=True):
            streams.append(stream_of(base, part, form, items))
            check_finite(streams[-1].hidden, items, "the embeddings")
        recorded.append((streams, batch.plan.to(base.device)))
    return recorded


def stream_of(base: BaseModel, part: PackedPart, form: Form, items: Sequence[str] = ()) -> Stream:
    """Return the stream in front of the first block, from one forward pass of the model."""
    first, calls = record_calls(base, part, Tape(form, len(base.blocks) - 1))
    return Stream(first, calls, items, form)


@torch.no_grad()
def record_calls(base: BaseModel, part: PackedPart, tape: Tape) -> tuple[Tensor, list[Call]]:
    """Return the hidden states in front of the first block, and the calls up to ``tape.last``."""
    model, device = base.model, base.device
    arguments: dict[str, Any] = {"input_ids": part.ids.to(device), "use_cache": False}
    if part.positions is not None:
        embeddings: Any = model.get_input_embeddings()
        make = partial(_mask, part, embeddings.weight.dtype, device)
        arguments |= {MASK: make(), "position_ids": part.positions.to(device)}
    with replaced(base.blocks, tape.take), contextlib.suppress(Stop):
        model.base_model(**arguments)
        raise Unsupported(f"{type(model).__name__} did not call its last decoder block")
    assert tape.first is not None
    # The masks of long rows would take more memory than their activations.
    for _, kwargs in tape.calls if part.ids.shape[1] > ROW else ():
        if part.positions is not None and kwargs.get(MASK) is arguments[MASK]:
            kwargs[MASK] = make
    return tape.first, tape.calls


def _mask(part: PackedPart, dtype: torch.dtype, device: str) -> Tensor:
    """Return what is added to the scores of attention, (r, 1, l, l)."""
    visible: Any = part.visible
    mask = torch.zeros(visible.shape, dtype=dtype)
    mask.masked_fill_(~visible, torch.finfo(dtype).min)
    return mask.unsqueeze(1).to(device)


def check_finite(values: Tensor, items: Sequence[str], where: str) -> None:
    """Raise UserError naming the calibration items whose tokens of (…, d) are not finite."""
    if all_finite(values):
        return
    bad = ~torch.isfinite(values).flatten(0, -2).all(dim=1)
    if bad.any():
        names = dict.fromkeys(items[token] for token in bad.nonzero().flatten().tolist())
        raise UserError(
            f"NaN or infinity in {where} for calibration item {few(names, 1)}; "
            "check the model's weights, or load it in a dtype of wider range"
        )


def token_modules(block: nn.Module) -> dict[str, nn.Module]:
    """Return what takes every token, by names in the block: linears, and experts as a layer."""
    layers = experts_of(block)
    inside = tuple(f"{name}." for name in layers)
    outside = {
        name: module for name, module in find_linears(block).items() if not name.startswith(inside)
    }
    return {**outside, **layers}


def tokens_of(module: nn.Module, args: tuple, kwargs: dict) -> Tensor:
    """Return the tokens (…, d) of a call of a linear or a layer of experts."""
    return module.routing(*args, **kwargs)[0] if isinstance(module, Experts) else args[0]


@contextlib.contextmanager
def hooked(
    modules: Mapping[str, nn.Module], make: Callable[[str], Callable], after: bool = False
) -> Iterator[None]:
    """Have ``make(name)`` called before (or after) each call of the modules."""
    with contextlib.ExitStack() as handles:
        for name, module in modules.items():
            register = module.register_forward_hook if after else module.register_forward_pre_hook
            handles.callback(register(make(name), with_kwargs=True).remove)
        yield


@torch.no_grad()
def input_groups(block: nn.Module, stream: Stream, index: int) -> list[list[str]]:
    """Return the block's linears in the order of their calls, those with one input together.

    Found by running the block: layers that get the very same tensor object share their input
    (q, k and v; gate and up; all of them in a parallel block). A layer of experts is a group of
    its own, under its name in the place of its linears'. Raises UserError for a linear that is not
    called.
    """
    linears = token_modules(block)
    seen: list[tuple[Tensor, list[str]]] = []

    def note(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            given = tokens_of(module, args, kwargs)
            for tensor, names in seen:
                if tensor is given and name not in layers and names[0] not in layers:
                    names.append(name)
                    return
            seen.append((given, [name]))  # keeps the tensor alive, so identity is unique

        return hook

    layers = experts_of(block)
    with hooked(linears, note):
        stream.run(block, index)
    missing = set(linears) - {name for _, names in seen for name in names}
    if missing:
        raise Unsupported(
            f"the linear layers {', '.join(sorted(missing))} of decoder block {index} are not "
            "called for ordinary text, so that no sums of their inputs can be taken: its code uses "
            "their weights by itself, or needs an encoder"
        )
    return [names for _, names in seen]


@torch.no_grad()
def collect(
    block: nn.Module,
    index: int,
    calibration: Batches,
    leaders: Sequence[str],
    receive: Callable[[str, Tensor, Plan, list[Stream]], None],
) -> dict[str, list[Routed]]:
    """Run all batches through a block and hand over the inputs of some of its linears.

    ``leaders`` are names of linears, or of layers of experts. For each batch and linear
    ``receive(leader, inputs (t, d), plan, streams)`` is called; what comes to a layer of experts is
    returned, a batch after the other. A pass ends when all leaders were called: what the block
    would compute behind them is not needed.
    """
    layers = experts_of(block)
    routed: dict[str, list[Routed]] = {name: [] for name in leaders if name in layers}
    numbers: dict[str, list[Tensor]] = {}
    captured: dict[str, list[Tensor]] = {}
    missing: set[str] = set()

    def capture(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            tokens = tokens_of(module, args, kwargs)
            captured[name].append(tokens.reshape(-1, tokens.shape[-1]))
            if isinstance(module, Experts):
                numbers[name].append(module.routing(*args, **kwargs)[1])
            missing.discard(name)
            if not missing:
                raise Stop

        return hook

    with hooked({name: block.get_submodule(name) for name in leaders}, capture):
        for streams, plan in calibration:
            captured, numbers = {name: [] for name in leaders}, {name: [] for name in routed}
            for stream in streams:
                missing.update(leaders)
                with contextlib.suppress(Stop):
                    stream.run(block, index)
            for name in leaders:
                parts = captured.pop(name)
                inputs = parts[0] if len(parts) == 1 else torch.cat(parts)
                if len(inputs) != len(plan.weights):
                    raise Unsupported(
                        f"the linear layer {name} of decoder block {index} got {len(inputs)} rows "
                        f"for {len(plan.weights)} tokens"
                    )
                if name in routed:
                    routed[name].append(Routed(inputs, torch.cat(numbers.pop(name)), plan))
                else:
                    receive(name, inputs, plan, streams)
    return routed


@torch.no_grad()
def advance(block: nn.Module, index: int, name: str, calibration: Batches) -> None:
    """Replace every stream's activations by the block's output, checked to be finite."""
    streams, totals = [stream for parts, _ in calibration for stream in parts], []
    for stream in streams:
        stream.hidden = stream.run(block, index)
        totals.append(total_of(stream.hidden))
    # One look for all: each makes a GPU run dry.
    if totals and not torch.isfinite(torch.stack(totals)).all():
        for stream in streams:
            check_finite(stream.hidden, stream.items, f"the output of {name}")
