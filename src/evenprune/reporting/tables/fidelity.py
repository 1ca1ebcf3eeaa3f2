"""How far each pruned model's answers are from the dense model's: not in the paper."""

from ...base.errors import UserError
from ...stats.directions import direction
from .. import fidelity
from ..fields import Field, Run
from ..labels import TASK_GROUPS, benchmark_label, column_order
from ..method_table import method_table, widest_experiment
from ..render import Column, Table
from ..results import Quantity


def build(run: Run, slug: str) -> Table:
    """Return how far each pruned model's answers are from the dense model's: not in the paper."""
    run_sheet = run.sheet
    fields = []
    for name, entry in column_order(run_sheet).items():
        if not fidelity.has_answers(entry):
            continue
        for metric, head, scale, digits in (
            ("flips", "flips", 100.0, 2),
            ("kappa", "κ", 1.0, 3),
            ("js_divergence", "JS", 1.0, 3),
        ):
            column = Column(
                f"{name}_{metric}", head, TASK_GROUPS[entry.task], direction(entry.task, metric),
                scale, digits, benchmark_label(run_sheet, name),
            )  # fmt: skip
            fields.append(Field(column, Quantity(name, metric)))
    if not fields:
        raise UserError(
            "the table fidelity compares chosen options, but no benchmark of the configuration has "
            f"options; add one with a task of {', '.join(fidelity.WITH_OPTIONS)} or leave the "
            "table out"
        )
    caption = (
        "Fidelity to the dense model: share of items with another answer (flips, in percent), "
        "Cohen's κ of the answers, and mean Jensen-Shannon divergence of the option "
        "distributions (JS, in bits)."
    )
    return method_table(run, slug, widest_experiment(run_sheet), caption, fields)
