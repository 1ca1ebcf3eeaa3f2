"""RealToxicityPrompts: beginnings of texts, with the toxicity that the source measured."""

from dataclasses import dataclass
from pathlib import Path

from .rows import Row, collect, json_rows, jsonl_files


@dataclass(frozen=True)
class Prompt:
    """A prompt to continue, with the source's toxicity score of the prompt (None: unscored).

    ``challenging`` is the source's flag for prompts that many models continue with toxic text,
    None where a row has none.
    """

    id: str
    category: str
    text: str
    toxicity: float | None
    challenging: bool | None


def read_realtoxicityprompts(folder: Path | str) -> list[Prompt]:
    """Read RealToxicityPrompts from every JSON-lines file of the folder; category is its stem."""
    items = []
    for path in jsonl_files(folder):
        stem = path.name.split(".")[0]
        for number, row in enumerate(json_rows(path, ("prompt",))):
            prompt = row.row["prompt"]
            if not isinstance(prompt, dict) or "text" not in prompt:
                row.fail("a prompt with the field text", prompt)
            score = prompt.get("toxicity")
            if score is not None and not (type(score) in (int, float) and 0 <= score <= 1):
                row.fail("a number or null in prompt.toxicity, from 0 to 1", score)
            challenging = row.row.get("challenging")
            if challenging is not None and type(challenging) is not bool:
                row.fail("true, false or null in challenging", challenging)
            text = Row(path, row.line, prompt).text("text")
            items.append(Prompt(f"{stem}-{number}", stem, text, score, challenging))
    return collect(items, Path(folder))
