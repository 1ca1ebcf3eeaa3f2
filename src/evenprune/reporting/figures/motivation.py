"""What pruning does to the error rate on UnQover's religion: the paper's debiasgpt-motivation."""

from ...plan.run_sheet import RunSheet
from ..changes import draw_changes
from ..plots import Drawing
from ..results import Results


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the change of 1 − A_unk on religion against the dense model, by sparsity and method.

    fig:debiasgpt-motivation of the paper, of the experiment ``regimes``. A panel a model.
    """
    return draw_changes(run_sheet, results, slug, ("religion",))
