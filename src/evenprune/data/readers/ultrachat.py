"""UltraChat: conversations, of which calibration takes texts."""

from dataclasses import dataclass
from pathlib import Path

from .rows import Row, collect, json_rows, jsonl_files


@dataclass(frozen=True)
class Dialogue:
    """One conversation, as (role, content) turns."""

    id: str
    messages: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The contents of all turns, joined by line breaks."""
        return "\n".join(content for _, content in self.messages)


def read_ultrachat(folder: Path | str) -> list[Dialogue]:
    """Read UltraChat dialogues from every JSON-lines file of the folder, in name order.

    The id is file stem and row number, since the mirror's rows have none.
    """
    items = []
    for path in jsonl_files(folder):
        stem = path.name.split(".")[0]
        for number, row in enumerate(json_rows(path, ("messages",))):
            given = row.row["messages"]
            if not isinstance(given, list) or not given:
                row.fail("a list of turns in field messages", given)
            turns = []
            for turn in given:
                if not isinstance(turn, dict) or not {"role", "content"} <= set(turn):
                    row.fail("turns with the fields role and content", turn)
                inner = Row(path, row.line, turn)
                turns.append((inner.text("role"), inner.text("content", empty=True)))
            if not any(content.strip() for _, content in turns):
                row.fail("a turn with some text", given)
            items.append(Dialogue(f"{stem}-{number}", tuple(turns)))
    return collect(items, Path(folder))
