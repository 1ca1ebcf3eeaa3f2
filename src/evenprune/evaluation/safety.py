"""RealToxicityPrompts and HarmBench: greedy answers, read by a judge.

Data: Gehman et al. 2020 (prompts to continue) and Mazeika et al. 2024 (behaviours to refuse).
The answers themselves are stored only on request; their length and SHA-256 always are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.checksums import source_folder, source_name
from ..base.errors import UserError
from ..data.readers.harmbench import read_harmbench
from ..data.readers.realtoxicityprompts import Prompt, read_realtoxicityprompts
from ..data.readers.rows import find_file, jsonl_files
from ..plan.tasks import FACTS
from .causal_model import CausalModel
from .generation import Completion, greedy
from .judges import (
    LEXICAL,
    UNPARSED,
    UNSAFE,
    GuardJudge,
    Judge,
    Judgement,
    LexicalJudge,
    is_refusal,
)
from .metrics import Metric, Record, by_category, mean
from .protocol import Outcome, Protocol, pick
from .sampling import stratified_sample

# The paper's sample size, and the number of each kind in the balanced one.
SAMPLE, HALF = 1200, 600
BLANK_LINE = "\n\n"
# HarmBench's own text between a context and its behaviour.
CONTEXT_SEPARATOR = "\n\n---\n\n"


@dataclass(frozen=True)
class Item:
    """One prompt; ``extra`` are further fields of its record."""

    id: str
    category: str
    prompt: str
    extra: dict[str, Any]


def make_judge(lm: CausalModel, spec: Protocol) -> Judge:
    """Return the guard model that the options name, else the lexical judge.

    The guard is loaded with transformers whatever the backend: its probabilities need logits of
    every step. Its finished batches go to the journal of ``lm``.
    """
    if spec.judge is None:
        return LexicalJudge(spec.lexicon)
    name, folder = source_name(spec.judge), source_folder(spec.judge)
    guard = GuardJudge(folder, name, spec.judge_forms, lm.device_type, spec.batch_size)
    guard.lm = guard.lm.with_journal(lm.journal)
    return guard


def answers(
    lm: CausalModel, items: Sequence[Item], spec: Protocol, stop: str | None
) -> list[Completion]:
    """Return the model's greedy answer to each prompt, in the order of the items."""
    texts = [item.prompt for item in items]
    if spec.chat_template:
        texts = lm.chats(texts)
    rows = lm.encode(texts, special=not spec.chat_template)
    made = greedy(
        lm,
        rows,
        spec.max_new_tokens,
        spec.batch_size,
        f"{spec.task} answers",
        stop,
        names=[item.id for item in items],
    )
    found = {k: completion for k, completion, _, _ in made}
    return [found[k] for k in range(len(items))]


def make_record(
    item: Item, completion: Completion, judgements: Sequence[Judgement], store: bool
) -> dict[str, Any]:
    """Return the record of one item; ``verdict`` is the first judgement's.

    ``unsafe`` is None where that verdict is unparsed. The text itself only with ``store``.
    """
    verdict = judgements[0].verdict
    record = {
        "item_id": item.id,
        "category": item.category,
        **item.extra,
        "n_tokens": completion.n_tokens,
        "truncated": completion.truncated,
        "n_new_tokens": completion.n_new,
        "finish": completion.finish,
        "response_sha256": hashlib.sha256(completion.text.encode()).hexdigest(),
        "response_characters": len(completion.text),
        "empty": not completion.text.strip(),
        "refusal": is_refusal(completion.text),
        "verdict": verdict,
        "unsafe": None if verdict == UNPARSED else verdict == UNSAFE,
        "judgements": [judgement.as_dict() for judgement in judgements],
    }
    return {**record, "response": completion.text} if store else record


def safety_metrics(records: Sequence[Record]) -> dict[str, Metric]:
    """Return the rates of unsafe, unparsed, refused and empty answers, and their mean length.

    ``unsafe_rate`` is over the answers with a verdict, the others are shares of all answers.
    With a guard model each form has its own ``unsafe_rate_F``, ``unparsed_rate_F``,
    ``says_unsafe_F`` and mean P(unsafe) ``p_unsafe_F``; ``says_unsafe_paper`` is what the paper
    prints.
    """
    metrics = {
        "unsafe_rate": mean(float(r["unsafe"]) for r in records if r["unsafe"] is not None),
        "unparsed_rate": mean(float(r["unsafe"] is None) for r in records),
        "refusal_rate": mean(float(r["refusal"]) for r in records),
        "empty_rate": mean(float(r["empty"]) for r in records),
        "new_tokens": mean(float(r["n_new_tokens"]) for r in records),
    }
    forms = [judgement["form"] for judgement in records[0]["judgements"]] if records else []
    for place, form in enumerate(forms):
        if form == LEXICAL:
            continue
        own = [record["judgements"][place] for record in records]
        scores = [judgement["p_unsafe"] for judgement in own if judgement["p_unsafe"] is not None]
        decided = [j["verdict"] == UNSAFE for j in own if j["verdict"] != UNPARSED]
        metrics |= {
            f"unsafe_rate_{form}": mean(map(float, decided)),
            f"unparsed_rate_{form}": mean(float(j["verdict"] == UNPARSED) for j in own),
            f"says_unsafe_{form}": mean(float(j["says_unsafe"]) for j in own),
            f"p_unsafe_{form}": mean(scores),
        }
    return metrics


def evaluate_items(
    lm: CausalModel, items: Sequence[Item], spec: Protocol, stop: str | None, facts: dict[str, Any]
) -> Outcome:
    """Return records and metrics of the items.

    The judge is loaded before anything is generated, so that a bad one shows at once.
    """
    judge = make_judge(lm, spec)
    completions = answers(lm, items, spec, stop)
    pairs = [(item.prompt, made.text) for item, made in zip(items, completions)]
    names = [item.id for item in items]
    records = [
        make_record(item, made, judgements, spec.store_generations)
        for item, made, judgements in zip(items, completions, judge.judge(pairs, names))
    ]
    finishes = [record["finish"] for record in records]
    facts |= {
        "judge": judge.describe(),
        "stop": stop,
        "finish": {name: finishes.count(name) for name in sorted(set(finishes))},
        "truncated": sum(record["truncated"] for record in records),
    }
    return Outcome(records, safety_metrics(records), by_category(records, safety_metrics), facts)


class RealToxicityPrompts:
    """Continuations of RealToxicityPrompts, each up to its first blank line as in lm-eval.

    Splits: ``random1200``, a seeded uniform sample of 1,200 rows (lm-eval's limit would take
    the first); ``balanced1200``, 600 challenging prompts and 600 others; ``full``.
    """

    STYLES = ()
    SPLITS = FACTS["realtoxicityprompts"].splits
    HEADLINE = FACTS["realtoxicityprompts"].headline

    @staticmethod
    def data_files(data: Path, spec: Protocol) -> list[Path]:
        """Return the files that are read."""
        return jsonl_files(data)

    @staticmethod
    def select(prompts: Sequence[Prompt], split: str, seed: int) -> list[int]:
        """Return the rows of a split, in the order of the data; all where there are fewer."""
        if split == "full":
            return list(range(len(prompts)))
        if split == "random1200":
            return stratified_sample([0] * len(prompts), SAMPLE, seed)
        chosen: list[int] = []
        for flag in (True, False):
            rows = [k for k, prompt in enumerate(prompts) if bool(prompt.challenging) is flag]
            chosen += [rows[k] for k in stratified_sample([flag] * len(rows), HALF, seed)]
        return sorted(chosen)

    @staticmethod
    def evaluate(lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
        """Continue and judge the prompts."""
        split = pick(spec.split, RealToxicityPrompts.SPLITS, "split", "realtoxicityprompts")
        prompts = read_realtoxicityprompts(data)
        rows = RealToxicityPrompts.select(prompts, split, spec.seed)
        items = [
            Item(
                prompt.id,
                "challenging" if prompt.challenging else "other",
                prompt.text,
                {"prompt_toxicity": prompt.toxicity},
            )
            for prompt in (prompts[k] for k in rows)
        ]
        chosen = stratified_sample([item.category for item in items], spec.limit, spec.seed)
        facts = {"split": split, "items_in_data": len(prompts), "items_in_split": len(items)}
        return evaluate_items(lm, [items[k] for k in chosen], spec, BLANK_LINE, facts)


class HarmBench:
    """Answers to HarmBench's text behaviours, asked directly.

    Splits: ``standard`` (200), ``all`` (400), ``contextual`` and ``copyright`` (100 each). A
    context stands before its behaviour, separated as in HarmBench. No stop at a blank line:
    with it an answer that begins with one would be empty and pass for safe.
    """

    STYLES = ()
    SPLITS = FACTS["harmbench"].splits
    HEADLINE = FACTS["harmbench"].headline

    @staticmethod
    def data_files(data: Path, spec: Protocol) -> list[Path]:
        """Return the file that is read."""
        return [find_file(data, "harmbench_behaviors_text_all.csv")]

    @staticmethod
    def evaluate(lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
        """Ask for and judge the behaviours; categories are topics, subsets for ``all``."""
        split = pick(spec.split, HarmBench.SPLITS, "split", "harmbench")
        behaviours = read_harmbench(data)
        items = []
        for row in behaviours:
            if split not in ("all", row.category):
                continue
            prompt = row.behaviour
            if row.context:
                prompt = f"{row.context}{CONTEXT_SEPARATOR}{row.behaviour}"
            category = row.category if split == "all" else row.topic
            items.append(Item(row.id, category, prompt, {"subset": row.category}))
        if not items:
            there = ", ".join(sorted({row.category for row in behaviours}))
            raise UserError(
                f"expected behaviours of split {split} in {HarmBench.data_files(data, spec)[0]}, "
                f"found only {there}; fetch the data again or choose another split"
            )
        chosen = stratified_sample([item.category for item in items], spec.limit, spec.seed)
        facts = {"split": split, "items_in_data": len(behaviours), "items_in_split": len(items)}
        return evaluate_items(lm, [items[k] for k in chosen], spec, None, facts)
