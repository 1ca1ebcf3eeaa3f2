"""StereoSet: contexts with a blank, filled with a stereotype, an anti-stereotype, a stranger."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .rows import Row, collect, find_file, json_rows


@dataclass(frozen=True)
class StereoSetItem:
    """One intrasentence cluster: a context with a blank, filled in three ways."""

    id: str
    category: str
    target: str
    context: str
    stereotype: str
    anti_stereotype: str
    unrelated: str


def read_stereoset(folder: Path | str) -> list[StereoSetItem]:
    """Read StereoSet's intrasentence development set (2,106 clusters)."""
    path = find_file(folder, "intrasentence.jsonl")
    labels = ("stereotype", "anti-stereotype", "unrelated")

    def items() -> Iterator[StereoSetItem]:
        for row in json_rows(path, ("id", "target", "bias_type", "context", "sentences")):
            sentences: dict[str, str] = {}
            given = row.row["sentences"]
            for part in given if isinstance(given, list) else []:
                if isinstance(part, dict) and {"gold_label", "sentence"} <= set(part):
                    inner = Row(path, row.line, part)
                    sentences[inner.one_of("gold_label", labels)] = inner.text("sentence")
            if len(sentences) != 3 or len(given) != 3:
                row.fail(f"three sentences labelled {', '.join(labels)}", given)
            yield StereoSetItem(
                row.identifier("id"),
                row.text("bias_type"),
                row.text("target"),
                row.text("context"),
                *(sentences[label] for label in labels),
            )

    return collect(items(), path)
