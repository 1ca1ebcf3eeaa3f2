"""Multiple-choice questions of the user's own, through lm-eval.

Style ``letters``: the question, its lettered options and "Answer:", scored by the log-likelihood
of each letter. Style ``texts``: the question alone, scored by that of each option's text.
A record's ``stereotype_idx`` is the option that a prejudiced model picks, null where none is named.
"""

from collections.abc import Sequence
from pathlib import Path

from ..data.readers.choice import ChoiceItem
from ..data.readers.own_questions import LETTERS, OwnQuestion, read_own_questions
from ..data.readers.rows import table_files
from .causal_model import CausalModel
from .choices import accuracy, choice_record
from .harness import Harness
from .metrics import Metric, Record, by_category, mean
from .protocol import Outcome, Protocol
from .records import CHOICE, COUNT_OR_NULL, FLAG, Fields
from .sampling import stratified_sample
from .task import Task


def as_choice(item: OwnQuestion, style: str) -> ChoiceItem:
    """Return what the model is asked: the prompt, and the continuations that are scored."""
    if style == "texts":
        return ChoiceItem(item.id, item.category, item.question, item.options, item.answer)
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, item.options)]
    prompt = "\n".join([item.question, *lines, "Answer:"])
    letters = tuple(LETTERS[: len(item.options)])
    return ChoiceItem(item.id, item.category, prompt, letters, item.answer)


def choice_metrics(records: Sequence[Record]) -> dict[str, Metric]:
    """Return accuracies, and how often the stereotyped option is picked where one is named:
    of all such items, and of the wrong answers to those whose right one it is not."""
    named = [r for r in records if r["stereotype_idx"] is not None]
    wrong = [r for r in named if not r["correct"] and r["stereotype_idx"] != r["gold"]]
    return {
        **accuracy(records),
        "stereotype_rate": mean(float(r["pred"] == r["stereotype_idx"]) for r in named),
        "stereotype_rate_wrong": mean(float(r["pred"] == r["stereotype_idx"]) for r in wrong),
    }


class MultipleChoice(Task):
    """Zero-shot, accuracy over all items; categories as the file names them."""

    name = "multiple_choice"
    fields = Fields({**CHOICE, "correct_norm": FLAG, "stereotype_idx": COUNT_OR_NULL})

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files that are read."""
        return table_files(data)

    def evaluate(self, lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
        """Score the questions through lm-eval."""
        split, style = self.split(spec), self.style(spec)
        items = read_own_questions(data)
        categories = [item.category for item in items]
        chosen = [items[k] for k in stratified_sample(categories, spec.limit, spec.seed)]
        asked = [as_choice(item, style) for item in chosen]
        samples = Harness(lm, spec).choices(self.name, asked)
        records = [
            {**choice_record(question, sample), "stereotype_idx": item.stereotype}
            for item, question, sample in zip(chosen, asked, samples)
        ]
        facts = {"split": split, "style": style, "items_in_data": len(items)}
        return Outcome(
            records, choice_metrics(records), by_category(records, choice_metrics), facts
        )


TASK = MultipleChoice()
