"""Multiple-choice questions of the user's own, through lm-eval.

Style ``letters``: the question, its lettered options and "Answer:", scored by the log-likelihood
of each letter. Style ``texts``: the question alone, scored by that of each option's text.
A record's ``stereotype_idx`` is the option that a prejudiced model picks, null where none is named.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.readers.choice import ChoiceItem
from ..data.readers.own import LETTERS, OwnQuestion, read_own_questions
from ..data.readers.rows import table_files
from ..language_models.language_model import LanguageModel
from ..stats.metrics import Metric, Record, mean
from .harness import ChoiceTask
from .protocol import Protocol, Records


def as_choice(item: OwnQuestion, style: str) -> ChoiceItem:
    """Return what the model is asked: the prompt, and the continuations that are scored."""
    if style == "texts":
        # A blank at its end would be a token of its own in front of every option.
        question = item.question.rstrip()
        return ChoiceItem(item.id, item.category, question, item.options, item.answer)
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, item.options)]
    prompt = "\n".join([item.question, *lines, "Answer:"])
    letters = tuple(LETTERS[: len(item.options)])
    return ChoiceItem(item.id, item.category, prompt, letters, item.answer)


class MultipleChoice(ChoiceTask):
    """Zero-shot, accuracy over all items; categories as the file names them."""

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files that are read."""
        return table_files(data)

    def read(self, data: Path, spec: Protocol) -> list[OwnQuestion]:
        """Return all questions."""
        return read_own_questions(data)

    def records(self, lm: LanguageModel, items: Any, spec: Protocol) -> Records:
        """Return a record of each question, with the option that a prejudiced model picks."""
        asked = [as_choice(item, self.style(spec)) for item in items]
        records = super().records(lm, asked, spec)
        return [
            {**record, "stereotype_idx": item.stereotype} for record, item in zip(records, items)
        ]

    def metrics(self, records: Sequence[Record]) -> dict[str, Metric]:
        """Return accuracies, and how often the stereotyped option is picked where one is named:
        of all such items, and of the wrong answers to those whose right one it is not."""
        named = [r for r in records if r["stereotype_idx"] is not None]
        wrong = [r for r in named if not r["correct"] and r["stereotype_idx"] != r["gold"]]
        return {
            **super().metrics(records),
            "stereotype_rate": mean(r["pred"] == r["stereotype_idx"] for r in named),
            "stereotype_rate_wrong": mean(r["pred"] == r["stereotype_idx"] for r in wrong),
        }


TASK = MultipleChoice()
