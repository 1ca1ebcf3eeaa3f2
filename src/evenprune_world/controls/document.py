"""A page of tables and figures, as Markdown and as one HTML file that needs no other."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from evenprune.base.files import atomic_path, write_text
from evenprune.reporting.html_table import to_html, to_page
from evenprune.reporting.plots import METADATA, STYLE
from evenprune.reporting.render import Table, TableRow, to_markdown


def words_table(
    slug: str,
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
    widths: tuple[float, ...] = (),
) -> Table:
    """Return a table of words and numbers as they are shown."""
    lines = tuple(TableRow(tuple(row)) for row in rows)
    return Table(slug, caption, tuple(heads), (), lines, tuple(notes), widths)


def write_page(
    out: Path,
    title: str,
    page: Sequence[Table | str],
    figures: Mapping[str, Callable[[], Figure]],
) -> None:
    """Write the figures (svg and png) and ``out`` with the suffixes md and html.

    ``figures`` are what draws them, by the names that ``page`` has for them; they lie next to the
    page, and as SVG within the HTML. Equal input gives equal bytes.
    """
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        for name, draw in figures.items():
            figure = draw()
            for suffix in ("svg", "png"):
                with atomic_path(out.with_name(f"{name}.{suffix}")) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=dict(METADATA[suffix]))

    def image(name: str) -> str:
        svg = base64.b64encode(out.with_name(f"{name}.svg").read_bytes()).decode()
        return f'<figure><img alt="{name}" src="data:image/svg+xml;base64,{svg}"></figure>'

    html = [image(x) if isinstance(x, str) else to_html(x, x.slug) for x in page]
    text = [f"![{x}]({x}.png)\n" if isinstance(x, str) else to_markdown(x) for x in page]
    write_text(out.with_suffix(".html"), to_page([f"<h1>{title}</h1>", *html], title))
    write_text(out.with_suffix(".md"), "\n".join([f"# {title}\n", *text]))
