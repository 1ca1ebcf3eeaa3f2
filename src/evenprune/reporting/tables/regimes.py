"""The sparsity regimes: the paper's tab:debias-sparsegpt-all-models-appendix."""

from ..cells import SIGNIFICANT
from ..fields import Run, all_fields
from ..method_table import method_table
from ..notes import contents
from ..render import Table


def build(run: Run, slug: str) -> Table:
    """Return the table of the sparsity regimes (tab:debias-sparsegpt-all-models-appendix).

    Ours has the DTO too, which the paper leaves out here.
    """
    fields = all_fields(run.sheet)
    caption = f"{contents(fields)} across sparsity regimes."
    return method_table(run, slug, slug, caption, fields, bold=SIGNIFICANT)
