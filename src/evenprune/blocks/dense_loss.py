"""The dense model's losses of a fixed text with and without BOS, a block at a time."""

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy

from ..io.errors import UserError
from ..models.bos import Losses, losses_of
from .base_model import BaseModel
from .block_recorder import Form, replaced
from .forward import stream_of
from .packing import PackedPart


@torch.no_grad()
def bos_losses(base: BaseModel, form: Form, rows: Sequence[Sequence[int]]) -> Losses | None:
    """Return the losses of ``bos.fixed_rows``; None for a model whose own code gives no logits.

    ``form`` is that of the blocks' output. Nothing of the model is loaded before and after.
    """
    blocks = base.blocks
    parts = [PackedPart(torch.tensor([row])) for row in rows]
    try:
        base.load_outside()
        streams = [stream_of(base.model, blocks, part, base.device, form) for part in parts]
        for index, block in enumerate(blocks):
            base.load_block(index)
            for stream in streams:
                stream.hidden = stream.run(block, index)
            base.unload_block(index)
        found = []
        for part, stream in zip(parts, streams, strict=True):
            output = form.fill(stream.hidden)
            with replaced(blocks, lambda *_, output=output: output):
                logits = base.model(input_ids=part.ids.to(base.device), use_cache=False).logits
            targets = part.ids[0, 1:].to(logits.device)
            found.append(cross_entropy(logits[0, :-1].float(), targets, reduction="none").tolist())
    except (UserError, AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
        return None  # a hint is missing; what is wrong with the model is said where it is pruned
    finally:
        base.unload_outside()
    return losses_of(*found)
