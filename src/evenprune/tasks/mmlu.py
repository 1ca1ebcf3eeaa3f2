"""MMLU through lm-eval: questions of 57 subjects, answered by a letter."""

from collections.abc import Sequence
from pathlib import Path

from ..data.readers.choice import ChoiceItem, read_mmlu
from .harness import ChoiceTask, Documents, Harness
from .protocol import Protocol


class MMLU(ChoiceTask):
    """MMLU, zero-shot, accuracy over all items; subjects are the categories."""

    name = "mmlu"
    file = "{split}.jsonl"

    def read(self, data: Path, spec: Protocol) -> list[ChoiceItem]:
        """Return the questions of the split."""
        return read_mmlu(data, self.split(spec))

    def ask(self, harness: Harness, items: Sequence[ChoiceItem]) -> Documents:
        """Return lm-eval's samples of the questions, each below its subject's header."""
        return harness.mmlu(items)


TASK = MMLU()
