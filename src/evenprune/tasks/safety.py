"""What RealToxicityPrompts and HarmBench share: greedy answers, read by a judge.

The answers themselves are stored only on request; their length and SHA-256 always are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..io.checksums import source_folder, source_name
from ..language_models.generation import Completion, greedy
from ..language_models.language_model import LanguageModel
from ..stats.metrics import Metric, Record, mean
from .judges import LEXICAL, UNPARSED, UNSAFE, GuardJudge, Judgement, LexicalJudge, is_refusal
from .protocol import Protocol, Records
from .task import ItemTask


@dataclass(frozen=True)
class SafetyPrompt:
    """One prompt; ``extra`` are further fields of its record."""

    id: str
    category: str
    prompt: str
    extra: dict[str, Any]


def make_record(
    item: SafetyPrompt, completion: Completion, judgements: Sequence[Judgement], store: bool
) -> dict[str, Any]:
    """Return the record of one item; ``verdict`` is the first judgement's.

    ``unsafe`` is None where that verdict is unparsed. The text itself only with ``store``.
    """
    verdict = judgements[0].verdict
    answer = asdict(completion)
    text = answer.pop("text")
    record = {
        "item_id": item.id,
        "category": item.category,
        **item.extra,
        **answer,
        "response_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "response_characters": len(text),
        "empty": not text.strip(),
        "refusal": is_refusal(text),
        "verdict": verdict,
        "unsafe": None if verdict == UNPARSED else verdict == UNSAFE,
        "judgements": [asdict(judgement) for judgement in judgements],
    }
    return {**record, "response": text} if store else record


def safety_metrics(records: Sequence[Record]) -> dict[str, Metric]:
    """Return the rates of unsafe, unparsed, refused and empty answers, and their mean length.

    ``unsafe_rate`` is over the answers with a verdict, the others are shares of all answers.
    With a guard model each form has its own ``unsafe_rate_F``, ``unparsed_rate_F``,
    ``says_unsafe_F`` and mean P(unsafe) ``p_unsafe_F``; ``says_unsafe_paper`` is what the paper
    prints.
    """
    metrics = {
        "unsafe_rate": mean(r["unsafe"] for r in records if r["unsafe"] is not None),
        "unparsed_rate": mean(r["unsafe"] is None for r in records),
        "refusal_rate": mean(r["refusal"] for r in records),
        "empty_rate": mean(r["empty"] for r in records),
        "new_tokens": mean(r["n_new_tokens"] for r in records),
    }
    forms = [judgement["form"] for judgement in records[0]["judgements"]] if records else []
    for place, form in enumerate(forms):
        if form == LEXICAL:
            continue
        own = [record["judgements"][place] for record in records]
        decided = [j["verdict"] == UNSAFE for j in own if j["verdict"] != UNPARSED]
        metrics |= {
            f"unsafe_rate_{form}": mean(decided),
            f"unparsed_rate_{form}": mean(j["verdict"] == UNPARSED for j in own),
            f"says_unsafe_{form}": mean(j["says_unsafe"] for j in own),
            f"p_unsafe_{form}": mean(j["p_unsafe"] for j in own if j["p_unsafe"] is not None),
        }
    return metrics


class SafetyTask(ItemTask):
    """A task whose prompts are answered greedily, up to ``stop`` if there is one, and judged."""

    stop: str | None = None
    metrics = staticmethod(safety_metrics)

    def records(self, lm: LanguageModel, items: Any, spec: Protocol) -> Records:
        """Return a record of each answer.

        The judge is loaded before anything is generated, so that a bad one shows at once. Its
        finished batches go to the journal of ``lm``.
        """
        judge: LexicalJudge | GuardJudge = LexicalJudge(spec.lexicon)
        if spec.judge is not None:
            name, folder = source_name(spec.judge), source_folder(spec.judge)
            judge = GuardJudge(folder, name, spec.judge_forms, lm.device_type, spec.batch_size)
            judge.lm = judge.lm.with_journal(lm.journal)
        texts, names = [item.prompt for item in items], [item.id for item in items]
        shown = lm.chats(texts) if spec.chat_template else texts
        rows = lm.encode(shown, special=not spec.chat_template)
        label = f"{spec.task} answers"
        made = greedy(lm, rows, spec.max_new_tokens, spec.batch_size, label, self.stop, names=names)
        answers = [answer for answer, *_ in made]
        pairs = [(text, answer.text) for text, answer in zip(texts, answers)]
        return [
            make_record(item, answer, judgements, spec.store_generations)
            for item, answer, judgements in zip(items, answers, judge.judge(pairs, names))
        ]
