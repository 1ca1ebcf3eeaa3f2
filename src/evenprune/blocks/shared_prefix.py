"""Whether a model can be given pairs as one prefix with two suffixes: asked, then tried."""

import inspect
from collections.abc import Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from ..data.calibration import TokenPair
from ..io.errors import UserError
from ..models.token_trees import common_prefix
from .base_model import BaseModel
from .block_recorder import Form
from .forward import record_inputs
from .packing import ROW, pack_pairs

# Rounding between the two packings stays far below, an ignored mask lies far above.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


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
    for index in kinds_of_blocks(base.model, base.blocks):
        if index:
            base.load_block(index)
        try:
            deviation = tree_deviation(base.model, base.blocks, index, pair, base.device, form)
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


def kinds_of_blocks(model: PreTrainedModel, blocks: nn.ModuleList) -> list[int]:
    """Return the first block of each kind: equal modules, and equal in the config's layer_types."""
    types = getattr(model.config.get_text_config(), "layer_types", None) or ()
    if len(types) != len(blocks):
        types = [None] * len(blocks)
    first: dict[tuple, int] = {}
    for index, block in enumerate(blocks):
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
def tree_deviation(
    model: PreTrainedModel,
    blocks: nn.ModuleList,
    index: int,
    pair: TokenPair,
    device: str,
    form: Form,
) -> float:
    """Return how far shared-prefix packing changes block ``index``'s output for one pair.

    Its input are the embeddings. The largest absolute difference over the tokens of both sentences,
    relative to the largest output. Far above rounding, it means that the block ignores the 4-D mask
    or the positions. Expects the block loaded, and the base model outside the blocks.
    """
    shared, plain = (
        record_inputs(model, blocks, pack_pairs([pair], [0.0], choice), device, form).streams()
        for choice in (True, False)
    )
    packed = shared[0].run(blocks[index], index)[0]
    alone = [row for stream in plain for row in stream.run(blocks[index], index)]
    prefix, one = common_prefix(pair.ids0, pair.ids1), len(pair.ids0)
    difference = max(
        (packed[:one] - alone[0]).abs().max(),
        (packed[one:] - alone[1][prefix:]).abs().max() if packed[one:].numel() else 0.0,
    )
    return float(difference / alone[0].abs().max())
