"""Scoring lettered options by the model's next-token logits.

The rule for candidate tokens: the prompt is encoded once with each candidate behind it. What
the encodings share is the context, what follows is the candidate. Usually that is one token
each, and one pass over the context gives all options. Where a tokenizer splits or merges
candidates so that more than one token differs, each option is scored by the summed
log-probability of its tokens. Bare ``encode("A")`` is never used: it differs in most tokenizers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import UserError
from ..progress import Progress
from .language_model import LOGITS_BUDGET, LanguageModel
from .prompts import Prompt

# Decimals kept of logits and log-probabilities; float32 has about seven digits.
DIGITS = 6
PATHS = ("next-token", "shared-prefix", "summed")


@dataclass(frozen=True)
class Plan:
    """How one prompt is scored.

    ``context`` are the tokens shared by all options, ``tails`` each option's further tokens.
    ``path``: ``next-token`` (tails of one token right behind the prompt), ``shared-prefix``
    (one token behind a part of the continuation that is common to all options, such as a lone
    blank, whose probability cancels) or ``summed``.
    """

    context: tuple[int, ...]
    tails: tuple[tuple[int, ...], ...]
    path: str


@dataclass(frozen=True)
class Scores:
    """One prompt's scores.

    ``logits`` in float32: the option tokens' logits, or summed log-probabilities; ``logprobs``
    in the full vocabulary; ``mass`` the options' total probability (None for ``summed``);
    ``n_tokens`` of the context as seen by the model, ``truncated`` if it was cut at the left.
    """

    logits: list[float]
    logprobs: list[float]
    mass: float | None
    n_tokens: int
    truncated: bool
    path: str


def make_plan(prompt: Sequence[int], encodings: Sequence[Sequence[int]]) -> Plan:
    """Return the plan for a prompt's tokens and those of the prompt with each option behind it.

    Raises UserError if two options have the same tokens or nothing stands before them.
    """
    if len({tuple(ids) for ids in encodings}) < len(encodings):
        raise UserError(
            "the tokenizer gives two options the same tokens, so they cannot be told apart; "
            "use another prompt style"
        )
    shortest = min(len(ids) for ids in encodings)
    first = encodings[0]
    shared = next(
        (k for k in range(shortest) if any(ids[k] != first[k] for ids in encodings)), shortest
    )
    # An option that is the beginning of another one still needs a token of its own.
    shared = min(shared, shortest - 1)
    if shared < 1:
        raise UserError(
            "a prompt has no token before its options and the tokenizer adds no BOS; "
            "the prompt text must not be empty"
        )
    tails = tuple(tuple(ids[shared:]) for ids in encodings)
    if any(len(tail) != 1 for tail in tails):
        path = "summed"
    else:
        path = "next-token" if shared == len(prompt) else "shared-prefix"
    return Plan(tuple(first[:shared]), tails, path)


def make_plans(
    lm: LanguageModel, prompts: Sequence[Prompt], chat_template: bool = False
) -> list[Plan]:
    """Return the plan of each prompt.

    With ``chat_template`` the prompt becomes a user turn, the template brings its own BOS and
    candidates lose their leading blank, as an answer turn starts with the letter.
    """
    prefixes = [prefix for prefix, _ in prompts]
    candidates = [options for _, options in prompts]
    if chat_template:
        prefixes = [lm.chat(prefix) for prefix in prefixes]
        candidates = [[option.lstrip() for option in options] for options in candidates]
    bare = lm.encode(prefixes, special=not chat_template)
    full = lm.encode(
        [prefix + option for prefix, options in zip(prefixes, candidates) for option in options],
        special=not chat_template,
    )
    plans, start = [], 0
    for ids, options in zip(bare, candidates):
        plans.append(make_plan(ids, full[start : start + len(options)]))
        start += len(options)
    return plans


def right_padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return token rows as one (rows, longest) tensor, filled up at the right with zeros."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])


@torch.inference_mode()
def score_next(lm: LanguageModel, plans: Sequence[Plan]) -> list[Scores]:
    """Score a batch of plans whose options are one token each: one pass over the contexts."""
    contexts = [plan.context[-lm.max_length :] for plan in plans]
    hidden = lm.hidden(right_padded(contexts))
    rows = torch.arange(len(contexts), device=hidden.device)
    lengths = torch.tensor([len(context) for context in contexts], device=hidden.device)
    last = hidden[rows, lengths - 1]
    ids = sorted({tail[0] for plan in plans for tail in plan.tails})
    column = {token: k for k, token in enumerate(ids)}
    table = lm.logits(last, torch.tensor(ids, device=hidden.device)).tolist()
    step = max(1, LOGITS_BUDGET // lm.head.weight.shape[0])
    total = torch.cat(
        [lm.logits(last[k : k + step]).logsumexp(-1) for k in range(0, len(last), step)]
    ).tolist()
    scores = []
    for plan, context, row, norm in zip(plans, contexts, table, total):
        logits = [row[column[tail[0]]] for tail in plan.tails]
        logprobs = [logit - norm for logit in logits]
        mass = float(torch.tensor(logprobs, dtype=torch.float64).exp().sum())
        scores.append(
            Scores(
                [round(x, DIGITS) for x in logits],
                [round(x, DIGITS) for x in logprobs],
                round(mass, DIGITS),
                len(context),
                len(context) < len(plan.context),
                plan.path,
            )
        )
    return scores


def score_summed(lm: LanguageModel, plans: Sequence[Plan]) -> list[Scores]:
    """Score a batch of plans with longer options: one pass over context and option each."""
    scores = []
    for plan in plans:
        keep = lm.max_length + 1
        rows = [[*plan.context, *tail][-keep:] for tail in plan.tails]
        nll = lm.token_nll(right_padded(rows))
        sums = []
        for row, tail, losses in zip(rows, plan.tails, nll):
            end = len(row) - 1
            sums.append(round(-float(losses[end - len(tail) : end].double().sum()), DIGITS))
        longest = max(len(tail) for tail in plan.tails)
        cut = len(plan.context) + longest > keep
        scores.append(Scores(sums, sums, None, len(plan.context), cut, plan.path))
    return scores


def score_prompts(
    lm: LanguageModel,
    prompts: Sequence[Prompt],
    batch_size: int = 32,
    chat_template: bool = False,
    label: str = "options",
) -> list[Scores]:
    """Return each prompt's scores, in the order given.

    Batches are made of prompts of similar length, filled up at the right. ``batch_size``
    changes results by rounding only (at most 1e-3 in log-probability in float32).
    """
    plans = make_plans(lm, prompts, chat_template)
    results: list[Scores | None] = [None] * len(plans)
    progress = Progress(len(plans), label)
    order = sorted(range(len(plans)), key=lambda k: (len(plans[k].context), k))
    for summed, scorer in ((False, score_next), (True, score_summed)):
        chosen = [k for k in order if (plans[k].path == "summed") == summed]
        for start in range(0, len(chosen), batch_size):
            batch = chosen[start : start + batch_size]
            for k, scores in zip(batch, scorer(lm, [plans[k] for k in batch])):
                results[k] = scores
            progress.update(len(batch))
    return results  # type: ignore[return-value]


def make_record(
    item: dict[str, Any], order: Sequence[int], scores: Scores, gold: int, unknown: int
) -> dict[str, Any]:
    """Return one item's record; ``item`` holds item_id, category, cluster and further fields.

    ``order[j]`` is the answer shown at position j. Scores, prediction, gold and unknown are
    indices of the answers as the data set numbers them, whatever order was shown.
    """
    place = [list(order).index(answer) for answer in range(len(order))]
    logits = [scores.logits[position] for position in place]
    # A tie goes to the option shown first, as argmax over the letters would do.
    pred = order[max(range(len(order)), key=lambda position: scores.logits[position])]
    return {
        **item,
        "perm": "".join(map(str, order)),
        "option_logits": logits,
        "option_logprobs": [scores.logprobs[position] for position in place],
        "mass": scores.mass,
        "pred": pred,
        "gold": gold,
        "unknown_idx": unknown,
        "correct": pred == gold,
        "tie": logits.count(max(logits)) > 1,
        "n_tokens": scores.n_tokens,
        "truncated": scores.truncated,
        "path": scores.path,
    }
