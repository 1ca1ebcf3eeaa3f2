"""Confidence and entropy on UnQover for the pruned models too: not in the paper."""

from ...base.errors import UserError
from ..fields import Field, Run, benchmark_field
from ..method_table import method_table
from ..render import Column, Table
from ..results import Quantity


def build(run: Run, slug: str) -> Table:
    """Return confidence and entropy on UnQover of the dense and the pruned models."""
    name = run.sheet.primary("unqover")
    if name is None:
        raise UserError(
            f"the table {slug} shows UnQover, but the configuration has no benchmark with "
            "task unqover; add one or leave the table out"
        )
    fields = [benchmark_field(run.sheet, name)]
    for kind, head in (("confidence", "Confidence"), ("entropy", "Entropy (nats)")):
        for part in ("correct", "wrong"):
            column = Column(f"{kind}_{part}", part, "fairness", digits=3, span=head)
            fields.append(Field(column, Quantity(name, f"{kind}_{part}")))
    experiment = "main" if "main" in run.sheet.experiments else next(iter(run.sheet.experiments))
    caption = (
        "UnQover accuracy, mean confidence (largest probability of the three options) and mean "
        "entropy of the predictions, split into correct and wrong ones."
    )
    return method_table(run, slug, experiment, caption, fields, ("sparsegpt", "debias-sparsegpt"))
