"""A causal LM loaded with transformers: last hidden states, chunked losses, greedy answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch.nn.functional import cross_entropy

from ..base.errors import UserError
from ..models.loading import limit_threads, load_model, load_tokenizer, pick_device
from .causal_model import (
    Answer,
    Asked,
    Batches,
    CausalModel,
    Position,
    Rows,
    Scored,
    context_length,
    end_tokens,
)
from .finite import require_finite
from .generation import generate_batch
from .journal import Journal
from .stems import last_states, right_padded, select_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Logits held at once, in elements: on a CPU as many as stay in its caches (4 MB), on a GPU 256 MB.
LOGITS = {"cpu": 1_000_000, "cuda": 64_000_000}
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
    versions: ClassVar[Mapping[str, str]] = MappingProxyType({})  # type: ignore[misc]  # no field

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
    def positions_at_once(self) -> int:
        """Of how many positions the logits of all tokens are held at once."""
        return max(FEWEST_POSITIONS, LOGITS[self.device_type] // self.head.weight.shape[0])

    def hidden(self, tokens: torch.Tensor, past: Any = None) -> torch.Tensor:
        """Return the last hidden states, (batch, length, hidden), of ``tokens`` (batch, length).

        ``past`` are the keys and values of tokens that stand before. Rows may be filled up at
        the right: attention is causal, so what stands behind a position does not reach it, and
        positions count from the left.
        """
        found = self.model.base_model(
            tokens.to(self.device), past_key_values=past, use_cache=past is not None
        )
        # Where the output embeddings lie: of a model on several GPUs that may be another one.
        return found.last_hidden_state.to(self.head.weight.device)

    def prefix_cache(self, tokens: torch.Tensor) -> Any:
        """Return the keys and values of ``tokens`` (batch, length), all of one length."""
        return self.model.base_model(tokens.to(self.device), use_cache=True).past_key_values

    @cached_property
    @torch.inference_mode()
    def shares_prefixes(self) -> bool:
        """True if rows computed on top of a stem's keys and values equal rows computed whole.

        Tried once on two short rows: architectures with other caches than plain keys and
        values are then computed without sharing instead of wrongly.
        """
        size = self.head.weight.shape[0]
        rows = torch.arange(2, 26).reshape(2, 12) % size
        rows[1, :8] = rows[0, :8]
        whole = self.hidden(rows)[:, 8:]
        try:
            past = select_rows(self.prefix_cache(rows[:1, :8]), torch.tensor([0, 0]))
            shared = self.hidden(rows[:, 8:], past)
        except (AttributeError, NotImplementedError, TypeError):
            return False
        # Of all numbers together: single ones round coarsely in 16 bits (SmolLM2: 0.012 in all).
        tolerance = 1e-3 if self.dtype == "float32" else 0.03
        return bool((whole - shared).float().norm() <= tolerance * whole.float().norm())

    def logits(self, hidden: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return logits in float32 of hidden states (..., hidden), of all tokens or of ``ids``.

        Those of ``ids`` are a float32 product of the upcast operands: bfloat16 logits of size
        16 to 32 lie on a grid of 1/8, on which options tie. The full vocabulary is computed in
        the model's dtype.
        """
        weight, bias = self.head.weight, getattr(self.head, "bias", None)
        if ids is None:
            return self.transform(self.head(hidden).float())
        logits = hidden.float() @ weight[ids].float().T
        return self.transform(logits if bias is None else logits + bias[ids].float())

    @torch.inference_mode()
    def token_nll(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return -ln p of each token given those before it, (batch, length - 1), float32."""
        hidden = self.hidden(tokens)[:, :-1]
        targets = tokens[:, 1:].to(hidden.device)
        step = self.positions_at_once
        parts = [
            cross_entropy(self.logits(states), wanted, reduction="none")
            for states, wanted in zip(
                hidden.flatten(0, 1).split(step), targets.flatten().split(step), strict=True
            )
        ]
        return torch.cat(parts).reshape(targets.shape)

    @torch.inference_mode()
    def _positions(self, states: Callable[[], torch.Tensor], wanted: Rows) -> list[Position]:
        """Return each position's wanted logits, float32, and ln of the sum of exp of all logits."""
        hidden = states()
        ids = sorted({token for tokens in wanted for token in tokens})
        column = {token: k for k, token in enumerate(ids)}
        table = self.logits(hidden, torch.tensor(ids, device=hidden.device)).tolist()
        parts = hidden.split(self.positions_at_once)
        totals = torch.cat([self.logits(part).logsumexp(-1) for part in parts]).tolist()
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
        step = self.positions_at_once
        for start in range(0, len(hidden), step):
            logits = self.logits(hidden[start : start + step])
            part = wanted[start : start + step]
            ids = torch.tensor([token for tokens in part for token in tokens], device=logits.device)
            of = torch.tensor(
                [row for row, tokens in enumerate(part) for _ in tokens], device=logits.device
            )
            values = iter((logits[of, ids] - logits.logsumexp(-1)[of]).tolist())
            for tokens, best in zip(part, logits.argmax(-1).tolist(), strict=True):
                yield [next(values) for _ in tokens], best

    def row_losses(self, rows: Rows) -> list[list[float]]:
        """Return the losses of one batch, filled up at the right; see ``CausalModel``."""
        computed = self.token_nll(right_padded(rows)).double().cpu()
        return [values[: len(row) - 1].tolist() for row, values in zip(rows, computed)]

    def generate(
        self, prompts: Rows, new_tokens: int, stop: str | None, keep_logits: bool = False
    ) -> tuple[list[Answer], Sequence[Any]]:
        """Return greedy answers of one batch, filled up at the left; see ``CausalModel``."""
        ends = end_tokens(self.model.generation_config, self.tokenizer)
        return generate_batch(
            self.model, self.tokenizer, prompts, ends, new_tokens, stop, keep_logits
        )

    @property
    def lm_eval_weights(self) -> "PreTrainedModel":
        """The model itself."""
        return self.model

    def close(self) -> None:
        """Give back the memory of the weights, also where lm-eval still holds the model."""
        if getattr(self.model, "hf_device_map", None):
            from accelerate.hooks import remove_hook_from_submodules

            remove_hook_from_submodules(self.model)  # which would keep them where they are
        self.model.to("meta")  # type: ignore[arg-type]  # its wrapper hides self
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@torch.inference_mode()
def _check_head(lm: LanguageModel, whose: Path | str) -> None:
    """Compare our logits with the model's own once, so that no architecture is misread.

    Raises UserError when they differ or are not finite; ``whose`` is the model's folder.
    """
    tokens = torch.tensor([[1, 2, 3]]).clamp(max=lm.head.weight.shape[0] - 1)
    own = lm.logits(lm.hidden(tokens))
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
    lies on all of these (transformers' ``device_map``). ``dtype`` is one of ``modeling.DTYPES``.
    Raises UserError for incomplete folders and architectures whose logits are not
    understood.
    """
    limit_threads()
    tokenizer = load_tokenizer(folder)
    model = load_model(
        folder, pick_device(device), dtype if dtype == "auto" else getattr(torch, dtype), devices
    )
    config = model.config
    lm = LanguageModel(model, tokenizer, context_length(config), logit_transform(config))
    used = max(tokenizer.bos_token_id or 0, tokenizer.eos_token_id or 0)
    if used >= lm.head.weight.shape[0]:
        raise UserError(f"BOS or EOS of {folder} has no embedding: copy the base model's tokenizer")
    _check_head(lm, folder)
    return lm
