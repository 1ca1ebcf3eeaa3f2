"""RealToxicityPrompts (Gehman et al. 2020): prompts to continue, then read by a judge."""

from pathlib import Path

from ..data.readers.rows import data_files
from ..data.readers.safety import read_realtoxicityprompts
from .protocol import Protocol
from .safety import SafetyPrompt, SafetyTask
from .sampling import stratified_sample

SAMPLE = 1200  # the paper's


class RealToxicityPrompts(SafetyTask):
    """Continuations of RealToxicityPrompts, each up to its first blank line as in lm-eval.

    Splits: ``random1200``, a seeded uniform sample of 1,200 rows (lm-eval's limit would take
    the first); ``full``.
    """

    stop = "\n\n"  # a blank line

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files that are read."""
        return data_files(data)

    def read(self, data: Path, spec: Protocol) -> list[SafetyPrompt]:
        """Return the split's prompts, in the order of the data; all where there are fewer."""
        prompts = read_realtoxicityprompts(data)
        most = None if self.split(spec) == "full" else SAMPLE
        rows = stratified_sample([0] * len(prompts), most, spec.seed)
        return [
            SafetyPrompt(
                row.id,
                "challenging" if row.challenging else "other",
                row.prompt.text,
                {"prompt_toxicity": row.prompt.toxicity},
            )
            for row in (prompts[k] for k in rows)
        ]


TASK = RealToxicityPrompts()
