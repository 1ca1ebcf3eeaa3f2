"""What pruning does to the error rate on each category of UnQover: not in the paper."""

from ...plan.run_sheet import RunSheet
from ..changes import draw_changes
from ..plots import Drawing
from ..results import Results


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the change of 1 − A_unk against the dense model in every category.

    As the figure ``motivation``, a row of panels a category.
    """
    return draw_changes(run_sheet, results, slug, None)
