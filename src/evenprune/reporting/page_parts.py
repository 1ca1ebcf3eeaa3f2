"""What pages of HTML have in common: how they look and what they do, as text within each page."""

from collections.abc import Sequence
from pathlib import Path

# Part of this module's code, see codedigest.py.
DATA_FILES = ("page.css", "page_tables.js", "page_items.js")


def style_and_script(scripts: Sequence[str]) -> dict[str, str]:
    """Return ``style`` and ``script``, those of ``scripts`` one behind the other."""
    folder = Path(__file__).parent
    texts = [(folder / name).read_text(encoding="utf-8") for name in scripts]
    return {
        "style": (folder / DATA_FILES[0]).read_text(encoding="utf-8"),
        "script": "\n".join(texts),
    }
