"""Confidence and entropy of the dense models on UnQover: the paper's tab:qwen_confidence."""

from ...base.errors import UserError
from ..cells import make_cells
from ..fields import Field, Run, benchmark_field
from ..labels import model_label
from ..notes import limit_notes, provenance_notes
from ..render import Cell, Column, Table, TableRow
from ..results import Quantity, dense_group

# Rows: metric, words, scale and decimals; a line stands above the first of a kind.
METRICS = (
    ("confidence_correct", "Confidence (Correct)", True),
    ("confidence_wrong", "Confidence (Wrong)", False),
    ("entropy_correct", "Entropy (Correct)", True),
    ("entropy_wrong", "Entropy (Wrong)", False),
)


def build(run: Run, slug: str) -> Table:
    """Return UnQover's accuracy, confidence and entropy: a row a metric, a column a dense model.

    The models are those of the experiment ``confidence`` where the run has one, else of ``main``.
    """
    run_sheet = run.sheet
    name = run_sheet.primary("unqover")
    if name is None:
        raise UserError(
            f"the table {slug} shows UnQover, but the configuration has no benchmark with "
            "task unqover; add one or leave the table out"
        )
    experiment = next(
        one for one in (slug, "main", *run_sheet.experiments) if one in run_sheet.experiments
    )
    points = run_sheet.experiment(experiment, f"the table {slug}")
    dense = [
        group
        for model in dict.fromkeys(point.model for point in points)
        if (group := dense_group(run_sheet, model)) is not None
    ]
    if not dense:
        raise UserError(
            f"the table {slug} shows dense models, but the experiment {experiment!r} has none; "
            "add the method dense to it or leave the table out"
        )
    run.results.require([point for group in dense for point in group.checkpoints()])
    fields = [(benchmark_field(run_sheet, name), "Accuracy", False)]
    fields += [
        (Field(Column(metric, words, digits=3), Quantity(name, metric)), words, ruled)
        for metric, words, ruled in METRICS
    ]
    rows = []
    for field, words, ruled in fields:
        cells: dict[str, Cell] = {
            group.model: make_cells(run, group, [field], marks=False)[field.column.key]
            for group in dense
        }
        rows.append(
            TableRow(
                (words,),
                cells,
                {"metric": field.quantity.metric},
                rule="full" if ruled else "",
                form=field.column,
            )
        )
    columns = tuple(Column(group.model, model_label(run_sheet, group.model)) for group in dense)
    return Table(
        slug,
        "UnQover accuracy (in percent), mean confidence (largest probability of the three "
        "options) and mean entropy (nats) of the predictions of the dense models, split into "
        "correct and wrong ones.",
        ("Metric",),
        columns,
        tuple(rows),
        (*limit_notes(run, [name], dense), *provenance_notes(run_sheet)),
    )
