"""What tables and figures there are: ``reporting/tables.yaml``, in the order of the document."""

from pathlib import Path
from typing import Any

from ..io.yamlfile import own_yaml

FILE = Path(__file__).parents[1] / "reporting/tables.yaml"
SHOWN: list[dict[str, Any]] = own_yaml(FILE)
TABLES = {one["table"]: one for one in SHOWN if "table" in one}
FIGURES = {one["figure"]: one for one in SHOWN if "figure" in one}


def experiments_of(table: str) -> list[str]:
    """Return the experiments of which a table shows the first that a run has; "*" is any."""
    return TABLES[table].get("experiments", [] if "by" in TABLES[table] else [table])
