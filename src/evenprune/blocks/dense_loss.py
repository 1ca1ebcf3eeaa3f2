"""The dense model's losses of a fixed text with and without BOS, a block at a time."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from ..io.errors import UserError
from ..models.bos import Losses, losses_of
from .base_model import BaseModel
from .block_recorder import Form, Tape, replaced
from .forward import record_calls, stream_of
from .packing import PackedPart


@torch.no_grad()
def bos_losses(base: BaseModel, form: Form, rows: Sequence[Sequence[int]]) -> Losses | None:
    """Return the losses of ``bos.fixed_rows``; None for a model whose own code gives no logits.

    ``form`` is that of the blocks' output. Nothing of the model is loaded before and after.
    """
    blocks = base.blocks
    tape = [Tape(form, len(blocks) - 1) for _ in rows]
    parts = [PackedPart(torch.tensor([row])) for row in rows]
    try:
        base.load_outside()
        streams = [
            stream_of(record_calls(base.model, blocks, part, base.device, one), [], form)
            for part, one in zip(parts, tape, strict=True)
        ]
        for index, block in enumerate(blocks):
            base.load_block(index)
            for stream in streams:
                stream.hidden = stream.run(block, index)
            base.unload_block(index)
        found = []
        for part, stream in zip(parts, streams, strict=True):
            with replaced(blocks, partial(_given, form.fill(stream.hidden))):
                logits = base.model(input_ids=part.ids.to(base.device), use_cache=False).logits
            targets = part.ids[0, 1:].to(logits.device)
            found.append(cross_entropy(logits[0, :-1].float(), targets, reduction="none").tolist())
    except (UserError, AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
        return None  # a hint is missing; what is wrong with the model is said where it is pruned
    finally:
        base.unload_outside()
    return losses_of(*found)


def _given(output: Any, *_: Any) -> Any:
    return output
