"""A page of tables, as Markdown and as one HTML file that needs no other."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from evenprune.io.files import write_text
from evenprune.reporting.forms import to_html, to_markdown, to_page
from evenprune.reporting.tables import Row, Table


def words_table(
    slug: str,
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
    widths: tuple[float, ...] = (),
) -> Table:
    """Return a table of words and numbers as they are shown."""
    lines = tuple(Row(tuple(row)) for row in rows)
    return Table(slug, caption, tuple(heads), (), lines, tuple(notes), widths)


def write_page(out: Path, title: str, page: Sequence[Table]) -> None:
    """Write ``out`` with the suffixes md and html; equal tables give equal bytes."""
    html = [f"<h1>{escape(title)}</h1>", *(to_html(table) for table in page)]
    write_text(out.with_suffix(".html"), to_page(html, title))
    write_text(out.with_suffix(".md"), "\n".join([f"# {title}\n", *map(to_markdown, page)]))
