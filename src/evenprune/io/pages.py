"""Pages of text from Jinja templates that lie beside the module that fills them."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

LATEX_SIGNS = tuple(
    f"{kind}_{end}_string" for kind in ("block", "variable", "comment") for end in ("start", "end")
)


@cache
def _environment(folder: Path, kind: str) -> Any:
    """Return what reads and keeps the templates of a folder whose names end in ``kind``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    signs: dict[str, Any] = dict(
        zip(LATEX_SIGNS, ("<%", "%>", "<<", ">>", "<#", "#>"), strict=True)
    )
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=kind == ".html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(signs if kind == ".tex" else {}),
    )


def fill(
    template: Path, values: Mapping[str, Any], filters: Mapping[str, Callable] | None = None
) -> str:
    """Return the text of a template ``NAME.<kind>.j2`` with its values in it.

    In HTML every value is escaped; in other kinds the template says which filter a value takes.
    LaTeX's signs are LaTeX's: there ``<< >>`` and ``<% %>`` stand in place of braces.
    A value that the template asks for and does not get is jinja2's UndefinedError.
    """
    environment = _environment(template.parent, Path(template.stem).suffix)
    environment.filters.update(filters or {})
    return environment.get_template(template.name).render(values)
