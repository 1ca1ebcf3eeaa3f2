"""HellaSwag through lm-eval: which of four endings continues the text?"""

from pathlib import Path

from ..data.readers.choice import ChoiceItem, read_hellaswag
from .harness import ChoiceTask
from .protocol import Protocol


class HellaSwag(ChoiceTask):
    """HellaSwag validation, zero-shot, by continuation log-likelihood."""

    file = "validation_lm_eval.jsonl"
    categories = False

    def read(self, data: Path, spec: Protocol) -> list[ChoiceItem]:
        """Return all items, whose texts are cleaned already."""
        return read_hellaswag(data)


TASK = HellaSwag()
