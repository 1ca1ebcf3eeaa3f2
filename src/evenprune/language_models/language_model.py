"""A causal LM loaded with transformers: last hidden states, chunked losses, greedy answers."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import cross_entropy

from ..io import onednn
from ..io.errors import UserError
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
from .causal_model import (
    Answer,
    Asked,
    Batches,
    CausalModel,
    Position,
    Rows,
    Scored,
    context_length,
)
from .generation import generate_batch
from .journal import Journal
from .prefix_sharing import last_states, right_padded, select_rows, tree

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Logits held at once, in elements: on a CPU as many as stay in its caches (2 MB), on a GPU 256 MB.
LOGITS = {"cpu": 500_000, "cuda": 64_000_000}
FEWEST_POSITIONS = 128  # of one product with the output embeddings, where fewer would be slow


def logit_transform(config: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what an architecture does to ``hidden @ W.T + b`` before it calls it logits.

    Cohere multiplies by ``logit_scale``, Granite divides by ``logits_scaling``, Gemma-2
    applies ``c * tanh(x / c)`` with ``c = final_logit_softcapping``.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    scale = float(getattr(text, "logit_scale", None) or 1.0)
    scale /= float(getattr(text, "logits_scaling", None) or 1.0)
    cap = getattr(text, "final_logit_softcapping", None)

    def transform(logits: torch.Tensor) -> torch.Tensor:
        logits = logits * scale if scale != 1.0 else logits
        return cap * torch.tanh(logits / cap) if cap else logits

    return transform


@dataclass
class LanguageModel(CausalModel):
    """The transformers backend: a causal LM in evaluation mode.

    ``model`` and ``tokenizer`` come from one folder.
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
    def device_type(self) -> str:  # type: ignore[override]  # read only here
        """``cpu`` or ``cuda``."""
        return self.device.type

    @property
    def dtype(self) -> str:  # type: ignore[override]  # read only here
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

    def hidden(
        self,
        tokens: torch.Tensor,
        past: Any = None,
        seen: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the last hidden states, (batch, length, hidden), of ``tokens`` (batch, length).

        Rows may be filled up at the right: attention is causal, so what stands behind a position
        does not reach it, and positions count from the left. ``past`` are keys and values that
        stand before them, ``seen`` and ``places`` what each token sees in place of all before it,
        (batch, length, past and length), and its position; see ``stems``.
        """
        options: dict[str, Any] = {}
        if seen is not None and places is not None:
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
    @torch.inference_mode()
    def shares_prefixes(self) -> bool:
        """True if tails computed on top of a stem's keys and values equal rows computed whole.

        Tried once on four short rows with two stems, and with these rows as two trees. Other
        architectures, with other caches, masks or positions, are computed without sharing instead
        of wrongly, and a line says so.
        """
        size = self.head.weight.shape[0]
        ids = torch.arange(2, 26).reshape(2, 12) % size
        before = [8, 5]
        tails = [[3, 1], [2, 4]]
        try:
            past = select_rows(self.prefix_cache(ids[:, :8]), torch.tensor([0, 1]))
            tokens = torch.zeros(2, 6, dtype=torch.int64)
            alone, rows = [], []
            for row, (n, lengths) in enumerate(zip(before, tails)):
                start = 0
                for length in lengths:
                    tail = ids[1 - row, start : start + length]
                    tokens[row, start : start + length] = tail
                    rows.append(torch.cat([ids[row, :n], tail]))
                    alone.append(self.hidden(rows[-1][None])[0, n:])
                    start += length
            found = self.hidden(tokens, past, *tree(tails, before, past.get_seq_length()))
            trees = [merged([[*one.tolist(), 0] for one in rows[k : k + 2]]) for k in (0, 2)]
            nodes = self.hidden(right_padded([one.tokens for one in trees]), None, *visible(trees))
            ends = [nodes[k, path[before[k] :]] for k in (0, 1) for path in trees[k].paths]
            whole, shared = torch.cat(alone * 2), torch.cat([found[0, :4], found[1], *ends])
            # Of all numbers together: single ones round coarsely in 16 bits (SmolLM2: 0.012).
            tolerance = 1e-3 if self.dtype == "float32" else 0.03
            near = bool((whole - shared).float().norm() <= tolerance * whole.float().norm())
        except (AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
            near = False
        if not near:
            name = type(self.model).__name__
            print(f"note: {name} cannot share common beginnings of prompts, which takes longer",
                  file=sys.stderr)  # fmt: skip
        return near

    def logits(self, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of ``ids``, float32, of hidden states (..., hidden).

        A float32 product of the upcast operands: bfloat16 logits of size 16 to 32 lie on a grid of
        1/8, on which options tie. The full vocabulary is computed in the model's dtype.
        """
        weight, bias = self.head.weight, getattr(self.head, "bias", None)
        logits = hidden.float() @ weight[ids].float().T
        return self.transform(logits if bias is None else logits + bias[ids].float())

    def logit_pieces(self, hidden: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the logits of hidden states (n, hidden), float32, some positions at a time."""
        few = max(1, LOGITS[self.device_type] // self.head.weight.shape[0])
        for part in hidden.split(max(FEWEST_POSITIONS, few)):
            for logits in self.head(part).split(few):
                yield self.transform(logits.float())

    @torch.inference_mode()
    def token_nll(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return -ln p of each token given those before it, (batch, length - 1), float32."""
        hidden = self.hidden(tokens)[:, :-1]
        targets = tokens[:, 1:].to(hidden.device)
        wanted, start, parts = targets.flatten(), 0, []
        for logits in self.logit_pieces(hidden.flatten(0, 1)):
            part = wanted[start : start + len(logits)]
            parts.append(cross_entropy(logits, part, reduction="none"))
            start += len(logits)
        return torch.cat(parts).reshape(targets.shape)

    @torch.inference_mode()
    def _positions(self, states: Callable[[], torch.Tensor], wanted: Rows) -> list[Position]:
        """Return each position's wanted logits, float32, and ln of the sum of exp of all logits."""
        hidden = states()
        ids = sorted({token for tokens in wanted for token in tokens})
        column = {token: k for k, token in enumerate(ids)}
        table = self.logits(hidden, torch.tensor(ids, device=hidden.device)).tolist()
        totals = torch.cat([part.logsumexp(-1) for part in self.logit_pieces(hidden)]).tolist()
        return [
            ([row[column[token]] for token in tokens], total)
            for tokens, row, total in zip(wanted, table, totals)
        ]

    def position_scores(self, rows: Rows, wanted: Sequence[Rows], batch_size: int) -> Batches:
        """Yield what computes logits and ln of the sum of exp of all logits; see ``CausalModel``.

        Common beginnings are computed once, the rest in batches of similar length.
        """
        counts = [len(tokens) for tokens in wanted]
        for batch, states in last_states(self, rows, counts, batch_size):
            asked = [tokens for k in batch for tokens in wanted[k]]
            yield batch, partial(self._positions, states, asked)

    @torch.inference_mode()
    def score_rows(self, rows: Sequence[Asked], batch_size: int) -> list[Scored]:
        """Return the scores of rows from the logits of their last positions; see ``CausalModel``.

        Where lm-eval computes the logits of all positions. Common beginnings are computed once.
        """
        counts = [count + 1 for _, _, count in rows]
        found: dict[int, Scored] = {}
        for batch, states in last_states(self, [row[0] for row in rows], counts, batch_size):
            wanted = []
            for k in batch:
                tokens, ends, count = rows[k]
                wanted += [[token] for token in tokens[len(tokens) - count :]] + [ends]
            scored = self._log_probabilities(states(), wanted)
            for k in batch:
                *own, (last, best) = [next(scored) for _ in range(counts[k])]
                tokens = rows[k][0][len(rows[k][0]) - len(own) :]
                shown = [
                    (scores[0], token == top)
                    for (scores, top), token in zip(own, tokens, strict=True)
                ]
                found[k] = (shown, last, best)
        return [found[k] for k in range(len(rows))]

    def _log_probabilities(
        self, hidden: torch.Tensor, wanted: Rows
    ) -> Iterator[tuple[list[float], int]]:
        """Yield each position's ln p of the wanted tokens, and the likeliest token."""
        start = 0
        scores, likeliest = [], []
        for logits in self.logit_pieces(hidden):
            part = wanted[start : start + len(logits)]
            start += len(logits)
            ids = torch.tensor([token for tokens in part for token in tokens], device=logits.device)
            of = torch.tensor(
                [row for row, tokens in enumerate(part) for _ in tokens], device=logits.device
            )
            highest, best = logits.max(-1)  # the first of equal ones, three times as fast as argmax
            total = (logits - highest[:, None]).exp_().sum(-1).log_().add_(highest)
            scores.append(logits[of, ids] - total[of])
            likeliest.append(best)
        values = iter(torch.cat(scores).tolist())
        for tokens, best in zip(wanted, torch.cat(likeliest).tolist(), strict=True):
            yield [next(values) for _ in tokens], best

    def row_losses(self, rows: Rows) -> list[list[float]]:
        """Return the losses of one batch, filled up at the right; see ``CausalModel``."""
        computed = self.token_nll(right_padded(rows)).double().cpu()
        return [values[: len(row) - 1].tolist() for row, values in zip(rows, computed)]

    @torch.inference_mode()
    def group_losses(self, groups: Sequence[Rows]) -> list[list[list[float]]]:
        """Return the losses of the rows of groups, of one batch, as trees; see ``CausalModel``."""
        if not self.shares_prefixes or max(map(len, chain(*groups))) > self.window:
            return super().group_losses(groups)
        trees = [merged(rows) for rows in groups]
        hidden = self.hidden(right_padded([one.tokens for one in trees]), None, *visible(trees))
        states = torch.cat([row[: len(one.tokens)] for row, one in zip(hidden, trees)])
        scored = self._log_probabilities(states, [list(t) for one in trees for t in one.then])
        losses = []
        for rows, one in zip(groups, trees):
            after = [dict(zip(tokens, next(scored)[0], strict=True)) for tokens in one.then]
            losses.append(
                [
                    [-after[node][token] for node, token in zip(path, row[1:], strict=True)]
                    for row, path in zip(rows, one.paths, strict=True)
                ]
            )
        return losses

    def generate(
        self, prompts: Rows, new_tokens: int, stop: str | None, keep_logits: bool = False
    ) -> tuple[list[Answer], Sequence[Any]]:
        """Return greedy answers of one batch, filled up at the left; see ``CausalModel``."""
        return generate_batch(self, prompts, new_tokens, stop, keep_logits)

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
    own = torch.cat(list(lm.logit_pieces(lm.hidden(tokens)[0])))[None]
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
    lies on all of these (transformers' ``device_map``). ``dtype`` is one of ``modeling.DTYPES``;
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
    onednn.pack(model, lm.head)
    _check_head(lm, folder)
    return lm
