"""The models of a run: the paper's tab:models-overview-app."""

from ..fields import Run
from ..labels import model_label
from ..models_of import models_by_kind, yes_no
from ..render import Rule, Table, TableRow

# Where a repository that the catalogue names can be looked at.
HUB = "hf.co/"


def build(run: Run, slug: str) -> Table:
    """Return size, kind and link of every model of the run, base models last.

    All of it is the catalogue's word, not measured.
    """
    models = run.sheet.config.models
    rows: list[TableRow] = []
    for kind, names in models_by_kind(run).items():
        for name in names:
            entry = models[name]
            rule: Rule = "full" if rows and name == names[0] else ""
            link = entry.hub.partition("@")[0] if entry.hub else None
            labels = (
                model_label(run.sheet, name),
                entry.params or "–",
                yes_no(kind),
                yes_no(entry.multilingual),
                f"{HUB}{link}" if link else "–",
            )
            identity = {
                "model": name,
                "params": entry.params or "",
                "instruction_tuned": yes_no(kind),
                "multilingual": yes_no(entry.multilingual),
                "hub": link or "",
            }
            rows.append(TableRow(labels, identity=identity, rule=rule))
    return Table(
        slug,
        "Models, as the catalogue describes them (the paper's words for its own): parameters, "
        "whether instruction-tuned (IT) and multilingual, and where they are from.",
        ("Model", "Params", "IT", "Multilingual", "Link"),
        (),
        tuple(rows),
        ("–: the catalogue does not say.",) if any("–" in row.labels for row in rows) else (),
    )
