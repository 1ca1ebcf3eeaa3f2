"""Gradients of a loss of sentence pairs for all linears, one block in memory at a time.

The forward pass keeps the input of each block on disk. From the last block back, one block is
loaded, run again with gradients, and left: what goes on is the gradient of its input.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..data.calibration import TokenPair
from ..models.architecture import find_linears, rows_of
from ..models.loading import release_memory
from ..models.tensors import read_tensor, write_tensors
from ..models.weights import read_header
from .base_model import BaseModel
from .forward import Batches, Stream, advance, record_inputs
from .head import Head
from .packing import batch_tokens, pack_texts
from .probe import probe_blocks
from .standin import Form


@dataclass(frozen=True)
class Rows:
    """Which sentence stands in each row of a stream: (number of the pair, side); [] for texts.

    A text that is scored counts as a pair behind the others, with one side. ids: (r, l) int64.
    """

    ids: Tensor
    sentences: list[tuple[int, int]]


@dataclass
class Pass:
    """A forward pass: the log-probabilities (pairs, 2) float64 of the sentences, those of the
    scored texts (k,), and the streams after the last block."""

    scores: Tensor
    texts: Tensor
    calibration: Batches


class Sentences:
    """The pairs and texts of one run as streams through the blocks of a base model.

    ``scored``: whether the log-probabilities of the texts are wanted too.
    """

    def __init__(
        self,
        base: BaseModel,
        pairs: Sequence[TokenPair],
        texts: Sequence[tuple[str, Sequence[int]]],
        scored: bool = False,
    ) -> None:
        self.base = base
        self.pairs = pairs
        names: dict[str, tuple[int, int]] = {}
        sentences = []
        for number, pair in enumerate(pairs):
            for side, ids in enumerate((pair.ids0, pair.ids1)):
                name = f"{pair.id} ({'anti-' if side else ''}stereotype)"
                names[name] = (number, side)
                sentences.append((name, ids))
        tokens = batch_tokens(base.device)
        batches = pack_texts(sentences, tokens)
        chosen = texts if scored else ()
        names |= {name: (len(pairs) + k, 0) for k, (name, _) in enumerate(chosen)}
        self.batches = batches + pack_texts(texts, tokens)
        self.rows = [
            Rows(
                part.ids.to(base.device),
                [names[item] for item in items[:: part.ids.shape[1]]]
                if scored or number < len(batches)
                else [],
            )
            for number, batch in enumerate(self.batches)
            for part, items in zip(batch.parts, batch.items, strict=True)
        ]
        used = [ids for _, ids in sentences] + [ids for _, ids in texts]
        self.used = torch.tensor([token for ids in used for token in ids])
        self.text_lengths = torch.tensor([len(ids) for _, ids in chosen], dtype=torch.int64)

    def forward(self, folder: Path, report: Callable[[], None]) -> Pass:
        """Run all blocks, keep their inputs in ``folder``, score the sentences.

        ``report`` is called after each block.
        """
        base = self.base
        base.load_outside(self.used)
        base.load_block(0)
        form = probe_blocks(base.model, base.blocks, self.used, base.device).form
        base.unload_block(0)
        calibration = record_inputs(base.model, base.blocks, self.batches, base.device, form)
        base.unload_outside()
        streams = calibration.streams()
        for index in range(len(base.blocks)):
            release_memory()
            base.load_block(index)
            kept = {f"{k:06d}": stream.hidden.cpu() for k, stream in enumerate(streams)}
            write_tensors(folder / f"inputs-{index:05d}.safetensors", kept)
            advance(base.blocks[index], index, base.block_name(index), calibration)
            base.unload_block(index)
            report()
        count = len(self.pairs)
        scores = torch.zeros(count + len(self.text_lengths), 2, dtype=torch.float64)
        head = self._head(form)
        for stream, rows in zip(streams, self.rows, strict=True):
            if rows.sentences:
                values = head.scores(stream.hidden, rows.ids)
                for (number, side), value in zip(rows.sentences, values, strict=True):
                    scores[number, side] = value
        base.unload_outside()
        return Pass(scores[:count], scores[count:, 0], calibration)

    def _head(self, form: Form) -> Head:
        self.base.load_head(self.used)
        return Head(self.base.model, self.base.blocks, form)

    def output_gradients(
        self, done: Pass, weights: Tensor, text_weights: Tensor
    ) -> list[Tensor | None]:
        """Return for each stream the gradient of ``Σ weights · scores`` at the last block's output.

        weights: (pairs, 2) float64; text_weights: (k,) float64, of the scored texts. None for
        streams that the sum does not depend on.
        """
        streams = done.calibration.streams()
        head = self._head(streams[0].form)
        gradients: list[Tensor | None] = []
        of_texts = torch.stack([text_weights, torch.zeros_like(text_weights)], dim=1)
        weights = torch.cat([weights, of_texts])
        for stream, rows in zip(streams, self.rows, strict=True):
            gradient = None
            if rows.sentences:
                chosen = torch.stack([weights[number, side] for number, side in rows.sentences])
                if chosen.any():
                    gradient = head.gradient(stream.hidden, rows.ids, chosen)
            gradients.append(gradient)
        self.base.unload_outside()
        return gradients

    def restore(self, folder: Path, index: int, calibration: Batches) -> None:
        """Give the streams the inputs of block ``index`` that ``forward`` has kept."""
        entries = read_header(folder / f"inputs-{index:05d}.safetensors")
        for k, stream in enumerate(calibration.streams()):
            stream.hidden = read_tensor(entries[f"{k:06d}"]).to(self.base.device)


def block_gradients(
    base: BaseModel, index: int, streams: Sequence[Stream], gradients: list[Tensor | None]
) -> dict[str, Tensor]:
    """Return ``∂L/∂W`` (n, d) float32 of each linear of a loaded block, on the CPU.

    gradients: of L at the block's output, one a stream; replaced by those at its input.
    """
    block = base.blocks[index]
    linears = find_linears(block)
    for linear in linears.values():
        linear.weight.requires_grad_(True)
    for number, (stream, gradient) in enumerate(zip(streams, gradients, strict=True)):
        if gradient is None:
            continue
        before = stream.hidden
        stream.hidden = before.detach().requires_grad_(True)
        with torch.enable_grad():
            output = stream.run(block, index)
        torch.autograd.backward(output, gradient.to(output.dtype))
        gradients[number] = stream.hidden.grad
        stream.hidden = before
        del output
        release_memory()  # what one stream has left in the heap would add to the next one's peak
    results = {}
    for name, linear in linears.items():
        found = linear.weight.grad
        if found is None:
            found = torch.zeros_like(linear.weight)
        results[name] = rows_of(linear, found.detach().float()).contiguous().cpu()
        linear.weight.grad = None
        linear.weight.requires_grad_(False)
    return results


def bias_loss(scores: Tensor, chosen: Tensor) -> tuple[float, Tensor]:
    """Return the mean of ``(log p(x0) - log p(x1))²`` of the ``chosen`` pairs and its derivative.

    scores: (pairs, 2) float64, log-probabilities of the sentences, as is the derivative; chosen:
    (pairs,) bool.
    """
    gaps = scores[:, 0] - scores[:, 1]
    number = int(chosen.sum())
    slope = torch.where(chosen, 2.0 / max(number, 1) * gaps, 0.0)
    value = float((gaps[chosen] ** 2).mean()) if number else math.nan
    return value, torch.stack([slope, -slope], dim=1)


def text_loss(scores: Tensor, counts: Tensor) -> tuple[float, Tensor]:
    """Return the mean negative log-probability of a token, and its derivative for all scores.

    scores: log-probabilities of texts, float64 of any shape; counts: their scored tokens.
    """
    total = counts.sum()
    return float(-scores.sum() / total), torch.full_like(scores, -1.0 / float(total))
