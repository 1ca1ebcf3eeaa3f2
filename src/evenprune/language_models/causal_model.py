"""What a benchmark asks of a causal LM, whichever backend computes it."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..io.errors import UserError
from ..models.bos import Losses, check_bos, fixed_rows, losses_of, puts_bos, tokens_of
from ..stats.finite import require_finite
from .journal import Journal
from .templates import user_turns

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Longest context when the configuration names none (OPT-like models do name one).
DEFAULT_MAX_LENGTH = 2048
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
# Tokens of one forward pass: a batch holds as many rows as fit, at least one. On a CPU it is as
# many as leave the results of single operations in its caches and in memory that is used again.
BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}
Tokens = Sequence[int]
Rows = Sequence[Tokens]
# Numbers that a model gave, by what they belong to.
Named = Iterable[tuple[object, Sequence[float]]]
# Scores of the tokens asked for at one position, and ln of the sum of exp of all tokens' scores.
Position = tuple[list[float], float]
# An answer's own tokens, how it finished (``end``, ``stop`` or ``length``), and a sum that is
# finite if every logit vector that a token was chosen from was sound.
Answer = tuple[list[int], str, float]
# Of a row that ``CausalModel.score_rows`` scores: (tokens, ends, count), and (own, last, greedy).
Asked = tuple[Tokens, Tokens, int]
Scored = tuple[list[tuple[float, bool]], list[float], int]
# The rows of a batch, and what computes their positions.
Batches = Iterator[tuple[list[int], Callable[[], list[Position]]]]


def context_length(config: Any) -> int:
    """Return the number of positions a model was made for, 2,048 when it does not say."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for key in CONTEXT_KEYS:
        value = getattr(text, key, None)
        if value:
            return int(value)
    return DEFAULT_MAX_LENGTH


def end_tokens(generation_config: Any, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Return the tokens that end an answer: the model's own and the tokenizer's, sorted."""
    given = generation_config.eos_token_id
    found = {given} if isinstance(given, int) else set(given or ())
    return sorted(found | ({tokenizer.eos_token_id} - {None}))


class CausalModel:
    """Base of the backends' models, which are dataclasses with the fields below.

    Here is what is done with text: tokens, BOS, chat templates. A backend adds what is done
    with tokens. ``bos`` is one of ``spec.BOS``: what ``encode`` does about the BOS token.
    ``journal`` keeps the batches that are finished. ``device_type`` is ``cpu`` or ``cuda``,
    ``dtype`` that of the weights as text, e.g. ``float32``. ``batches_at_once`` is how many
    batches a backend is handed in one call, because it forms its own. ``model`` is what lm-eval's
    class is given, a transformers model.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_length: int
    bos: str
    journal: Journal
    device_type: str
    dtype: str
    batches_at_once: ClassVar[int] = 1

    # Text

    def with_bos(self, bos: str) -> Self:
        """Return this model with another treatment of BOS; weights and tokenizer are shared.

        ``auto`` leaves it to the tokenizer, ``always`` puts exactly one before every text, also
        where the tokenizer adds none, ``never`` takes away what the tokenizer or a chat template
        puts there. Raises UserError for ``always`` when the tokenizer has no BOS token.
        """
        check_bos(self.tokenizer, bos)
        return self if bos == self.bos else replace(self, bos=bos)  # type: ignore[type-var]

    def with_journal(self, journal: Journal) -> Self:
        """Return this model with another journal; weights and tokenizer are shared."""
        return replace(self, journal=journal)  # type: ignore[type-var]

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

    def kept(self, label: str, number: int, compute: Callable[[], tuple[Any, Named]]) -> Any:
        """Return the values of a batch, kept in the journal under ``label`` and its number.

        Where there are none ``compute`` returns them, and the numbers among them by item. All
        that is computed goes through here: raises UserError, and keeps nothing, where a score is
        not a finite number.
        """
        values = self.journal.get(label, number)
        if values is None:
            values, scores = compute()
            require_finite(label, scores)
            self.journal.put(label, number, values)
        return values

    def encode(self, texts: Sequence[str], special: bool = True) -> list[list[int]]:
        """Return token ids, with the tokenizer's own special tokens unless ``special`` is False.

        ``bos`` of this model then decides about the first token. Raises UserError as
        ``bos.tokens_of``.
        """
        return tokens_of(self.tokenizer, texts, self.bos, special)

    # Tokens: what a backend computes

    def rows_at_once(self, length: int, batch_size: int) -> int:
        """Return how many rows of ``length`` tokens go through the model together."""
        return max(1, min(batch_size, BATCH_TOKENS[self.device_type] // max(length, 1)))

    def position_scores(self, rows: Rows, wanted: Sequence[Rows], batch_size: int) -> Batches:
        """Yield (row indices, what computes their positions) batch by batch, every row once.

        ``wanted[i]`` are the tokens whose scores are asked for behind each of the last
        ``len(wanted[i])`` tokens of row i. A batch's positions stand one row behind the other,
        and are the same whether other batches are computed or not.
        """
        raise NotImplementedError

    def row_losses(self, rows: Rows) -> list[list[float]]:
        """Return -ln p of every token but the first of each row of one batch, in nats."""
        raise NotImplementedError

    def group_losses(self, groups: Sequence[Rows]) -> list[list[list[float]]]:
        """Return ``row_losses`` of each group of rows that begin alike, for a batch of groups."""
        found = iter(self.row_losses(list(chain(*groups))))
        return [list(islice(found, len(rows))) for rows in groups]

    def generate(
        self, prompts: Rows, new_tokens: int, stop: str | None, keep_logits: bool = False
    ) -> tuple[list[Answer], Sequence[Any]]:
        """Return the greedy answer to each prompt of one batch, and each step's logits.

        The end token is left out of an answer. The logits, tensors (rows, vocabulary), come
        with ``keep_logits``, which not every backend knows.
        """
        raise NotImplementedError

    def score_rows(self, rows: Sequence[Asked], batch_size: int) -> list[Scored]:
        """Return (own, last, greedy) of each row (tokens, ends, count).

        ``own``: ln p of each of the row's last ``count`` tokens, or more of them, and whether it
        is the likeliest one; ``last``: ln p of each of ``ends`` behind the row, ``greedy`` the
        likeliest token there.
        """
        raise NotImplementedError

    def continuations(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], batch_size: int
    ) -> list[tuple[float, bool]]:
        """Return ln p of each of lm-eval's continuations and whether it is the greedy one.

        Requests are (texts, context tokens, continuation tokens). As in lm-eval, what is too long
        is cut at the left, and requests that share all tokens but the last are computed once.
        """
        rows: dict[tuple[int, ...], list[int]] = {}
        for k, (_, context, continuation) in enumerate(requests):
            tokens = tuple([*context, *continuation][-(self.max_length + 1) :])
            rows.setdefault(tokens[:-1], []).append(k)
        asked = [
            (
                tokens,
                [requests[k][2][-1] for k in members],
                max(len(requests[k][2]) for k in members) - 1,
            )
            for tokens, members in rows.items()
        ]
        scores: dict[int, tuple[float, bool]] = {}
        found = self.score_rows(asked, batch_size)
        for members, (own, ends, greedy) in zip(rows.values(), found, strict=True):
            for k, end in zip(members, ends, strict=True):
                continuation = requests[k][2]
                before = own[len(own) - (len(continuation) - 1) :]
                total = sum(score for score, _ in before) + end
                scores[k] = (total, greedy == continuation[-1] and all(best for _, best in before))
        return [scores[k] for k in range(len(requests))]

    def close(self) -> None:
        """Give back what the backend holds; the model is of no use afterwards."""
