"""A page of blocks, as Markdown and as one HTML file that needs no other.

Equal blocks give equal bytes: no dates, no versions, fixed ids.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from evenprune.base.files import atomic_path, write_text
from evenprune.base.pages import fill
from evenprune.reporting.plots import METADATA, STYLE
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


def write_page(
    out: Path, title: str, page: Sequence[Block], figures: Mapping[str, Callable[[], Figure]]
) -> None:
    """Write the figures (svg and png) and ``out`` with the suffixes md and html.

    Figures are by name what draws them; they lie beside the page, and as SVG within the HTML.
    """
    images = {}
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        for name, draw in figures.items():
            figure = draw()
            for suffix in ("svg", "png"):
                with atomic_path(out.with_name(f"{name}.{suffix}")) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=dict(METADATA[suffix]))
            svg = out.with_name(f"{name}.svg").read_bytes()
            images[name] = base64.b64encode(svg).decode()
    values = {"title": title, "page": page, "images": images}
    write_text(out.with_suffix(".md"), fill(MARKDOWN, values, {"shown": escape_markdown}))
    write_text(out.with_suffix(".html"), fill(HTML, values))
