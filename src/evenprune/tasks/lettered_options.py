"""Tasks with lettered options, scored by the model's next-token logits.

The rule for candidate tokens: the prompt is encoded once with each candidate behind it. What
the encodings share is the context, what follows is the candidate. Usually that is one token
each, and one pass over the context gives all options. Where a tokenizer splits or merges
candidates so that more than one token differs, each option is scored by the summed
log-probability of its tokens. Bare ``encode("A")`` is never used: it differs in most tokenizers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any

from ..data.prompts import LETTERS, STYLES, Prompt, by_text
from ..io.errors import UserError
from ..stats.metrics import Metric, Record, mean
from .protocol import DIGITS, Protocol, Records
from .task import ItemTask, Metrics

if TYPE_CHECKING:
    from ..language_models.language_model import LanguageModel, Position
    from ..language_models.prefix_sharing import Rows


@dataclass(frozen=True)
class ScoringPlan:
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
class OptionScores:
    """One prompt's scores.

    ``option_logits`` in float32: the option tokens' logits, or summed log-probabilities;
    ``option_logprobs`` in the full vocabulary; ``mass`` the options' total probability (None for
    ``summed``); ``n_tokens`` of the context as seen by the model, ``truncated`` if it was cut at
    the left.
    """

    option_logits: list[float]
    option_logprobs: list[float]
    mass: float | None
    n_tokens: int
    truncated: bool
    path: str


def make_plan(prompt: Sequence[int], encodings: "Rows") -> ScoringPlan:
    """Return the plan for a prompt's tokens and those of the prompt with each option after it.

    Raises UserError if two options have the same tokens or nothing stands before them.
    """
    if len({tuple(ids) for ids in encodings}) < len(encodings):
        raise UserError(
            "the tokenizer gives two options the same tokens, so they cannot be told apart; "
            "use another prompt style"
        )
    apart = (k for k, tokens in enumerate(zip(*encodings)) if len(set(tokens)) > 1)
    # An option that is the beginning of another one still needs a token of its own.
    last = min(map(len, encodings)) - 1
    shared = min(next(apart, last), last)
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
    return ScoringPlan(tuple(encodings[0][:shared]), tails, path)


def make_plans(
    lm: "LanguageModel", prompts: Sequence[Prompt], chat_template: bool = False
) -> list[ScoringPlan]:
    """Return the plan of each prompt.

    With ``chat_template`` the prompt becomes a user turn, the template brings its own BOS and
    candidates lose their leading blank, as an answer turn starts with the letter.
    """
    if chat_template:
        chats = lm.chats([prefix for prefix, _ in prompts])
        bare_options = ([option.lstrip() for option in options] for _, options in prompts)
        prompts = list(zip(chats, bare_options))
    bare = lm.encode([prefix for prefix, _ in prompts], not chat_template)
    texts = [prefix + option for prefix, options in prompts for option in options]
    full = iter(lm.encode(texts, not chat_template))
    return [
        make_plan(ids, list(islice(full, len(options)))) for ids, (_, options) in zip(bare, prompts)
    ]


Chosen = Sequence[tuple[Any, dict[str, Any]]]  # items, and further fields of their records
# Tokens to run, and the tokens whose scores are wanted after each of the last positions.
Row = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


def _rows(plan: ScoringPlan, max_length: int) -> list[Row]:
    """Return one row with all options behind it, or one row an option that has more tokens.

    As in lm-eval, what is too long for the model is cut at the left.
    """
    if plan.path != "summed":
        return [(plan.context[-max_length:], (tuple(tail[0] for tail in plan.tails),))]
    longest = max(map(len, plan.tails))
    if longest > max_length:
        raise UserError(f"an option has {longest} tokens, the model takes {max_length}")
    return [
        ((*plan.context, *tail[:-1])[-max_length:], tuple((token,) for token in tail))
        for tail in plan.tails
    ]


def _scores(plan: ScoringPlan, rows: "Sequence[tuple[Row, list[Position]]]") -> OptionScores:
    """Return a plan's scores from the (wanted logits, total) of all its rows' positions."""
    if plan.path == "summed":
        logits = [sum(row[0] - total for row, total in positions) for _, positions in rows]
        logprobs, mass = logits, None
    else:
        logits, total = rows[0][1][0]
        logprobs = [logit - total for logit in logits]
        mass = round(sum(math.exp(logprob) for logprob in logprobs), DIGITS)
    lengths = [len(tokens) - len(wanted) + 1 for (tokens, wanted), _ in rows]
    logits, logprobs = ([round(x, DIGITS) for x in given] for given in (logits, logprobs))
    cut = min(lengths) < len(plan.context)
    return OptionScores(logits, logprobs, mass, max(lengths), cut, plan.path)


def score_prompts(
    lm: "LanguageModel", prompts: Sequence[Prompt], items: Iterable[Any], spec: Protocol, label: str
) -> list[OptionScores]:
    """Return the scores of each prompt, which belong to ``items``, in the order given.

    Common beginnings are computed once, the rest in batches of similar length filled up at the
    right. Both change results by rounding only (at most 1e-3 in log-probability in float32).
    Finished batches go to the model's journal under ``label`` and are taken from there. The
    UserError that is raised when a score is not a finite number names its item.
    """
    plans = make_plans(lm, prompts, bool(spec.chat_template))
    parts = [_rows(plan, lm.max_length) for plan in plans]
    rows = [row for part in parts for row in part]
    names = [item.id for item, part in zip(items, parts) for _ in part]
    tokens, wanted = [row[0] for row in rows], [row[1] for row in rows]
    found = lm.batched(label, names, lm.position_scores(tokens, wanted, spec.batch_size))
    computed = ((row, found[k]) for k, row in enumerate(rows))
    return [_scores(plan, list(islice(computed, len(part)))) for plan, part in zip(plans, parts)]


ORDERS = {1: ((0, 1, 2),), 6: tuple(permutations(range(3)))}
OWN = "012"  # the data's own order


def shown_item(item: Any, order: Sequence[int] = (0, 1, 2)) -> dict[str, str]:
    """Return the fields that prompts read of a BBQ or UnQover item, its answers in this order."""
    shown = {f"ans{j}": item.answers[answer] for j, answer in enumerate(order)}
    return {"context": item.context, "question": item.question, **shown}


def make_record(
    head: Mapping[str, Any], order: Sequence[int], scores: OptionScores, item: Any
) -> dict[str, Any]:
    """Return an item's record in one order; ``head`` are its own fields.

    ``order[j]`` is the answer shown at position j. Scores, prediction, gold and unknown are
    indices of the answers as the data set numbers them, whatever order was shown.
    """
    scored = asdict(scores)
    # A tie goes to the option shown first, as argmax over the letters would do.
    pred = order[scores.option_logits.index(max(scores.option_logits))]
    for name in ("option_logits", "option_logprobs"):
        scored[name] = [scored[name][order.index(answer)] for answer in range(len(order))]
    return {
        **head,
        **scored,
        "perm": "".join(map(str, order)),
        "pred": pred,
        "gold": item.label,
        "unknown_idx": item.unknown,
        "correct": pred == item.label,
        "tie": scores.option_logits.count(max(scores.option_logits)) > 1,
    }


def order_metrics(records: Sequence[Record]) -> dict[str, Metric]:
    """Return what all six orders tell; nothing of records in one order.

    ``acc_orders`` is the mean over items of the share of orders that are right,
    ``acc_all_orders`` the share of items right in every order, ``share_A/B/C`` how often each
    letter is chosen (1/3 each without position bias) and ``acc_unknown_A/B/C`` the accuracy
    when "unknown" stands at that letter.
    """
    if all(record["perm"] == OWN for record in records):
        return {}
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["item_id"], []).append(record)
    shares = [sum(r["correct"] for r in group) / len(group) for group in groups.values()]
    place = [r["perm"].index(str(r["pred"])) for r in records]
    unknown = [r["perm"].index(str(r["unknown_idx"])) for r in records]
    metrics = {
        "acc_orders": mean(shares),
        "acc_all_orders": mean(share == 1 for share in shares),
    }
    for k, letter in enumerate(LETTERS):
        right = [r["correct"] for r, u in zip(records, unknown) if u == k]
        metrics[f"share_{letter}"] = mean(p == k for p in place)
        metrics[f"acc_unknown_{letter}"] = mean(right)
    return metrics


class LetteredTask(ItemTask):
    """A task whose questions are answered with a letter, in one order of their options or all six.

    What counts in metrics and categories is the data's own order. Its ``select`` returns items with
    id, category, label and unknown besides what a prompt shows, each with further fields of its
    records.
    """

    def add_texts(self, lm: "LanguageModel", chosen: Chosen, spec: Protocol) -> None:
        """Add the ``text_logprobs`` of the answers to the fields of records.

        These are ln p of each answer's text behind ``prompts.by_text``, without tokens that all
        answers begin with.
        """
        items = [item for item, _ in chosen]
        prompts = [by_text(shown_item(item)) for item in items]
        scores = score_prompts(lm, prompts, items, spec, f"{self.name} texts")
        for (_, head), found in zip(chosen, scores, strict=True):
            head["text_logprobs"] = found.option_logprobs

    def records(self, lm: "LanguageModel", items: Chosen, spec: Protocol) -> Records:
        """Return a record of each item in each order."""
        if spec.by_text:
            self.add_texts(lm, items, spec)
        jobs = [(item, head, order) for item, head in items for order in ORDERS[spec.orders]]
        style = STYLES[self.style(spec)]
        prompts = [style(shown_item(item, order)) for item, _, order in jobs]
        scores = score_prompts(lm, prompts, [item for item, _, _ in jobs], spec, self.name)
        return [
            make_record({"item_id": item.id, "category": item.category, **head}, order, score, item)
            for (item, head, order), score in zip(jobs, scores, strict=True)
        ]

    def count(self, records: Sequence[Record]) -> tuple[Metrics, dict[str, Metrics]]:
        """Return the metrics of the own order, and what all orders tell."""
        own = [record for record in records if record["perm"] == OWN]
        metrics, categories = super().count(own)
        return metrics | order_metrics(records), categories
