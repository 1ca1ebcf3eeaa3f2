"""What tables and figures there are: ``reporting/tables.yaml``, in the order of the document."""

from pathlib import Path
from typing import Any

from ..base.yamlfile import own_yaml

FILE = Path(__file__).parents[1] / "reporting/tables.yaml"
SHOWN: list[dict[str, Any]] = own_yaml(FILE)
TABLES = {one["table"]: one for one in SHOWN if "table" in one}
FIGURES = {one["figure"]: one for one in SHOWN if "figure" in one}


def drawn_by(entry: dict[str, Any]) -> tuple[str, str]:
    """Return the module below ``reporting`` and the function that make a table or figure."""
    folder, default = ("tables", "rows.build") if "table" in entry else ("figures", "")
    name, _, function = entry.get("by", default or f"{entry.get('figure')}.draw").partition(".")
    return f"{folder}.{name}", function


def decisive(entry: dict[str, Any]) -> dict[str, Any]:
    """Return of an entry what its own files depend on; a figure's caption is in none of them."""
    left_out = {"section", "shows", *(("caption", "tasks") if "figure" in entry else ())}
    return {name: value for name, value in entry.items() if name not in left_out}
