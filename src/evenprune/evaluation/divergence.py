"""How far a model's next-token distributions on text are from its base's, token by token.

As llama.cpp's `llama-perplexity --kl-divergence` defines it: windows of 512 tokens, BOS first where
the tokenizer puts one, of which the second half is scored; a document shorter than a window is
scored whole. The base's last hidden states and its output embeddings are kept in files, not its
logits: of 49,152 tokens these are a hundred times as large. Logits are products in float32, of some
positions at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data.readers.texts import read_tinystories, read_wikitext
from ..io.errors import UserError
from ..io.progress import Progress
from ..language_models.language_model import LanguageModel
from ..models.bos import puts_bos, tokens_of
from ..models.tensors import tensor_bytes
from ..stats.finite import require_finite
from ..tasks.harness import wikitext_pages
from ..tasks.perplexity import is_documents
from ..tasks.sampling import stratified_sample

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WINDOW = 512
PIECE = 1 << 22  # elements of a piece of the output embeddings, or of logits


@dataclass(frozen=True)
class Window:
    """Tokens of a document, of which those from ``first`` on are scored."""

    document: str
    tokens: tuple[int, ...]
    first: int

    @property
    def targets(self) -> tuple[int, ...]:
        """The tokens that are scored."""
        return self.tokens[self.first :]


def read_windows(
    tokenizer: "PreTrainedTokenizerBase", data: Path, longest: int, limit: int | None, seed: int
) -> list[Window]:
    """Return the windows of a text's documents, ``limit`` of them drawn from all documents.

    data: a folder of WikiText-2, whose documents are its articles, or of documents. ``longest``
    is the context of the shortest model. Raises UserError for a text too short to score.
    """
    if is_documents(data):
        texts = {one.id: one.text for one in sorted(read_tinystories(data), key=lambda s: s.id)}
    else:
        texts = {f"page-{k}": page for k, page in enumerate(wikitext_pages(read_wikitext(data)))}
    start = (tokenizer.bos_token_id,) if puts_bos(tokenizer) else ()
    size = min(WINDOW, longest) - len(start)
    encoded = tokens_of(tokenizer, list(texts.values()), special=False)
    windows = []
    for name, ids in zip(texts, encoded, strict=True):
        if len(start) + len(ids) < 2:
            continue
        parts = [ids[k : k + size] for k in range(0, max(1, len(ids) - size + 1), size)]
        for part in parts:
            tokens = (*start, *part)
            half = len(tokens) // 2 + 1
            windows.append(Window(str(name), tokens, half if len(part) == size else 1))
    if not windows:
        raise UserError(f"expected documents of at least two tokens in {data}, found none")
    chosen = stratified_sample([one.document for one in windows], limit, seed)
    return [windows[k] for k in chosen]


def _mapped(path: Path, width: int, dtype: torch.dtype) -> Tensor:
    """Return the rows of a file, each of ``width`` numbers."""
    size = path.stat().st_size // dtype.itemsize
    return torch.from_file(str(path), shared=False, size=size, dtype=dtype).view(-1, width)


def _logits(
    states: Tensor, weight: Tensor, bias: Tensor | None, transform: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return logits (n, vocabulary), float32, of states; embeddings are upcast piece by piece."""
    states, found = states.float(), []
    for rows in torch.arange(len(weight)).split(max(1, PIECE // weight.shape[1])):
        piece = slice(int(rows[0]), int(rows[-1]) + 1)
        part = None if bias is None else bias[piece].to(states.device).float()
        found.append(nn.functional.linear(states, weight[piece].to(states.device).float(), part))
    return transform(torch.cat(found, 1))


@dataclass(frozen=True)
class Kept:
    """A base model's hidden states (positions, hidden) and output embeddings, in files."""

    states: Path
    head: Path
    width: int
    dtype: torch.dtype
    bias: Tensor | None
    transform: Callable[[Tensor], Tensor]


@torch.inference_mode()
def scored_states(lm: LanguageModel, windows: Sequence[Window], what: str) -> Iterator[Tensor]:
    """Yield the last hidden states that the scored tokens of each window are predicted from."""
    progress = Progress(len(windows), what)
    for window in windows:
        hidden = lm.hidden(torch.tensor([window.tokens]))[0]
        yield hidden[window.first - 1 : -1]
        progress.update()


@torch.inference_mode()
def keep(lm: LanguageModel, windows: Sequence[Window], folder: Path) -> Kept:
    """Write a base model's hidden states of all windows, and its output embeddings, to a folder."""
    weight, bias = lm.head.weight.detach(), getattr(lm.head, "bias", None)
    states, head = folder / "states", folder / "head"
    with open(head, "wb") as file:
        for rows in weight.split(max(1, PIECE // weight.shape[1])):
            file.write(tensor_bytes(rows.cpu().contiguous()))
    with open(states, "wb") as file:
        for found in scored_states(lm, windows, "fidelity: the base's hidden states"):
            file.write(tensor_bytes(found.to(weight.dtype).cpu().contiguous()))
    bias = None if bias is None else bias.detach().cpu().clone()
    return Kept(states, head, weight.shape[1], weight.dtype, bias, lm.transform)


@dataclass(frozen=True)
class Divergences:
    """Of every scored token, (n,): KL(base ‖ model) in nats, whether both have the same likeliest
    token, -ln p of the token in the base and in the model; and the document it stands in."""

    kl: NDArray[np.float64]
    same_top: NDArray[np.bool_]
    base_nll: NDArray[np.float64]
    nll: NDArray[np.float64]
    documents: tuple[str, ...]


@torch.inference_mode()
def diverge(lm: LanguageModel, windows: Sequence[Window], kept: Kept) -> Divergences:
    """Return a model's divergences from the base whose states are ``kept``, of the same windows.

    Raises UserError where the vocabularies differ in size, and for scores that are no numbers.
    """
    weight, bias = lm.head.weight.detach(), getattr(lm.head, "bias", None)
    all_before, head = (_mapped(one, kept.width, kept.dtype) for one in (kept.states, kept.head))
    if len(weight) != len(head):
        raise UserError(
            f"expected the same vocabulary for KL divergence, got {len(head):,} output "
            f"embeddings in the base and {len(weight):,} in the model; leave --fidelity out"
        )
    head = head.to(weight.device)
    few = max(1, PIECE // len(weight))  # positions whose logits are computed together
    parts: list[tuple[Tensor, ...]] = []
    start = 0
    for window, states in zip(windows, scored_states(lm, windows, "fidelity"), strict=True):
        before = all_before[start : start + len(states)].to(states.device)
        start += len(states)
        targets = torch.tensor(window.targets, device=states.device)[:, None]
        for own, base, target in zip(states.split(few), before.split(few), targets.split(few)):
            theirs = _logits(base, head, kept.bias, kept.transform)
            ours = _logits(own, weight, bias, lm.transform)
            same = (theirs.max(-1).indices == ours.max(-1).indices).double()
            theirs, ours = (one.double().log_softmax(-1) for one in (theirs, ours))
            losses = [-one.gather(1, target)[:, 0] for one in (theirs, ours)]
            kl = (theirs.exp() * (theirs - ours)).sum(-1).clamp_(min=0)
            found = (kl, same, *losses)
            require_finite("fidelity", [(window.document, one.tolist()) for one in found])
            parts.append(found)
    kl_of, tops, base_nll, nll = (torch.cat(one).cpu().numpy() for one in zip(*parts, strict=True))
    names = tuple(window.document for window in windows for _ in window.targets)
    return Divergences(kl_of, tops.astype(bool), base_nll, nll, names)
