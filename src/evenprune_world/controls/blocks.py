"""A page of blocks, as Markdown and as one HTML file that needs no other."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenprune.base.pages import fill
from evenprune.reporting.render import escape_markdown

# Part of this module's code, see codedigest.py.
DATA_FILES = ("page.html.j2", "page.md.j2")
HTML, MARKDOWN = (Path(__file__).with_name(name) for name in DATA_FILES)


@dataclass(frozen=True)
class Block:
    """A piece of the page: ``heading``, ``text``, ``list``, ``table`` (head first) or ``image``."""

    kind: str
    text: str = ""
    rows: Sequence[Sequence[str]] = ()


def to_markdown(page: Sequence[Block], title: str) -> str:
    """Return the page as Markdown; images are files beside it."""
    return fill(MARKDOWN, {"title": title, "page": page}, {"shown": escape_markdown})


def to_html(page: Sequence[Block], folder: Path, title: str) -> str:
    """Return the page as one HTML file, with the SVG figures of ``folder`` inside."""
    images = {
        block.text: base64.b64encode((folder / f"{block.text}.svg").read_bytes()).decode()
        for block in page
        if block.kind == "image"
    }
    return fill(HTML, {"title": title, "page": page, "images": images})
