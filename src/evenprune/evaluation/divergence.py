"""How far a model's next-token distributions on text are from its base's, token by token.

As llama.cpp's `llama-perplexity --kl-divergence` defines it: windows of 512 tokens, BOS first where
the tokenizer puts one, of which the second half is scored; a document shorter than a window is
scored whole. The base's last hidden states and its output embeddings are kept in files, not its
logits: of 49,152 tokens these are a hundred times as large. Logits are products in float32, some
rows of the vocabulary at a time.
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
from ..io.files import disk_errors
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
SCORED = 256  # positions whose logits are computed together
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


@dataclass(frozen=True)
class Kept:
    """A base model's hidden states (positions, hidden) and output embeddings, in files.

    The latter's is torch's, (vocabulary, hidden).
    """

    states: Path
    head: Path
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
    weight = lm.head.weight.detach()
    states, head = folder / "states", folder / "head"
    whole = weight.cpu()
    alone = whole.untyped_storage().nbytes() == whole.nbytes
    with disk_errors(head), open(head, "wb") as file:  # torch's own errors are no OSError
        # Of one that shares its file's memory, all that lies there would be written.
        torch.save(whole if alone else whole.clone(), file)
    with open(states, "wb") as file:
        for found in scored_states(lm, windows, "fidelity: the base's hidden states"):
            file.write(tensor_bytes(found.to(weight.dtype).cpu().contiguous()))
    bias = getattr(lm.head, "bias", None)
    bias = None if bias is None else bias.detach().cpu().clone()
    return Kept(states, head, bias, lm.transform)


@dataclass(frozen=True)
class Divergences:
    """Of every scored token, (n,): KL(base ‖ model) in nats, whether both have the same likeliest
    token, -ln p of the token in the base and in the model; and the document it stands in."""

    kl: NDArray[np.float64]
    same_top: NDArray[np.bool_]
    base_nll: NDArray[np.float64]
    nll: NDArray[np.float64]
    documents: tuple[str, ...]


class _Sums:
    """ln of the sum of exp of logits (n,) that come piece by piece, the target's, and the largest.

    Sums are float64.
    """

    def __init__(self, targets: Tensor) -> None:
        self.targets = targets
        self.highest = torch.full(targets.shape, -torch.inf, device=targets.device)
        self.top = torch.zeros_like(targets)
        self.total = torch.zeros(targets.shape, dtype=torch.float64, device=targets.device)
        self.own = torch.zeros_like(self.total)
        self.shrunk = self.total

    def add(self, start: int, logits: Tensor) -> Tensor:
        """Add logits (n, rows) of the tokens from ``start`` on; return exp of them less the
        largest so far. ``shrunk`` is what earlier sums are multiplied by."""
        most, place = logits.max(-1)
        self.top = torch.where(most > self.highest, place + start, self.top)
        highest = torch.maximum(self.highest, most)
        self.shrunk = (self.highest - highest).double().exp()
        self.highest = highest
        powers = (logits - highest[:, None]).exp_()
        self.total = self.total * self.shrunk + powers.sum(-1, dtype=torch.float64)
        inside = (self.targets >= start) & (self.targets < start + logits.shape[1])
        at = (self.targets - start).clamp(0, logits.shape[1] - 1)
        self.own = torch.where(inside, logits.gather(1, at[:, None])[:, 0].double(), self.own)
        return powers

    @property
    def log_total(self) -> Tensor:
        """ln of the sum of exp of all logits."""
        return self.highest.double() + self.total.log()


@torch.inference_mode()
def diverge(lm: LanguageModel, windows: Sequence[Window], kept: Kept) -> Divergences:
    """Return a model's divergences from the base whose states are ``kept``, of the same windows.

    Raises UserError where the vocabularies differ in size, and for scores that are no numbers.
    """
    weight = lm.head.weight.detach()
    head: Tensor = torch.load(kept.head, mmap=True)
    if len(weight) != len(head):
        raise UserError(
            f"expected the same vocabulary for KL divergence, got {len(head):,} output embeddings "
            f"in the base and {len(weight):,} in the model; leave --fidelity out"
        )
    parts: list[tuple[Tensor, ...]] = []
    with open(kept.states, "rb") as file:
        for window, states in zip(windows, scored_states(lm, windows, "fidelity"), strict=True):
            before = torch.empty(len(states), head.shape[1], dtype=head.dtype)
            file.readinto(tensor_bytes(before))
            targets = torch.tensor(window.targets, device=states.device)
            for rows in torch.arange(len(states)).split(SCORED):
                found = _block(lm, weight, states[rows], targets[rows], kept, head, before[rows])
                require_finite("fidelity", [(window.document, one.tolist()) for one in found])
                parts.append(found)
    kl, same, base, own = (torch.cat(found).cpu().numpy() for found in zip(*parts, strict=True))
    names = tuple(window.document for window in windows for _ in window.targets)
    return Divergences(kl, same.astype(bool), base, own, names)


def _block(
    lm: LanguageModel,
    weight: Tensor,
    states: Tensor,
    targets: Tensor,
    kept: Kept,
    head: Tensor,
    before: Tensor,
) -> tuple[Tensor, ...]:
    """Return KL, agreement and both losses, (n,) each, of positions with states (n, hidden)."""
    bias = getattr(lm.head, "bias", None)
    before, states = before.to(states.device).float(), states.float()
    ours, theirs = _Sums(targets), _Sums(targets)
    gap = torch.zeros_like(ours.total)  # sum of exp of the base's logits times both's difference
    step = max(1, PIECE // max(len(states), head.shape[1], weight.shape[1]))
    for start in range(0, len(head), step):
        rows = slice(start, start + step)
        base = kept.transform(_product(before, head[rows].to(states.device), kept.bias, rows))
        own = lm.transform(_product(states, weight[rows], bias, rows))
        powers = theirs.add(start, base)
        gap = gap * theirs.shrunk + (powers * base.sub_(own)).sum(-1, dtype=torch.float64)
        ours.add(start, own)
    kl = gap / theirs.total - theirs.log_total + ours.log_total
    same = (ours.top == theirs.top).double()
    return kl.clamp_(min=0), same, theirs.log_total - theirs.own, ours.log_total - ours.own


def _product(states: Tensor, weight: Tensor, bias: Tensor | None, rows: slice) -> Tensor:
    part = None if bias is None else bias[rows].to(states.device).float()
    return nn.functional.linear(states, weight.float(), part)
