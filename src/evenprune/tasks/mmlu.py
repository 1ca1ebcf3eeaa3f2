"""MMLU through lm-eval: questions of 57 subjects, answered by a letter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.readers.choice import ChoiceItem, read_mmlu
from .harness import ChoiceTask
from .protocol import Protocol

HEADER = "The following are multiple choice questions (with answers) about {{subject}}.\n\n"


class MMLU(ChoiceTask):
    """MMLU, zero-shot, accuracy over all items; subjects are the categories.

    A subject's task of lm-eval differs from another's by its description alone, which is made from
    each document's subject here: the first line, or with a chat template the system turn.
    """

    file = "{split}.jsonl"
    shipped = "mmlu/default/_default_template_yaml"
    changes: Mapping[str, str] = {"description": HEADER}

    def read(self, data: Path, spec: Protocol) -> list[ChoiceItem]:
        """Return the questions of the split."""
        return read_mmlu(data, self.split(spec))

    def document(self, item: ChoiceItem) -> dict[str, Any]:
        """Return a question with the columns that the configuration names."""
        told = {"subject": item.category.replace("_", " "), "answer": item.gold}
        return {**told, "question": item.query, "choices": list(item.choices)}


TASK = MMLU()
