"""Further models, instruction-tuned and base: the paper's tab:debias-sparsegpt-newmodels."""

import dataclasses

from ..cells import DAGGERS
from ..fields import Run, all_fields
from ..method_table import method_table
from ..notes import contents, regimes_phrase
from ..render import Rule, Table, TableRow


def build(run: Run, slug: str) -> Table:
    """Return the table of further models (tab:debias-sparsegpt-newmodels).

    Instruction-tuned models stand under a heading and base models under another, where the
    catalogue says which is which. BBQ has one decimal, and only what carries a dagger is bold.
    """
    fields = [
        dataclasses.replace(field, column=dataclasses.replace(field.column, digits=1))
        if field.quantity.benchmark == run.sheet.primary("bbq")
        else field
        for field in all_fields(run.sheet)
    ]
    regimes = regimes_phrase(run, slug, f"the table {slug}")
    caption = f"{contents(fields)} of further dense and pruned models at {regimes}."
    table = method_table(run, slug, slug, caption, fields, bold=DAGGERS)
    return dataclasses.replace(table, rows=with_kinds(run, table.rows))


def with_kinds(run: Run, rows: tuple[TableRow, ...]) -> tuple[TableRow, ...]:
    """Return rows with a heading above the models of each kind; all models of a kind together."""
    models = run.sheet.config.models
    blocks: dict[bool | None, list[list[TableRow]]] = {True: [], False: [], None: []}
    for row in rows:
        model = row.identity.get("model")
        if row.rule == "full" or row is rows[0]:
            # The dense row, or a model's name where it has none: the block's next row says whose.
            following = rows[rows.index(row) + 1] if model is None else row
            tuned = models[following.identity["model"]].instruction_tuned
            blocks[tuned].append([])
            current = blocks[tuned][-1]
        current.append(row)
    found: list[TableRow] = []
    for tuned, words in ((True, "Instruction-tuned Models"), (False, "Base Models"), (None, "")):
        if blocks[tuned] and words:
            found.append(TableRow((words,), kind="heading", rule="full" if found else ""))
        for index, block in enumerate(blocks[tuned]):
            # Behind a heading and at the very top the line above is drawn already.
            first: Rule = "full" if found and not (index == 0 and not words) else ""
            found.append(dataclasses.replace(block[0], rule=first))
            found += block[1:]
    return tuple(found)
