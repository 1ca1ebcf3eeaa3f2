"""Trying a model on a few tokens before its calibration text: can its blocks be run one by one?

Once a model: in what form its first block returns the hidden states, and that no argument of a
block depends on the blocks before it; whether it can be given pairs as one prefix with two
suffixes; what it loses with and without BOS. Once for every kind of block: that each linear layer
gets one row a token, in the order of the tokens, whatever else is in the batch, and that experts
give what the library's own code gives.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from ..data.calibration import TokenPair
from ..io.errors import Unsupported, UserError
from ..models.bos import Losses, losses_of
from ..models.experts import Experts, experts_of
from ..models.token_trees import common_prefix
from .base_model import BaseModel
from .block_recorder import Form, Tape, check_independent, form_of, replaced
from .forward import (
    Stream,
    hooked,
    record_calls,
    record_inputs,
    stream_of,
    token_modules,
    tokens_of,
)
from .packing import ROW, PackedPart, pack_pairs

TOKENS = 8  # of the two rows tried
ROUNDING = 0.05  # far above the rounding of bfloat16, far below another row's values
# Rounding between the two packings stays far below, an ignored mask lies far above.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass
class Probe:
    """Two rows of tokens in one batch, and each alone."""

    together: Stream
    alone: list[Stream]


@torch.no_grad()
def probe_blocks(base: BaseModel, ids: Tensor) -> Probe:
    """Run the first tokens of the calibration text ``ids`` up to and through the first block.

    Expects the base model outside its blocks and the first block loaded. Raises UserError for
    a model whose own code fails, or whose blocks cannot be run one at a time.
    """
    ids, name = ids[:TOKENS], type(base.model).__name__
    rows = torch.stack([ids, ids.roll(1)])
    try:
        whole = PackedPart(rows)
        first, ((args, kwargs),) = record_calls(base, whole, Tape(Form(), 0))
        if first.shape[:2] != rows.shape:
            raise Unsupported(
                f"{name}: expected hidden states (rows, tokens, width) in front of the first "
                f"decoder block, got {tuple(first.shape)} for {len(rows)} rows of {len(ids)} tokens"
            )
        form = form_of(base.blocks[0](first, *args, **kwargs), first)
        together = stream_of(base, whole, form)
        altered = Tape(form, len(base.blocks) - 1, lambda hidden: hidden.flip(-1) * 2 + 1)
        check_independent(together.calls, record_calls(base, whole, altered)[1])
        alone = [stream_of(base, PackedPart(row.unsqueeze(0)), form) for row in rows]
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # of the model's own code, which may raise anything
        lines = str(error).strip().splitlines() or [""]
        raise Unsupported(
            f"{name}: running {len(ids)} tokens up to and through the first decoder block fails "
            f"with {type(error).__name__}: {lines[0]}; its config.json is wrong"
        ) from error
    return Probe(together, alone)


@torch.no_grad()
def check_rows(block: nn.Module, index: int, probe: Probe) -> None:
    """Raise UserError unless each linear gets one row a token, in the order of the tokens.

    Tried with the embeddings as the block's input. A layer that is called for some tokens only,
    twice, with tokens in another order or with rows that depend on each other would be pruned
    with wrong statistics, and so would one whose input is overwritten before the end. Of experts
    the layer as a whole is looked at, and compared with the library's own loop over them.
    """
    check_experts(block, index, probe)
    together = _linear_inputs(block, index, probe.together)
    alone = [_linear_inputs(block, index, stream) for stream in probe.alone]
    tokens = probe.together.hidden.shape[0] * probe.together.hidden.shape[1]
    for name, inputs in together.items():
        if len(inputs) != tokens:
            fault = f"gets {len(inputs)} rows for {tokens} tokens"
        else:
            single = torch.cat([rows[name] for rows in alone])
            if single.shape == inputs.shape and _deviation(single, inputs) <= ROUNDING:
                continue
            fault = "gets other values for a text when another one is in the batch"
        raise Unsupported(f"the linear layer {name} of decoder block {index} {fault}")


@torch.no_grad()
def check_experts(block: nn.Module, index: int, probe: Probe) -> None:
    """Raise UserError unless a block's experts, taken apart, give the library's output."""

    def compare(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
            assert isinstance(module, Experts)
            hidden, *routing = module.routing(*args, **kwargs)
            expected = module.by_library(hidden.reshape(-1, hidden.shape[-1]), *routing)
            deviation = _deviation(output.reshape(expected.shape), expected)
            if deviation > ROUNDING:
                raise Unsupported(
                    f"the experts {name} of decoder block {index}, one by one, give another output "
                    f"than the library's code (relative deviation {deviation:.1e})"
                )

        return hook

    if experts := experts_of(block):
        with hooked(experts, compare, after=True):
            probe.together.run(block, index)


def _deviation(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest value that is expected."""
    largest = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
    return float((found - expected).abs().max() / largest)


def _linear_inputs(block: nn.Module, index: int, stream: Stream) -> dict[str, Tensor]:
    """Return the input rows (t, d) of each linear in one run of a block."""
    inputs: dict[str, list[Tensor]] = {}
    seen: list[tuple[str, Tensor, int]] = []

    def note(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            given = tokens_of(module, args, kwargs)
            for other, tensor, version in seen:
                if tensor._version != version:
                    raise Unsupported(
                        f"the input of the linear layer {other} of decoder block {index} is "
                        "overwritten in place"
                    )
            seen.append((name, given, given._version))
            rows = given.reshape(-1, given.shape[-1]).clone()
            inputs.setdefault(name, []).append(rows)

        return hook

    with hooked(token_modules(block), note):
        stream.run(block, index)
    return {name: torch.cat(rows) for name, rows in inputs.items()}


def shared_prefix_objection(base: BaseModel, pairs: Sequence[TokenPair], form: Form) -> str | None:
    """Return why this model cannot take shared-prefix batches, or None after trying one.

    Tried with one block of each kind: where some attend to all tokens and others carry a state from
    token to token, only the latter ignore the mask. Expects the first block loaded, and the base
    model outside its blocks; the blocks are unloaded.
    """
    packed = {
        pair.id: len(pair.ids0) + len(pair.ids1) - common_prefix(pair.ids0, pair.ids1)
        for pair in pairs
    }
    objection = tree_objection(base.model, max(ROW, *packed.values()))
    if objection:
        return objection
    # One pair with a prefix and two suffixes, of which the model must show no trace.
    pair = max(pairs, key=lambda pair: packed[pair.id] - max(len(pair.ids0), len(pair.ids1)))
    name = type(base.model).__name__
    for index in _kinds_of_blocks(base):
        if index:
            base.load_block(index)
        try:
            deviation = _tree_deviation(base, index, pair, form)
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # the model's code, which has run on plain sentences before
            return f"{name} fails on it in decoder block {index} ({type(error).__name__})"
        finally:
            base.unload_block(index)
        if deviation > TOLERANCE[base.compute_dtype]:
            return (
                f"decoder block {index} of {name} does not keep two suffixes of one prefix apart "
                f"(relative deviation {deviation:.1e})"
            )
    return None


def _kinds_of_blocks(base: BaseModel) -> list[int]:
    """Return the first block of each kind: equal modules, and equal in the config's layer_types."""
    types = getattr(base.model.config.get_text_config(), "layer_types", None) or ()
    if len(types) != len(base.blocks):
        types = [None] * len(base.blocks)
    first: dict[tuple, int] = {}
    for index, block in enumerate(base.blocks):
        modules = tuple((name, type(module)) for name, module in block.named_modules())
        first.setdefault((modules, types[index]), index)
    return sorted(first.values())


def tree_objection(model: PreTrainedModel, longest: int) -> str | None:
    """Return why a model cannot be given shared-prefix batches, or None.

    Needs explicit positions and masks, and no sliding window shorter than the ``longest``
    row: a 4-D mask replaces the window's own.
    """
    taken = inspect.signature(model.base_model.forward).parameters
    for name in ("attention_mask", "position_ids"):
        if name not in taken:
            return f"{type(model).__name__} takes no {name}"
    window = getattr(model.config.get_text_config(), "sliding_window", None)
    if window and longest > window:  # 0 where a config switches it off
        return f"its sliding window of {window} tokens is shorter than a row of {longest}"
    return None


@torch.no_grad()
def _tree_deviation(base: BaseModel, index: int, pair: TokenPair, form: Form) -> float:
    """Return how far shared-prefix packing changes block ``index``'s output for one pair.

    Its input are the embeddings. The largest absolute difference over the tokens of both sentences,
    relative to the largest output. Far above rounding, it means that the block ignores the 4-D mask
    or the positions. Expects the block loaded, and the base model outside the blocks.
    """
    packed, *alone = (
        row
        for shared in (True, False)
        for streams, _ in record_inputs(base, pack_pairs([pair], [0.0], shared), form)
        for stream in streams
        for row in stream.run(base.blocks[index], index)
    )
    one, rest = len(pair.ids0), alone[1][common_prefix(pair.ids0, pair.ids1) :]
    difference = max(
        (packed[:one] - alone[0]).abs().max(),
        (packed[one : one + len(rest)] - rest).abs().max() if len(rest) else 0.0,
    )
    return float(difference / alone[0].abs().max())


@torch.no_grad()
def bos_losses(base: BaseModel, form: Form, rows: Sequence[Sequence[int]]) -> Losses | None:
    """Return the losses of ``bos.fixed_rows``; None for a model whose own code gives no logits.

    Nothing of the model is loaded before and after.
    """
    parts = [PackedPart(torch.tensor([row])) for row in rows]
    try:
        base.load_outside()
        streams = [stream_of(base, part, form) for part in parts]
        for index, block in enumerate(base.blocks):
            base.load_block(index)
            for stream in streams:
                stream.hidden = stream.run(block, index)
            base.unload_block(index)
        found = []
        for part, stream in zip(parts, streams, strict=True):
            output = form.fill(stream.hidden)
            with replaced(base.blocks, lambda *_, output=output, **__: output):
                logits = base.model(input_ids=part.ids.to(base.device), use_cache=False).logits
            targets = part.ids[0, 1:].to(logits.device)
            found.append(cross_entropy(logits[0, :-1].float(), targets, reduction="none").tolist())
    except (UserError, AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
        return None  # a hint is missing; what is wrong with the model is said where it is pruned
    finally:
        base.unload_outside()
    return losses_of(*found)
