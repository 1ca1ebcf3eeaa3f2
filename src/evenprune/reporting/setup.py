"""What a run is made of: methods, models, licences, benchmarks, calibration data."""

from collections.abc import Mapping
from dataclasses import replace

from ..analysis import labels
from ..analysis.printed import printed_rows
from ..analysis.results import Group, Quantity, Run
from ..config.facts import METHODS
from ..config.grids import calibrated, needed_datasets
from ..config.table_registry import TABLES
from .notes import counts, provenance_notes
from .rows import made
from .tables import Cell, Row, Rule, Table, category_order, columns_of, refused

UNKNOWN = "–: the catalogue does not say."
HUB = "hf.co/"  # where a repository that the catalogue names can be looked at
BENCHMARKS = {"bbq": "BBQ-HELM", "crows_pairs": "CrowS-Pairs", "unqover": "UnQover"}


def yes_no(fact: bool | None) -> str:
    """Return a fact as a sign: ✓, × or – where it is not known."""
    return "–" if fact is None else "✓" if fact else "×"


def models_by_kind(run: Run) -> list[list[str]]:
    """Return the models of the experiments: instruction-tuned, base, and of unknown kind.

    Each list has the order of the experiments.
    """
    names = dict.fromkeys(point.model for point in run.sheet.shown)
    models = run.sheet.config.models
    return [
        [name for name in names if models[name].instruction_tuned is kind]
        for kind in (True, False, None)
    ]


def fact_row(label: str, facts: Mapping[str, str], **shown: str) -> Row:
    """Return a row of facts, the first of which names it; ``shown`` are those that look otherwise.

    What is not known is an en dash, and empty in the CSV.
    """
    _, *texts = (dict(facts) | shown).values()
    return Row((label, *(text or "–" for text in texts)), identity=facts)


def _listed(run: Run, slug: str, parts: list[list[Row]]) -> Table:
    """Return a table of parts with a line between them."""
    parts = [part for part in parts if part]
    for part in parts[1:]:
        part[0] = replace(part[0], rule="full")
    rows = [row for part in parts for row in part]
    return made(run, slug, rows, said=[UNKNOWN] * any("–" in row.labels for row in rows))


def methods(run: Run, slug: str) -> Table:
    """Return what each pruning method of the run changes, reads and compares weights by."""
    sheet = run.sheet
    used = {sheet.base_method(point.method) for point in sheet.shown if not point.is_base}
    rows: list[Row] = []
    for name, facts in METHODS.items():
        if name not in used:
            continue
        update, bias, metric, cost = TABLES[slug]["forms"].get(name, (None, None, "–", "–"))
        solved = f" (solver {sheet.config.pruning.solver})" if facts.shifts and bias else ""
        signs = map(yes_no, (update, facts.calibrated, bias))
        keys = ("method", "weight_update", "calibration_data", "bias_aware", "metric", "complexity")
        said = dict(zip(keys, (name, *signs, f"{metric}{solved}", cost), strict=True))
        rule: Rule = "full" if bias and rows and rows[-1].strong is None else ""
        row = fact_row(labels.METHOD_LABELS[name], said)
        rows.append(replace(row, rule=rule, strong=0 if bias else None))
    return made(run, slug, rows, said=())


def models(run: Run, slug: str) -> Table:
    """Return size, kind and link of every model of the run, base models last.

    All of it is the catalogue's word, not measured.
    """

    def row(name: str) -> Row:
        entry = run.sheet.config.models[name]
        link = entry.hub.partition("@")[0] if entry.hub else ""
        facts = {"model": name, "params": entry.params or ""}
        facts["instruction_tuned"] = yes_no(entry.instruction_tuned)
        facts |= {"multilingual": yes_no(entry.multilingual), "hub": link}
        label = labels.model_label(run.sheet, name)
        return fact_row(label, facts, hub=f"{HUB}{link}" * bool(link))

    return _listed(run, slug, [[row(name) for name in names] for names in models_by_kind(run)])


def licences(run: Run, slug: str) -> Table:
    """Return the licence of every model of the run, base models last, and of every data set."""
    config = run.sheet.config
    sets = [] if config.source == "world" else needed_datasets(config)

    def row(name: str) -> Row:
        licence = config.models[name].licence or ""
        return fact_row(labels.model_label(run.sheet, name), {"model": name, "licence": licence})

    parts = [[row(name) for name in names] for names in models_by_kind(run)]
    data = {name: config.datasets[name].licence or "" for name in sets}
    parts.append([fact_row(n, {"dataset": n, "licence": one}) for n, one in data.items()])
    return _listed(run, slug, parts)


def benchmarks(run: Run, slug: str) -> Table:
    """Return size and attributes of each benchmark of bias.

    The size is the number of items that this run scored, and beside it what the paper prints; of
    printed numbers it is the paper's. Attributes are the catalogue's, in an invented world, or
    where it has none, the categories that were measured.
    """
    sheet, rows = run.sheet, []
    named = [(row["metric"].partition(":"), row["value"]) for row in printed_rows()]
    sizes = {task: int(value) for (task, _, metric), value in named if metric == "size"}
    real = sheet.config.source != "world"
    for task, known_as in BENCHMARKS.items():
        name = sheet.primary(task)
        if name is None:
            continue
        quantity, entry = Quantity(name, sheet.headline(name)), sheet.config.benchmarks[name]
        size = max(counts(run, quantity), default=sizes[task] if real else None)
        about = sheet.config.datasets[entry.dataset].groups if real and entry.dataset else None
        if about is None:
            parts = category_order(run.results.categories(*quantity[:2]))
            about = ", ".join(labels.CATEGORY_LABELS.get(one, one) for one in parts)
        facts = {"benchmark": name, "size": str(size or ""), "attributes": about}
        shown = {"size": f"{size:,}" if size else ""}
        if real:
            facts["size_printed"], shown["size_printed"] = str(sizes[task]), f"{sizes[task]:,}"
        rows.append(fact_row(known_as if real else labels.TASK_LABELS[task], facts, **shown))
    if not rows:
        raise refused(slug, list(BENCHMARKS))
    table, widths = made(run, slug, rows), (0.15, 0.08, 0.55, 0.1) if real else (0.15, 0.08, 0.65)
    return replace(table, heads=(*table.heads, *["Size in the paper"] * real), widths=widths)


def calibration(run: Run, slug: str) -> Table:
    """Return the pairs kept and dropped by alignment, per calibration set, model and category."""
    sheet, rows = run.sheet, list[Row]()
    columns = columns_of(run, slug)

    def order(key: tuple[str, str, int]) -> tuple:
        model, data, seed = key
        entry = sheet.config.calibrations[data]
        sources = [name != "stereoset" for name in entry.pairs]
        return (sources, entry.categories, entry.control, entry.n_texts, data, model, seed)

    found = sorted(calibrated(sheet.checkpoints), key=order)
    several_seeds = len({seed for *_, seed in found}) > 1
    for model, data, seed in found:
        start, group = len(rows), Group(model, "", "", data, (seed,))
        label = labels.calibration_label(sheet, data) + (f", seed {seed}" if several_seeds else "")
        for category in ["", *run.results.categories("calibration", "pairs_total")]:
            cells = {
                column.key: Cell(number.value, column.show(number.value))
                for column in columns
                if (number := run.results.of(group, column.quantity._replace(category=category)))
            }
            if cells:
                named = {"calibration": data, "model": model, "seed": str(seed)}
                named["category"] = category or "all"
                first = len(rows) == start
                texts = (label, labels.model_label(sheet, model)) if first else ("", "")
                rule: Rule = "dashed" if first and rows else ""
                rows.append(Row((*texts, named["category"]), cells, named, rule=rule))
    said = [f"Alignment policy: {sheet.config.pruning.alignment}.", *provenance_notes(sheet)]
    return made(run, slug, rows, columns, said)
