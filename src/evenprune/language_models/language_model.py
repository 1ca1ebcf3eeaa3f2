"""A causal LM loaded with transformers: what a benchmark asks of it.

Tokens, BOS and chat templates of texts; last hidden states and chunked losses of tokens.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from ..io import onednn
from ..io.errors import UserError
from ..io.progress import Progress
from ..models.bos import Losses, check_bos, fixed_rows, losses_of, puts_bos, tokens_of
from ..models.loading import (
    limit_threads,
    load_config,
    load_model,
    load_tokenizer,
    own_dtype,
    pick_device,
)
from ..models.quantised import drop
from ..models.token_trees import merged, visible
from ..stats.finite import require_finite
from .journal import Journal
from .prefix_sharing import BATCH_TOKENS, Rows, View, last_states, right_padded
from .templates import user_turns

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Longest context when the configuration names none (OPT-like models do name one).
DEFAULT_MAX_LENGTH = 2048
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
# Logits held at once, positions of so many words: on a CPU as many as stay in its caches (2 MB), on
# a GPU, which has all words at once, 256 MB.
POSITIONS, WORDS = 256, 2048
LOGITS_ON_GPU = 64_000_000
# Logits of the tokens asked for at one position, and ln of the sum of exp of all tokens' logits.
Position = tuple[list[float], float]
# The numbers of a batch's items, and what computes a value for each, as JSON.
Batches = Iterable[tuple[list[int], Callable[[], Sequence[Any]]]]


def numbers(value: Any) -> Iterator[float]:
    """Yield the numbers in a value as JSON has it."""
    if isinstance(value, list | tuple):
        yield from chain.from_iterable(map(numbers, value))
    elif isinstance(value, int | float):
        yield value


def context_length(config: Any) -> int:
    """Return the number of positions a model was made for, 2,048 when it does not say."""
    found = (getattr(config.get_text_config(), key, None) for key in CONTEXT_KEYS)
    return int(next(filter(None, found), DEFAULT_MAX_LENGTH))


def logit_transform(config: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what an architecture does to ``hidden @ W.T + b`` before it calls it logits.

    Cohere multiplies by ``logit_scale``, Granite divides by ``logits_scaling``, Gemma-2
    applies ``c * tanh(x / c)`` with ``c = final_logit_softcapping``.
    """
    text = config.get_text_config()
    scale = float(getattr(text, "logit_scale", None) or 1.0)
    scale /= float(getattr(text, "logits_scaling", None) or 1.0)
    cap = getattr(text, "final_logit_softcapping", None)

    def transform(logits: torch.Tensor) -> torch.Tensor:
        logits = logits * scale if scale != 1.0 else logits
        return cap * torch.tanh(logits / cap) if cap else logits

    return transform


@dataclass
class LanguageModel:
    """A causal LM in evaluation mode; ``model`` and ``tokenizer`` come from one folder.

    ``bos``, a ``config.section.Bos``, is what ``encode`` does about the BOS token. ``journal``
    keeps the batches that are finished.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_length: int
    transform: Callable[[torch.Tensor], torch.Tensor] = field(repr=False)
    bos: str = "auto"
    journal: Journal = field(default_factory=Journal, repr=False)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.model.device

    @property
    def device_type(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.device.type

    @property
    def dtype(self) -> str:
        """The weights' dtype as text, e.g. ``float32``."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def head(self) -> torch.nn.Linear:
        """The output embedding, a Linear of shape (vocabulary, hidden)."""
        return cast(torch.nn.Linear, self.model.get_output_embeddings())

    @property
    def window(self) -> float:
        """To how many tokens a block looks back at most; infinity for all."""
        text = self.model.config.get_text_config()
        named = (getattr(text, key, None) for key in ("sliding_window", "attention_chunk_size"))
        return min((size for size in named if size), default=float("inf"))

    # Text

    def with_bos(self, bos: str) -> "LanguageModel":
        """Return this model with another treatment of BOS; weights and tokenizer are shared.

        ``auto`` leaves it to the tokenizer, ``always`` puts exactly one before every text, also
        where the tokenizer adds none, ``never`` takes away what the tokenizer or a chat template
        puts there. Raises UserError for ``always`` when the tokenizer has no BOS token.
        """
        check_bos(self.tokenizer, bos)
        return self if bos == self.bos else replace(self, bos=bos)

    def with_journal(self, journal: Journal) -> "LanguageModel":
        """Return this model with another journal; weights and tokenizer are shared."""
        return replace(self, journal=journal)

    @property
    def bos_id(self) -> int | None:
        """The BOS token that ``encode`` puts before a text, None if it puts none."""
        bos = self.tokenizer.bos_token_id
        return bos if bos is not None and self.encode([""])[0][:1] == [bos] else None

    @cached_property
    def bos_losses(self) -> Losses | None:
        """Losses of a fixed text with and without BOS; None for a tokenizer without BOS."""
        rows = fixed_rows(self.tokenizer, self.max_length)
        return losses_of(*self.row_losses(rows)) if rows else None

    @cached_property
    def bos_note(self) -> str | None:
        """What is wrong with the tokenizer's BOS; printed the first time it is asked for."""
        note = self.bos_losses and self.bos_losses.objection(puts_bos(self.tokenizer))
        if note:
            print(note, file=sys.stderr, flush=True)
        return note

    def prefix(self, task: str) -> int:
        """Return what a text without context is conditioned on, as in lm-eval: BOS, else EOS.

        With ``bos`` ``never`` EOS. Raises UserError for a tokenizer that has neither; ``task`` is
        what needs it.
        """
        bos = None if self.bos == "never" else self.tokenizer.bos_token_id
        found = self.tokenizer.eos_token_id if bos is None else bos
        if found is None:
            raise UserError(
                f"{task} conditions texts without context on BOS or EOS, but the tokenizer has "
                f"neither{' (with bos: never, EOS counts)' if self.bos == 'never' else ''}; use "
                "another benchmark or another bos"
            )
        return found

    def chats(self, prompts: Sequence[str]) -> list[str]:
        """Return each prompt as a user turn with the head of an answer turn after it.

        Raises UserError if the tokenizer has no chat template, or one that fails or gives two
        different prompts the same text.
        """
        return user_turns(self.tokenizer, prompts)

    def kept(
        self, label: str, number: int, names: Iterable[object], compute: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        """Return the values of a batch, kept in the journal under ``label`` and its number.

        Where there are none ``compute`` returns them, one for each of ``names``. All that is
        computed goes through here: raises UserError, and keeps nothing, where a number is not
        finite.
        """
        values: Sequence[Any] | None = self.journal.get(label, number)
        if values is None:
            values = compute()
            scores = zip(names, (list(numbers(value)) for value in values), strict=True)
            require_finite(label, scores)
            self.journal.put(label, number, values)
        return values

    def batched(self, label: str, names: Sequence[object], batches: Batches) -> dict[int, Any]:
        """Return the value of each item, by its number, of which ``batches`` have each once.

        Finished batches are kept under ``label``; see ``kept``. ``names`` are those of all items.
        """
        found: dict[int, Any] = {}
        progress = Progress(len(names), label, announced=True)
        for number, (batch, compute) in enumerate(batches):
            values = self.kept(label, number, [names[k] for k in batch], compute)
            found |= zip(batch, values, strict=True)
            progress.update(len(batch))
        return found

    def encode(self, texts: Sequence[str], special: bool = True) -> list[list[int]]:
        """Return token ids, with the tokenizer's own special tokens unless ``special`` is False.

        ``bos`` of this model then decides about the first token. Raises UserError as
        ``bos.tokens_of``.
        """
        return tokens_of(self.tokenizer, texts, self.bos, special)

    # Tokens

    def rows_at_once(self, length: int, batch_size: int) -> int:
        """Return how many rows of ``length`` tokens go through the model together."""
        return max(1, min(batch_size, BATCH_TOKENS[self.device_type] // max(length, 1)))

    def hidden(
        self, tokens: torch.Tensor, past: Any = None, view: View | None = None
    ) -> torch.Tensor:
        """Return the last hidden states, (batch, length, hidden), of ``tokens`` (batch, length).

        Rows may be filled up at the right: attention is causal, so what stands behind a position
        does not reach it, and positions count from the left. ``past`` are keys and values that
        stand before them, ``view`` is what each token sees in place of all before it.
        """
        options: dict[str, Any] = {}
        if view is not None:
            seen, places = view
            mask = torch.zeros(seen.shape, dtype=self.model.dtype)
            mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)
            options["attention_mask"] = mask[:, None].to(self.device)
            options["position_ids"] = places.to(self.device)
        found = self.model.base_model(
            tokens.to(self.device), past_key_values=past, use_cache=past is not None, **options
        )
        # Where the output embeddings lie: of a model on several GPUs that may be another one.
        return found.last_hidden_state.to(self.head.weight.device)

    def prefix_cache(self, tokens: torch.Tensor) -> Any:
        """Return the keys and values of ``tokens`` (batch, length), filled up at the right."""
        return self.model.base_model(tokens.to(self.device), use_cache=True).past_key_values

    @cached_property
    def shares_prefixes(self) -> bool:
        """True if tails computed on top of a stem's keys and values equal rows computed whole.

        Tried on four short rows with two stems, and with these rows as two trees. Other
        architectures, with other caches, masks or positions, are computed without sharing instead
        of wrongly, and a line says so.
        """
        size = self.head.weight.shape[0]
        try:
            # Other words once more: in 16 bits a roundoff can turn a single state into another.
            near = any(self._is_shared_right(size * quarter // 4) for quarter in (1, 2, 3))
        except (AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
            near = False
        if not near:
            name = type(self.model).__name__
            print(f"note: {name} cannot share common beginnings of prompts, which takes longer",
                  file=sys.stderr)  # fmt: skip
        return near

    @torch.inference_mode()
    def _is_shared_right(self, first: int) -> bool:
        """Return whether the states of rows of the words from ``first`` on are alike both ways."""
        ids = ((torch.arange(24) + first) % self.head.weight.shape[0]).reshape(2, 12).tolist()
        ends = [(0, 8, ids[1][:3]), (0, 8, ids[1][3:4]), (1, 5, ids[0][:2]), (1, 5, ids[0][2:6])]
        rows = [[*ids[k][:before], *tail] for k, before, tail in ends]
        counts = [len(tail) for *_, tail in ends]

        def tails(stems: list[int]) -> torch.Tensor:
            found: dict[int, torch.Tensor] = {}
            for batch, states in last_states(self, rows, counts, len(rows), stems):
                found |= zip(batch, states().split([counts[k] for k in batch]), strict=True)
            return torch.cat([found[k] for k in range(len(rows))])

        trees = [merged([[*row, 0] for row in rows[k : k + 2]]) for k in (0, 2)]
        nodes = self.hidden(right_padded([one.tokens for one in trees]), None, visible(trees))
        paths = [(k, path) for k, one in enumerate(trees) for path in one.paths]
        found = [nodes[k, path[-count:]] for (k, path), count in zip(paths, counts)]
        whole = torch.cat([tails([0] * len(rows))] * 2)
        shared = torch.cat([tails([before for _, before, _ in ends]), *found])
        # Of all numbers together: single ones round coarsely in 16 bits (SmolLM2: 0.015).
        tolerance = 1e-3 if self.dtype == "float32" else 0.03
        return bool((whole - shared).float().norm() <= tolerance * whole.float().norm())

    def logits(self, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of ``ids``, float32, of hidden states (..., hidden).

        A float32 product of the upcast operands: bfloat16 logits of size 16 to 32 lie on a grid of
        1/8, on which options tie. The full vocabulary is computed in the model's dtype.
        """
        weight, bias = self.head.weight, getattr(self.head, "bias", None)
        logits = hidden.float() @ weight[ids].float().T
        return self.transform(logits if bias is None else logits + bias[ids].float())

    def scored(
        self, hidden: torch.Tensor, of: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return ln p of tokens (k,), whether each is the likeliest, and all positions' totals.

        ``hidden`` are the last hidden states of n positions, (n, hidden), ``of`` (k,) the position
        of each token, ascending. Of equally likely tokens the first counts. A total, (n,), is ln of
        the sum of exp of all logits. All logits at once would be too many: they come for some
        positions and words at a time, float32.
        """
        on_cpu = hidden.device.type == "cpu"
        size = POSITIONS if on_cpu else max(1, LOGITS_ON_GPU // self.head.weight.shape[0])
        bounds = torch.arange(0, len(hidden) + size, size, device=of.device)
        cuts = torch.searchsorted(of, bounds).tolist()
        parts = [
            self._scored_part(part, of[a:b] - k * size, tokens[a:b])
            for k, (part, a, b) in enumerate(zip(hidden.split(size), cuts, cuts[1:]))
        ]
        scores, likeliest, totals = (torch.cat(several) for several in zip(*parts))
        return scores, likeliest, totals

    def _scored_part(
        self, hidden: torch.Tensor, of: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        found = torch.empty(len(of), device=hidden.device)
        likeliest = torch.zeros(len(of), dtype=torch.bool, device=hidden.device)
        top = torch.full((len(hidden),), torch.finfo().min, device=hidden.device)
        total = torch.zeros_like(top)
        for first, product in onednn.outputs_in_parts(self.head, WORDS):
            logits = self.transform(product(hidden).float())
            word, highest = tokens - first, logits.amax(-1)
            inside = (word >= 0) & (word < logits.shape[1])
            word = word.clamp(0, logits.shape[1] - 1)
            found = torch.where(inside, logits[of, word], found)
            # The likeliest word of each position would take as long as all else here: of a few.
            best = inside & (found == highest[of]) & (highest > top)[of]
            rows = [row for row, is_best in enumerate(best.tolist()) if is_best]
            likeliest[rows] = logits[of[rows]].argmax(-1) == word[rows]
            higher = torch.maximum(top, highest)
            total *= (top - higher).exp_()
            total += logits.sub_(higher[:, None]).exp_().sum(-1)
            top = higher
        total = total.log_().add_(top)
        return found - total[of], likeliest & (found == top[of]), total

    @torch.inference_mode()
    def _positions(
        self, states: Callable[[], torch.Tensor], wanted: Sequence[Rows]
    ) -> list[list[Position]]:
        """Return each position's wanted logits, float32, and ln of the sum of exp of all logits."""
        hidden = states()
        ids = sorted({token for row in wanted for tokens in row for token in tokens})
        column = {token: k for k, token in enumerate(ids)}
        table = self.logits(hidden, torch.tensor(ids, device=hidden.device)).tolist()
        none = torch.empty(0, dtype=torch.long, device=hidden.device)
        found = zip(table, self.scored(hidden, none, none)[2].tolist())
        return [
            [([row[column[token]] for token in tokens], total)
             for tokens, (row, total) in zip(several, found)]
            for several in wanted
        ]  # fmt: skip

    def position_scores(self, rows: Rows, wanted: Sequence[Rows], batch_size: int) -> Batches:
        """Yield (row indices, what computes each row's positions) batch by batch, every row once.

        ``wanted[i]`` are the tokens whose scores are asked for behind each of the last
        ``len(wanted[i])`` tokens of row i. They are the same whether other batches are computed or
        not. Common beginnings are computed once, the rest in batches of similar length.
        """
        counts = [len(tokens) for tokens in wanted]
        for batch, states in last_states(self, rows, counts, batch_size):
            yield batch, partial(self._positions, states, [wanted[k] for k in batch])

    @torch.inference_mode()
    def continuations(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], batch_size: int
    ) -> list[tuple[float, bool]]:
        """Return ln p of each of lm-eval's continuations and whether it is the greedy one.

        Requests are (texts, context tokens, continuation tokens). As in lm-eval, what is too long
        is cut at the left, and requests that share all tokens but the last are computed once. So
        are common beginnings. Only the last positions have their logits computed, where lm-eval
        computes all.
        """
        members: dict[tuple[int, ...], list[int]] = {}
        for k, (_, context, continuation) in enumerate(requests):
            tokens = tuple([*context, *continuation][-(self.max_length + 1) :])
            members.setdefault(tokens[:-1], []).append(k)
        rows = list(members)
        counts = [max(len(requests[k][2]) for k in several) for several in members.values()]
        found: dict[int, tuple[float, bool]] = {}
        for batch, states in last_states(self, rows, counts, batch_size):
            wanted: list[Sequence[int]] = []
            for row in batch:
                wanted += [(token,) for token in rows[row][len(rows[row]) - counts[row] + 1 :]]
                wanted.append([requests[k][2][-1] for k in members[rows[row]]])
            scored = self._log_probabilities(states(), wanted)
            for row in batch:
                before = [only for (only,) in islice(scored, counts[row] - 1)]
                for k, (end, last) in zip(members[rows[row]], next(scored), strict=True):
                    part = before[len(before) - len(requests[k][2]) + 1 :]
                    greedy = last and all(likeliest for _, likeliest in part)
                    found[k] = (sum(score for score, _ in part) + end, greedy)
        return [found[k] for k in range(len(requests))]

    def _log_probabilities(
        self, hidden: torch.Tensor, wanted: Rows
    ) -> Iterator[list[tuple[float, bool]]]:
        """Yield ln p of each position's wanted tokens, each with whether it is the likeliest."""
        asked = [(row, token) for row, tokens in enumerate(wanted) for token in tokens]
        of, ids = torch.tensor(asked, device=hidden.device).T.contiguous()
        scores, likeliest, _ = self.scored(hidden, of, ids)
        values = zip(scores.tolist(), likeliest.tolist(), strict=True)
        for tokens in wanted:
            yield [next(values) for _ in tokens]

    @torch.inference_mode()
    def row_losses(self, rows: Rows) -> list[list[float]]:
        """Return -ln p of every token but the first of each row of one batch, in nats."""
        counts = [len(row) - 1 for row in rows]
        hidden = self.hidden(right_padded(rows))
        states = torch.cat([row[:count] for row, count in zip(hidden, counts)])
        ends = [token for row in rows for token in row[1:]]
        then = torch.tensor(ends, dtype=torch.long, device=states.device)
        scores, _, _ = self.scored(states, torch.arange(len(then), device=then.device), then)
        return [values.tolist() for values in (-scores.double()).cpu().split(counts)]

    @torch.inference_mode()
    def group_losses(self, groups: Sequence[Rows]) -> list[list[list[float]]]:
        """Return ``row_losses`` of each group of rows that begin alike, for a batch of groups.

        A group is computed as a tree where the model can.
        """
        if not self.shares_prefixes or max(map(len, chain(*groups))) > self.window:
            found = iter(self.row_losses(list(chain(*groups))))
            return [list(islice(found, len(rows))) for rows in groups]
        trees = [merged(rows) for rows in groups]
        hidden = self.hidden(right_padded([one.tokens for one in trees]), None, visible(trees))
        states = torch.cat([row[: len(one.tokens)] for row, one in zip(hidden, trees)])
        scored = self._log_probabilities(states, [list(t) for one in trees for t in one.then])
        losses = []
        for rows, one in zip(groups, trees):
            after = [dict(zip(tokens, next(scored), strict=True)) for tokens in one.then]
            losses.append(
                [
                    [-after[node][token][0] for node, token in zip(path, row[1:], strict=True)]
                    for row, path in zip(rows, one.paths, strict=True)
                ]
            )
        return losses

    def close(self) -> None:
        """Give back the memory of the weights, also where lm-eval still holds the model."""
        if getattr(self.model, "hf_device_map", None):
            from accelerate.hooks import remove_hook_from_submodules

            remove_hook_from_submodules(self.model)  # which would keep them where they are
        drop(self.model)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@torch.inference_mode()
def _check_head(lm: LanguageModel, whose: Path | str) -> None:
    """Compare our logits with the model's own once, so that no architecture is misread.

    Raises UserError when they differ or are not finite; ``whose`` is the model's folder.
    """
    tokens = torch.tensor([[1, 2, 3]]).clamp(max=lm.head.weight.shape[0] - 1)
    states, parts = lm.hidden(tokens), onednn.outputs_in_parts(lm.head, WORDS)
    own = lm.transform(torch.cat([product(states) for _, product in parts], -1).float())
    theirs = lm.model(tokens.to(lm.device), use_cache=False).logits.float().to(own.device)
    # What is not a number equals nothing: without this the architecture would get the blame.
    require_finite(
        f"the logits of the model in {whose}", [("probe", theirs.logsumexp(-1).flatten().tolist())]
    )
    tolerance = 1e-3 if lm.dtype == "float32" else 0.05
    if not torch.allclose(own, theirs, rtol=tolerance, atol=tolerance):
        raise UserError(
            f"the logits of architecture {lm.model.config.model_type!r} are not its last hidden "
            "states times its output embedding; logit_transform needs a case for it"
        )


def load_language_model(
    folder: Path | str, device: str | None = None, dtype: str = "auto", devices: Sequence[str] = ()
) -> LanguageModel:
    """Load a model folder for scoring.

    ``device`` None takes CUDA where there is a GPU; with more than one of ``devices`` the model
    lies on all of these (transformers' ``device_map``). ``dtype`` is one of ``loading.DTYPES``;
    ``auto`` is the checkpoint's own, float32 for 16 bits on a processor that has no products of
    them, where scores would take several times as long. Raises UserError for incomplete folders
    and architectures whose logits are not understood.
    """
    limit_threads()
    tokenizer = load_tokenizer(folder)
    device = pick_device(device)
    kind = getattr(torch, own_dtype(dtype, load_config(folder)), None)
    if dtype == "auto" and kind:
        kind = onednn.fast_dtype(kind, device)
    model = load_model(folder, device, kind or "auto", devices, quantised=True)
    config = model.config
    lm = LanguageModel(model, tokenizer, context_length(config), logit_transform(config))
    used = max(tokenizer.bos_token_id or 0, tokenizer.eos_token_id or 0)
    if used >= lm.head.weight.shape[0]:
        raise UserError(f"BOS or EOS of {folder} has no embedding: copy the base model's tokenizer")
    onednn.pack(model, lm.head, WORDS)
    _check_head(lm, folder)
    return lm
