"""HellaSwag: texts to continue with one of four endings."""

from pathlib import Path

from .choice import ChoiceItem
from .rows import collect, find_file, json_rows


def read_hellaswag(folder: Path | str) -> list[ChoiceItem]:
    """Read HellaSwag's validation set as lm-evaluation-harness scores it (10,042 items).

    Query and choices are cleaned already; the category is the text before the first colon
    (the activity).
    """
    path = find_file(folder, "validation_lm_eval.jsonl")
    return collect(
        (
            ChoiceItem(
                row.identifier("row"),
                row.text("query").partition(":")[0],
                row.text("query"),
                row.texts("choices", 4),
                row.index("gold", 4),
            )
            for row in json_rows(path, ("row", "query", "choices", "gold"))
        ),
        path,
    )
