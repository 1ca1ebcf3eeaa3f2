"""The licences of a run's models, the paper's tab:model-licenses, and of its data sets."""

from ...plan.grids import needed_datasets
from ..fields import Run
from ..labels import model_label
from ..models_of import models_by_kind
from ..render import Rule, Table, TableRow


def build(run: Run, slug: str) -> Table:
    """Return the licence of every model of the run, base models last, and of every data set."""
    rows: list[TableRow] = []
    for names in models_by_kind(run).values():
        for name in names:
            licence = run.sheet.config.models[name].licence
            rule: Rule = "full" if rows and name == names[0] else ""
            identity = {"model": name, "licence": licence or ""}
            labels = (model_label(run.sheet, name), licence or "–")
            rows.append(TableRow(labels, identity=identity, rule=rule))
    config = run.sheet.config
    sets = [] if config.source == "world" else needed_datasets(config)
    for number, name in enumerate(sets):
        licence = config.datasets[name].licence
        rows.append(
            TableRow(
                (name, licence or "–"),
                identity={"dataset": name, "licence": licence or ""},
                rule="" if number else "full",
            )
        )
    return Table(
        slug,
        "Licences of the models and data sets, as the catalogue names them (of the paper's models "
        "as it prints them). What a licence asks for is in the source's own files.",
        ("Model or data set", "License"),
        (),
        tuple(rows),
        ("–: the catalogue does not say.",) if any("–" in row.labels for row in rows) else (),
    )
