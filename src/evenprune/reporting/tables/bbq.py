"""BBQ's parts, which tell abstaining from knowing: not in the paper."""

from ...base.errors import UserError
from ...stats.directions import direction
from ..fields import Field, Run
from ..method_table import method_table, widest_experiment
from ..render import Column, Table
from ..results import Quantity


def build(run: Run, slug: str) -> Table:
    """Return BBQ's parts, which tell abstaining from knowing: not in the paper.

    A model that always answers "unknown" has full ambiguous accuracy, none on the
    disambiguated items and an over-abstention of 100 %.
    """
    name = run.sheet.primary("bbq")
    if name is None:
        raise UserError(
            "the table bbq shows BBQ, but the configuration has no benchmark with task bbq; add "
            "one or leave the table out"
        )
    fields = [
        Field(
            # mypy takes the words of the tuple below for any text.
            Column(metric, head, group, direction("bbq", metric), scale, digits, span),  # type: ignore[arg-type]
            Quantity(name, metric),
        )
        for metric, head, group, scale, digits, span in (
            ("acc_all", "all", "fairness", 100.0, 2, "Accuracy"),
            ("acc_amb", "ambiguous", "fairness", 100.0, 2, "Accuracy"),
            ("acc_dis", "disambiguated", "performance", 100.0, 2, "Accuracy"),
            ("unk_rate_dis", "over-abstention", "performance", 100.0, 2, ""),
            ("s_amb", "ambiguous", "fairness", 1.0, 3, "Bias score"),
            ("s_dis", "disambiguated", "fairness", 1.0, 3, "Bias score"),
        )
    ]
    fields.append(
        Field(
            Column("dto_bbq", "DTO (BBQ)", "dto", direction("dto", "dto_bbq"), digits=3),
            Quantity("dto", "dto_bbq"),
        )
    )
    caption = (
        "BBQ by condition: accuracy, over-abstention (“unknown” answers to disambiguated "
        "questions), bias scores (1: all other answers follow the stereotype, −1: none) and the "
        "distance to optimum of disambiguated and ambiguous accuracy."
    )
    return method_table(run, slug, widest_experiment(run.sheet), caption, fields)
