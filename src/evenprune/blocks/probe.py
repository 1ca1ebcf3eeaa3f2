"""Trying a model on a few tokens before its calibration text: can its blocks be run one by one?

Once a model: in what form its first block returns the hidden states, and that no argument of a
block depends on the blocks before it. Once for every kind of block: that each linear layer gets
one row a token, in the order of the tokens, whatever else is in the batch, and that experts give
what the library's own code gives.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..io.errors import Unsupported, UserError
from ..models.experts import Experts, experts_of
from .block_recorder import Form, Tape, check_independent, form_of
from .forward import Stream, hooked, record_calls, stream_of, token_modules, tokens_of
from .packing import PackedPart

TOKENS = 8  # of the two rows tried
TOLERANCE = 0.05  # far above the rounding of bfloat16, far below another row's values


@dataclass
class Probe:
    """Two rows of tokens in one batch, and each alone."""

    together: Stream
    alone: list[Stream]


@torch.no_grad()
def probe_blocks(model: PreTrainedModel, blocks: nn.ModuleList, ids: Tensor, device: str) -> Probe:
    """Run the first tokens of the calibration text ``ids`` up to and through the first block.

    Expects the base model outside its blocks and the first block loaded. Raises UserError for
    a model whose own code fails, or whose blocks cannot be run one at a time.
    """
    ids = ids[:TOKENS]
    rows = torch.stack([ids, ids.roll(1)])
    try:
        whole = PackedPart(rows)
        first, ((args, kwargs),) = record_calls(model, blocks, whole, device, Tape(Form(), 0))
        if first.shape[:2] != rows.shape:
            raise Unsupported(
                f"{type(model).__name__}: expected hidden states (rows, tokens, width) in front of "
                f"the first decoder block, got {tuple(first.shape)} for {len(rows)} rows of "
                f"{len(ids)} tokens"
            )
        form = form_of(blocks[0](first, *args, **kwargs), first)
        together = stream_of(model, blocks, whole, device, form)
        altered = Tape(form, len(blocks) - 1, lambda hidden: hidden.flip(-1) * 2 + 1)
        check_independent(together.calls, record_calls(model, blocks, whole, device, altered)[1])
        alone = [
            stream_of(model, blocks, PackedPart(row.unsqueeze(0)), device, form) for row in rows
        ]
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # of the model's own code, which may raise anything
        lines = str(error).strip().splitlines() or [""]
        raise Unsupported(
            f"{type(model).__name__}: running {len(ids)} tokens up to and through the first "
            f"decoder block fails with {type(error).__name__}: {lines[0]}; its config.json is "
            "wrong"
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
            largest = inputs.abs().max().clamp(min=torch.finfo(inputs.dtype).tiny)
            if (
                single.shape == inputs.shape
                and (single - inputs).abs().max() <= TOLERANCE * largest
            ):
                continue
            fault = "gets other values for a text when another one is in the batch"
        raise Unsupported(f"the linear layer {name} of decoder block {index} {fault}")


@torch.no_grad()
def check_experts(block: nn.Module, index: int, probe: Probe) -> None:
    """Raise UserError unless a block's experts, taken apart, give the library's output."""
    found: dict[str, float] = {}

    def compare(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
            assert isinstance(module, Experts)
            hidden, *routing = module.routing(*args, **kwargs)
            expected = module.by_library(hidden.reshape(-1, hidden.shape[-1]), *routing)
            far = (output.reshape(expected.shape) - expected).abs().max()
            largest = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
            found[name] = float(far / largest)

        return hook

    experts = experts_of(block)
    if experts:
        with hooked(experts, compare, after=True):
            probe.together.run(block, index)
    for name, deviation in found.items():
        if deviation > TOLERANCE:
            raise Unsupported(
                f"the experts {name} of decoder block {index}, one by one, give another output "
                f"than the library's code (relative deviation {deviation:.1e})"
            )


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
