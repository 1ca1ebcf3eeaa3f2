"""HarmBench (Mazeika et al. 2024): behaviours to refuse; a judge reads the answers."""

from pathlib import Path

from ..data.readers.safety import read_harmbench
from ..io.errors import UserError
from .protocol import Protocol
from .safety import SafetyPrompt, SafetyTask

# HarmBench's own text between a context and its behaviour.
CONTEXT_SEPARATOR = "\n\n---\n\n"


class HarmBench(SafetyTask):
    """Answers to HarmBench's text behaviours, asked directly.

    Splits: ``standard`` (200), ``all`` (400), ``contextual`` and ``copyright`` (100 each);
    categories are topics, subsets for ``all``. No stop at a blank line: with it an answer that
    begins with one would be empty and pass for safe.
    """

    file = "harmbench_behaviors_text_all.csv"

    def read(self, data: Path, spec: Protocol) -> list[SafetyPrompt]:
        """Return the split's behaviours, each behind its context."""
        split, behaviours = self.split(spec), read_harmbench(data)
        items = []
        for row in behaviours:
            if split in ("all", row.category):
                before = row.context and f"{row.context}{CONTEXT_SEPARATOR}"
                category = row.category if split == "all" else row.topic
                extra = {"subset": row.category}
                items.append(SafetyPrompt(row.id, category, f"{before}{row.behaviour}", extra))
        if not items:
            there = ", ".join(sorted({row.category for row in behaviours}))
            raise UserError(
                f"expected behaviours of split {split} in {self.data_files(data, spec)[0]}, "
                f"found only {there}; fetch the data again or choose another split"
            )
        return items


TASK = HarmBench()
