"""All methods: the paper's tab:debias-sparsegpt."""

from ..cells import SIGNIFICANT
from ..fields import Run, all_fields
from ..method_table import method_table
from ..notes import contents, regimes_phrase
from ..render import Table


def build(run: Run, slug: str) -> Table:
    """Return the table of all methods: the paper's tab:debias-sparsegpt and -newmodels."""
    fields = all_fields(run.sheet)
    regimes = regimes_phrase(run, slug, f"the table {slug}")
    caption = f"{contents(fields)} of dense and pruned models at {regimes}."
    return method_table(run, slug, slug, caption, fields, bold=SIGNIFICANT)
