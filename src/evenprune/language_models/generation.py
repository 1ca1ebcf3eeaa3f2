"""Greedy answers: in batches of similar length, each through transformers' ``generate``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from ..io.errors import UserError
from .language_model import LanguageModel
from .prefix_sharing import Rows

# A stop text of two characters lies in the last few tokens when it is completed.
STOP_TAIL = 8
# An answer's own tokens, how it finished (``end``, ``stop`` or ``length``), and a sum that is
# finite if every logit vector that a token was chosen from was sound.
Answer = tuple[list[int], str, float]


@dataclass(frozen=True)
class Completion:
    """What a model wrote after one prompt.

    ``text`` without special tokens and without the stop text; ``n_tokens`` of the prompt as
    seen by the model, ``truncated`` if it was cut at the left; ``n_new_tokens`` generated tokens,
    the end token not counted; ``finish``: ``end`` (end token), ``stop`` (stop text) or ``length``.
    """

    text: str
    n_tokens: int
    n_new_tokens: int
    finish: str
    truncated: bool


def greedy(
    lm: LanguageModel,
    rows: Rows,
    new_tokens: int,
    batch_size: int,
    label: str,
    stop: str | None = None,
    note: Callable[[int, list[int], torch.Tensor], Any] | None = None,
    names: Sequence[object] | None = None,
) -> list[tuple[Completion, list[int], Any]]:
    """Return (completion, its tokens, note) of every row.

    ``rows`` are prompts as token ids; batches hold prompts of similar length. At most
    ``new_tokens`` tokens are generated, up to an end token or ``stop``. ``note`` is called with
    row number, the answer's tokens and the float32 logits (tokens, vocabulary) of each step and
    returns what is wanted of them, as JSON; its note is None for an answer without tokens and
    where there is no ``note``. Sampling options and penalties of the model's generation_config
    are not used. Finished batches, token ids and notes, go to the model's journal under
    ``label`` and are taken from there.

    Prompts are cut at the left to leave room for the answer. Raises UserError for an empty
    prompt, for a model whose context has no room for a prompt, and for one whose logits are not
    finite numbers; ``names`` say what a row belongs to, its number by default.
    """
    room = lm.max_length - new_tokens
    if room < 1:
        raise UserError(
            f"expected max_new_tokens below the model's {lm.max_length} positions, got "
            f"{new_tokens}; set a smaller max_new_tokens"
        )
    if any(not row for row in rows):
        raise UserError(
            "a prompt has no token and the tokenizer adds no BOS; the prompt must not be empty"
        )
    prompts = [list(row[-room:]) for row in rows]

    def compute(batch: list[int]) -> list[tuple[list[int], str, float, Any]]:
        chosen = [prompts[k] for k in batch]
        made, steps = generate_batch(lm, chosen, new_tokens, stop, note is not None)
        kept = []
        for row, (k, (tokens, finish, total)) in enumerate(zip(batch, made, strict=True)):
            logits = [step[row] for step in steps[: len(tokens)]]
            found = note(k, tokens, torch.stack(logits)) if note and tokens else None
            kept.append((tokens, finish, total, found))
        return kept

    order = sorted(range(len(rows)), key=lambda k: (len(rows[k]), k))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    made = lm.batched(
        label, names or range(len(rows)), ((batch, partial(compute, batch)) for batch in batches)
    )
    answers = []
    for k, prompt in enumerate(prompts):
        tokens, finish, _, found = made[k]
        text = str(lm.tokenizer.decode(tokens, skip_special_tokens=True))
        text = text.partition(stop)[0] if stop else text
        cut = len(prompt) < len(rows[k])
        answers.append((Completion(text, len(prompt), len(tokens), finish, cut), tokens, found))
    return answers


class _StopAtText(StoppingCriteria):
    """Stops each row where ``stop`` appears in its new text; remembers after how many tokens."""

    def __init__(self, tokenizer: Any, stop: str, width: int, rows: int) -> None:
        self.tokenizer, self.stop, self.width = tokenizer, stop, width
        self.lengths: list[int | None] = [None] * rows

    def __call__(self, input_ids: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        new = input_ids[:, self.width :]
        for row, tokens in enumerate(new[:, -STOP_TAIL:].tolist()):
            if self.lengths[row] is None and self.stop in self.tokenizer.decode(tokens):
                self.lengths[row] = new.shape[1]
        done = [length is not None for length in self.lengths]
        return torch.tensor(done, device=input_ids.device)


class _Peaks(LogitsProcessor):
    """Remembers each step's largest logit of every row: NaN if any is, infinite if none is finite.

    So -inf here and there is no fault. One pass, as argmax is; nothing waits for the device.
    """

    def __init__(self) -> None:
        self.steps: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.steps.append(scores.amax(-1))
        return scores


def finished(new: list[int], ends: Sequence[int], stopped: int | None) -> tuple[list[int], str]:
    """Return an answer's own tokens and how it finished.

    ``new`` are the generated tokens, behind the end perhaps filling; ``stopped`` is the number
    of tokens after which the stop text stood there, None if it never did.
    """
    end = next((k for k, token in enumerate(new) if token in ends), None)
    if end is not None and (stopped is None or end < stopped):
        return new[:end], "end"
    return (new, "length") if stopped is None else (new[:stopped], "stop")


def generate_batch(
    lm: LanguageModel, prompts: Rows, new_tokens: int, stop: str | None, keep_logits: bool
) -> tuple[list[Answer], Sequence[torch.Tensor]]:
    """Return each row's answer by transformers, and each step's logits (rows, vocabulary).

    ``prompts`` are token ids, filled up at the left here. Without ``keep_logits`` there are no
    logits.
    """
    model, own = lm.model, lm.model.generation_config
    given = own.eos_token_id
    # The model's own and the tokenizer's
    found = {given} if isinstance(given, int) else set(given or ())
    ends = sorted(found | ({lm.tokenizer.eos_token_id} - {None}))
    filling = ends[0] if ends else 0
    rows = [torch.tensor(prompt) for prompt in prompts]
    ids = pad_sequence(rows, batch_first=True, padding_value=filling, padding_side="left")
    mask = pad_sequence([*map(torch.ones_like, rows)], batch_first=True, padding_side="left")
    width = ids.shape[1]
    peaks = _Peaks()
    criterion = _StopAtText(lm.tokenizer, stop, width, len(prompts)) if stop else None
    # generate() takes what its argument leaves open from the model's own configuration,
    # so that one is put aside: it may hold a repetition penalty.
    model.generation_config = GenerationConfig(
        do_sample=False,
        use_cache=True,
        max_new_tokens=new_tokens,
        eos_token_id=ends or None,
        pad_token_id=filling,
        output_logits=keep_logits,
        return_dict_in_generate=True,
    )
    try:
        with torch.inference_mode():
            out = model.generate(  # type: ignore[operator]  # its base class has none
                ids.to(model.device),
                attention_mask=mask.to(model.device),
                logits_processor=LogitsProcessorList([peaks]),
                stopping_criteria=StoppingCriteriaList([criterion] if criterion else []),
            )
    finally:
        model.generation_config = own
    made = out.sequences[:, width:].tolist()
    stopped = criterion.lengths if criterion else [None] * len(prompts)
    answers = [finished(new, ends, length) for new, length in zip(made, stopped, strict=True)]
    steps = torch.stack(peaks.steps, dim=1).double().tolist()
    return [
        # The end token was chosen as well; what fills a row up behind it was not.
        (tokens, finish, sum(row[: len(tokens) + (finish == "end")]))
        for (tokens, finish), row in zip(answers, steps, strict=True)
    ], out.logits or ()
