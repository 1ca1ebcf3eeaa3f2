"""How far each pruned model's answers are from the dense model's: not in the paper."""

from ...base.errors import UserError
from .. import fidelity
from ..fields import TASK_GROUPS, Field, Run
from ..method_table import method_table, widest_experiment
from ..render import Column, Table
from ..results import Quantity


def build(run: Run, slug: str) -> Table:
    """Return how far each pruned model's answers are from the dense model's: not in the paper."""
    spec = run.spec
    fields = []
    for name, entry in spec.benchmarks().items():
        if not fidelity.has_answers(entry):
            continue
        for metric, head, direction, scale, digits in (
            ("flips", "flips", "down", 100.0, 2),
            ("kappa", "κ", "up", 1.0, 3),
            ("js_divergence", "JS", "down", 1.0, 3),
        ):
            column = Column(
                f"{name}_{metric}", head, TASK_GROUPS[entry.task], direction, scale, digits,
                spec.benchmark_label(name),
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
    return method_table(run, slug, widest_experiment(spec), caption, fields)
