"""Render one table of a run as .tex, .csv and .md, in the form of the paper.

Column groups have the paper's colours (perplexity, performance, fairness, DTO). Bold is the
best pruned value within a block. A dagger says that Debias-SparseGPT improves on SparseGPT
with p < 0.01 by the paired t-test on items, a double dagger that the calibration pairs are the
test's own data; such values are neither tested nor bold. The CSV has the paper's printed value
beside ours.
"""

import argparse
import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config import JUDGED, TABLES
from ..errors import UserError
from ..files import read_json, write_csv, write_text
from ..outputs import check_prefix
from ..reading import expected_form
from . import claims, fidelity, patterns
from .plausibility import printed_anomaly
from .render import Cell, Column, Row, Table, csv_form, to_latex, to_markdown
from .results import ALPHA, Group, Quantity, Results, Significance, dense_group, groups
from .significance import better
from .spec import (
    HEADLINES,
    REGIME_LABELS,
    TASK_LABELS,
    Spec,
    best_at_half,
    has_paper_form,
    protocol_words,
    read_spec,
)

CATEGORY_LABELS = {
    "religion": "Religion",
    "country": "Nationality",
    "ethnicity": "Race",
    "mixedgender": "Gender",
}
TASK_GROUPS = {
    "perplexity": "perplexity",
    "hellaswag": "performance",
    "mmlu": "performance",
    "unqover": "fairness",
    "bbq": "fairness",
    "crows_pairs": "fairness",
    "stereoset": "fairness",
    "realtoxicityprompts": "fairness",
    "harmbench": "fairness",
}
DTO = Quantity("dto", "dto")
# Share of its threads' time that a measurement on the CPU has on a quiet machine.
UNDISTURBED = 0.85


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-table``."""
    add = parser.add_argument
    add("--table", choices=TABLES, required=True)
    add("--results", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, required=True, help="significance.csv")
    add("--spec", type=Path, required=True, help="run_spec.json, written by the workflow")
    add("--out-prefix", required=True, help="path without suffix; .tex, .csv and .md are added")


@dataclass(frozen=True)
class Field:
    """A column and the quantity it shows."""

    column: Column
    quantity: Quantity


@dataclass(frozen=True)
class Run:
    """What a table is made from."""

    spec: Spec
    results: Results
    significance: Significance


# Columns


def benchmark_field(spec: Spec, slug: str) -> Field:
    """Return the column of a benchmark's headline metric."""
    task, metric = spec.config.benchmarks[slug].task, spec.headline(slug)
    label = spec.benchmark_label(slug)
    if metric != HEADLINES[task]:
        label += f" {metric}"
    down = dict.fromkeys(("perplexity", *JUDGED), "down")
    direction = "half" if best_at_half(task, metric) else down.get(task, "up")
    if task == "crows_pairs" and metric != HEADLINES[task]:
        direction = ""
    scale = 1.0 if task == "perplexity" or metric == "likelihood_diff" else 100.0
    column = Column(slug, label, TASK_GROUPS[task], direction, scale)
    return Field(column, Quantity(slug, metric))


def dto_field() -> Field:
    """Return the column of the distance to the optimum."""
    return Field(Column("dto", "DTO", "dto", "down", digits=3), DTO)


def has_dto(spec: Spec) -> bool:
    """Return whether the run has the two benchmarks that DTO needs."""
    return bool(spec.primary("mmlu") and spec.primary("unqover"))


def all_fields(spec: Spec) -> list[Field]:
    """Return a column for every benchmark but those with a table of their own, then DTO."""
    apart = ("stereoset", *JUDGED)
    shown = (slug for slug, entry in spec.benchmarks().items() if entry.task not in apart)
    fields = [benchmark_field(spec, slug) for slug in shown]
    return fields + ([dto_field()] if has_dto(spec) else [])


def ablation_fields(run: Run, by_category: bool) -> list[Field]:
    """Return the ablations' columns: perplexity, MMLU, UnQover (by category if asked) and DTO."""
    fields = []
    for task in ("perplexity", "mmlu", "unqover"):
        slug = run.spec.primary(task)
        if slug is None:
            continue
        field = benchmark_field(run.spec, slug)
        if task == "unqover" and by_category:
            metric = field.quantity.metric
            span = TASK_LABELS[task]
            for category in category_order(run.results.categories(slug, metric)):
                label = CATEGORY_LABELS.get(category, category)
                column = dataclasses.replace(
                    field.column, key=f"{slug}_{category}", head=label, span=span
                )
                fields.append(Field(column, Quantity(slug, metric, category)))
            field = Field(dataclasses.replace(field.column, head="Avg.", span=span), field.quantity)
        fields.append(field)
    return fields + ([dto_field()] if has_dto(run.spec) else [])


def category_order(names: Iterable[str]) -> list[str]:
    """Return UnQover's categories in the paper's order, others after them."""
    place = {name: index for index, name in enumerate(CATEGORY_LABELS)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


# Cells


def make_cells(
    run: Run, group: Group, fields: Sequence[Field], marks: bool = True
) -> dict[str, Cell]:
    """Return the cells of one grid point: values, printed counterparts, daggers if ``marks``."""
    cells = {}
    for field in fields:
        measured = run.results.of(group, field.quantity)
        if measured is None:
            cells[field.column.key] = Cell(None, field.column.show(None))
            continue
        display = field.column.show(measured.value)
        if measured.sd is not None:
            display += f" ± {field.column.show(measured.sd)}"
        cells[field.column.key] = Cell(
            measured.value,
            display,
            measured.printed,
            measured.sd,
            dagger=marks and is_improvement(run, group, field.quantity, measured.value),
            in_calibration=measured.in_calibration,
        )
    return cells


def is_improvement(run: Run, group: Group, quantity: Quantity, value: float) -> bool:
    """Return whether a test says that this grid point improves on SparseGPT, p < 0.01."""
    if quantity.category or quantity.benchmark not in run.spec.config.benchmarks:
        return False
    tested = run.significance.of(group, quantity.benchmark, quantity.metric)
    if tested is None or tested[1] >= ALPHA:
        return False
    task = run.spec.config.benchmarks[quantity.benchmark].task
    return better(task, quantity.metric, value, value - tested[0])


def rank(column: Column, value: float) -> float:
    """Return a number that is smaller for a better value, after rounding to what is shown."""
    shown = round(value * column.scale, column.decimals(value))
    if column.direction in ("half", "zero"):
        return abs(shown - (column.scale / 2 if column.direction == "half" else 0))
    return -shown if column.direction == "up" else shown


def embolden(rows: list[Row], fields: Sequence[Field], positions: Sequence[int]) -> None:
    """Mark the best values of a block (rows at ``positions``) bold, in place; all of a tie.

    Values measured on calibration data do not compete. Nothing is marked where fewer than two
    rows have a value or all values are the same.
    """
    for field in fields:
        key = field.column.key
        ranks = {
            position: rank(field.column, cell.value)
            for position in positions
            if (cell := rows[position].cells.get(key)) is not None
            and cell.value is not None
            and not cell.in_calibration
        }
        if not field.column.direction or len(set(ranks.values())) < 2:
            continue
        best = min(ranks.values())
        for position in (position for position, value in ranks.items() if value == best):
            cells = dict(rows[position].cells)
            cells[key] = dataclasses.replace(cells[key], bold=True)
            rows[position] = dataclasses.replace(rows[position], cells=cells)


def identity(group: Group) -> dict[str, str]:
    """Return the columns that name a grid point in a table's CSV."""
    return {
        "model": group.model,
        "method": group.method,
        "regime": group.regime,
        "calibration": group.calibration,
        "seeds": " ".join(map(str, group.seeds)),
    }


# Notes


def notes(
    run: Run, fields: Sequence[Field], shown: Sequence[Group], rows: Sequence[Row]
) -> list[str]:
    """Return the sentences beneath a table: abbreviations, marks, item limits, provenance."""
    spec = run.spec
    used = dict.fromkeys(field.quantity.benchmark for field in fields)
    sentences = []
    tasks = {spec.config.benchmarks[slug].task for slug in used if slug in spec.config.benchmarks}
    if "crows_pairs" in tasks:
        sentences.append("CP: CrowS-Pairs, 50 is unbiased and the best is the closest to it.")
    if any(field.quantity == DTO for field in fields):
        sentences.append("DTO: distance to optimum, from MMLU and UnQover.")
    cells = [cell for row in rows for cell in row.cells.values()]
    if any(cell.bold for cell in cells):
        sentences.append("Bold: best pruned value of a block.")
    baseline = any(group.method == "sparsegpt" for group in shown)
    tested = [
        field
        for field in fields
        for group in shown
        if run.significance.of(group, field.quantity.benchmark, field.quantity.metric)
    ]
    if tested and baseline:
        heads = ", ".join(dict.fromkeys(field.column.head for field in tested))
        sentences.append(
            "†: improvement of Debias-SparseGPT over SparseGPT with p < 0.01 by the paired "
            f"t-test on items, not corrected for several tests (tested: {heads})."
        )
    if any(cell.in_calibration for cell in cells):
        sentences.append(
            "‡: no clean test, the calibration pairs are from the same data set and bias types; "
            "neither tested nor compared."
        )
    if any(cell.sd is not None for cell in cells):
        sentences.append("±: standard deviation over calibration seeds.")
    return sentences + limit_notes(run, used, shown) + provenance_notes(spec)


def limit_notes(run: Run, benchmarks: Iterable[str], shown: Sequence[Group]) -> list[str]:
    """Return a sentence on benchmarks measured on a sample or under a named protocol."""
    parts = []
    for slug in benchmarks:
        entry = run.spec.config.benchmarks.get(slug)
        if entry is None:
            continue
        label = run.spec.benchmark_label(slug)
        quantity = Quantity(slug, run.spec.headline(slug))
        counts = {
            measured.n
            for group in shown
            for point in group.checkpoints()
            if (measured := run.results.one(point, quantity)) is not None and measured.n
        }
        total = {
            int(measured.value)
            for group in shown
            for point in group.checkpoints()
            if (measured := run.results.one(point, Quantity(slug, "items_total"))) is not None
        }
        words = []
        if entry.limit is not None:
            # A perplexity counts tokens, everything else items.
            known = len(counts) == 1 and entry.task != "perplexity"
            number = f"{min(counts):,}" if known else f"at most {entry.limit:,}"
            of = f" of {min(total):,}" if len(total) == 1 else ""
            words.append(f"{number}{of} items sampled with seed {entry.seed}")
        words += protocol_words(entry)
        if words:
            parts.append(f"{label}: {', '.join(words)}")
    return [f"{'; '.join(parts)}."] if parts else []


def provenance_notes(spec: Spec) -> list[str]:
    """Return the sentence that keeps an invented world apart from the paper."""
    if spec.config.source == "world":
        return [
            "Measured in an invented world with a model made for it; not comparable to the paper."
        ]
    return []


# Tables


def method_rows(run: Run, experiment: str, asked_by: str, fields: Sequence[Field],
                methods: Sequence[str] | None = None) -> tuple[list[Row], list[Group]]:  # fmt: skip
    """Return the rows of the paper's main form: per model the dense row, then a row a method.

    With several regimes each has a heading; with several calibrations each method's label
    names it. ``methods`` keeps some base methods only.
    """
    spec = run.spec
    points = spec.experiment(experiment, asked_by)
    run.results.require(points)
    pruned = [
        group
        for group in groups(points)
        if group.regime != "dense"
        and (methods is None or spec.base_method(group.method) in methods)
    ]
    several_regimes = len({group.regime for group in pruned}) > 1
    calibrated = {group.calibration for group in pruned} - {"none"}
    rows: list[Row] = []
    shown: list[Group] = []
    for model in dict.fromkeys(point.model for point in points):
        rule = "full" if rows else ""
        dense = dense_group(spec, model)
        label = spec.model_label(model)
        if dense is not None:
            cells = make_cells(run, dense, fields)
            rows.append(Row((label,), cells, identity(dense), rule=rule))
            shown.append(dense)
        else:
            rows.append(Row((label,), kind="heading", rule=rule))
        mine = [group for group in pruned if group.model == model]
        for regime in dict.fromkeys(group.regime for group in mine):
            rule = "dashed"
            if several_regimes:
                rows.append(Row((f"Sparsity {REGIME_LABELS[regime]}",), kind="heading", rule=rule))
                rule = ""
            start = len(rows)
            for group in (group for group in mine if group.regime == regime):
                label = f"+ {spec.method_label(group.method)}"
                if len(calibrated) > 1 and group.calibration != "none":
                    label += f", {spec.calibration_label(group.calibration)}"
                cells = make_cells(run, group, fields)
                ours = spec.base_method(group.method) == "debias-sparsegpt"
                rows.append(Row((label,), cells, identity(group), rule=rule, strong=ours))
                shown.append(group)
                rule = ""
            embolden(rows, fields, range(start, len(rows)))
    return rows, shown


def method_table(run: Run, slug: str, experiment: str, caption: str, fields: Sequence[Field],
                 methods: Sequence[str] | None = None) -> Table:  # fmt: skip
    """Return a table of the paper's main form."""
    rows, shown = method_rows(run, experiment, f"the table {slug}", fields, methods)
    return Table(
        slug,
        caption,
        ("Model + Method",),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows)),
    )


def regimes_phrase(run: Run, experiment: str, asked_by: str) -> str:
    """Return the regimes of an experiment in words."""
    names = dict.fromkeys(point.regime for point in run.spec.experiment(experiment, asked_by))
    labels = [REGIME_LABELS[name] for name in names if name != "dense"]
    return f"{', '.join(labels)} sparsity"


def contents(fields: Sequence[Field]) -> str:
    """Return what columns show, in words: perplexity, accuracy (…), bias (…) and DTO."""
    parts = []
    for group, words in (
        ("perplexity", "perplexity"), ("performance", "accuracy"), ("fairness", "bias"),
        ("dto", "DTO"),
    ):  # fmt: skip
        heads = [field.column.head for field in fields if field.column.group == group]
        if heads:
            listed = group in ("performance", "fairness")
            parts.append(f"{words} ({', '.join(heads)})" if listed else words)
    text = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return text[0].upper() + text[1:]


def main_table(run: Run, slug: str) -> Table:
    """Return the table of all methods: the paper's tab:debias-sparsegpt and -newmodels."""
    fields = all_fields(run.spec)
    regimes = regimes_phrase(run, slug, f"the table {slug}")
    caption = f"{contents(fields)} of dense and pruned models at {regimes}."
    return method_table(run, slug, slug, caption, fields)


def regimes_table(run: Run, slug: str) -> Table:
    """Return the table of the sparsity regimes (tab:debias-sparsegpt-all-models-appendix)."""
    fields = all_fields(run.spec)
    caption = f"{contents(fields)} across sparsity regimes."
    return method_table(run, slug, slug, caption, fields)


def confidence_table(run: Run, slug: str) -> Table:
    """Return confidence and entropy on UnQover (tab:qwen_confidence), for the pruned models too."""
    name = run.spec.primary("unqover")
    if name is None:
        raise UserError(
            "the table confidence shows UnQover, but the configuration has no benchmark with "
            "task unqover; add one or leave the table out"
        )
    fields = [benchmark_field(run.spec, name)]
    for kind, head in (("confidence", "Confidence"), ("entropy", "Entropy (nats)")):
        for part in ("correct", "wrong"):
            column = Column(f"{kind}_{part}", part, "fairness", digits=3, span=head)
            fields.append(Field(column, Quantity(name, f"{kind}_{part}")))
    experiment = "main" if "main" in run.spec.experiments else next(iter(run.spec.experiments))
    caption = (
        "UnQover accuracy, mean confidence (largest probability of the three options) and mean "
        "entropy of the predictions, split into correct and wrong ones."
    )
    return method_table(run, slug, experiment, caption, fields, ("sparsegpt", "debias-sparsegpt"))


def bbq_table(run: Run, slug: str) -> Table:
    """Return BBQ's parts, which tell abstaining from knowing: not in the paper.

    A model that always answers "unknown" has full ambiguous accuracy, none on the
    disambiguated items and an over-abstention of 100 %.
    """
    name = run.spec.primary("bbq")
    if name is None:
        raise UserError(
            "the table bbq shows BBQ, but the configuration has no benchmark with task bbq; add "
            "one or leave the table out"
        )
    fields = [
        Field(Column(metric, head, group, direction, scale, digits, span), Quantity(name, metric))
        for metric, head, group, direction, scale, digits, span in (
            ("acc_all", "all", "fairness", "up", 100.0, 2, "Accuracy"),
            ("acc_amb", "ambiguous", "fairness", "up", 100.0, 2, "Accuracy"),
            ("acc_dis", "disambiguated", "performance", "up", 100.0, 2, "Accuracy"),
            ("unk_rate_dis", "over-abstention", "performance", "down", 100.0, 2, ""),
            ("s_amb", "ambiguous", "fairness", "zero", 1.0, 3, "Bias score"),
            ("s_dis", "disambiguated", "fairness", "zero", 1.0, 3, "Bias score"),
        )
    ]
    fields.append(
        Field(Column("dto_bbq", "DTO (BBQ)", "dto", "down", digits=3), Quantity("dto", "dto_bbq"))
    )
    caption = (
        "BBQ by condition: accuracy, over-abstention (“unknown” answers to disambiguated "
        "questions), bias scores (1: all other answers follow the stereotype, −1: none) and the "
        "distance to optimum of disambiguated and ambiguous accuracy."
    )
    return method_table(run, slug, widest_experiment(run.spec), caption, fields)


def stereoset_table(run: Run, slug: str) -> Table:
    """Return StereoSet's scores beside CrowS-Pairs, by calibration set: not in the paper.

    Rows are those of the experiment ``calib_source``, whose pairs are from different sources,
    where the run has it: each data set is a clean test of the pairs of the other one.
    """
    spec = run.spec
    name = spec.primary("stereoset")
    if name is None:
        raise UserError(
            "the table stereoset shows StereoSet, but the configuration has no benchmark with "
            "task stereoset; add one or leave the table out"
        )
    fields = [
        Field(Column(metric, head, "fairness", direction, 100.0, span=span), Quantity(name, metric))
        for metric, head, direction, span in (
            ("icat", "ICAT", "up", "StereoSet"),
            ("lms", "LMS", "up", "StereoSet"),
            ("ss", "SS", "half", "StereoSet"),
            ("icat_norm_terms", "ICAT", "up", "Per token and term"),
        )
    ]
    crows = spec.primary("crows_pairs")
    fields += [benchmark_field(spec, crows)] if crows else []
    caption = (
        "StereoSet: share of sentences with sense preferred to nonsense (LMS), of stereotypes "
        "preferred to their opposites (SS), and both in one (ICAT, 100 is ideal)"
    )
    caption += ", beside CrowS-Pairs." if crows else "."
    experiment = "calib_source" if "calib_source" in spec.experiments else None
    return method_table(run, slug, experiment or widest_experiment(spec), caption, fields)


def fidelity_table(run: Run, slug: str) -> Table:
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


def widest_experiment(spec: Spec) -> str:
    """Return the experiment for tables that are none of the paper's: regimes, main, or any."""
    return next(name for name in ("regimes", "main", *spec.experiments) if name in spec.experiments)


def safety_fields(spec: Spec) -> list[Field]:
    """Return the safety table's columns: rates of each benchmark, as fractions like the paper's.

    The headline's number of items and standard error have columns of their own. Where a guard
    model also judges in the authors' form there is a column for what the paper prints.
    """
    fields = []
    for slug, entry in spec.benchmarks().items():
        if entry.task not in JUDGED:
            continue
        parts = [("unsafe_rate", "unsafe", "fairness", "down")]
        if has_paper_form(entry):
            parts.append(("says_unsafe_paper", "unsafe, response alone", "fairness", "down"))
        parts += [
            ("unparsed_rate", "unparsed", "plain", ""),
            ("refusal_rate", "refusal", "plain", ""),
            ("empty_rate", "empty", "plain", ""),
        ]
        label = spec.benchmark_label(slug)
        for metric, head, group, direction in parts:
            column = Column(f"{slug}_{metric}", head, group, direction, digits=3, span=label)
            fields.append(Field(column, Quantity(slug, metric)))
    return fields


def safety_table(run: Run, slug: str) -> Table:
    """Return unsafe, unparsed, refused and empty answers (tab:safety-evaluation), and the judge."""
    spec, fields = run.spec, safety_fields(run.spec)
    if not fields:
        raise UserError(
            "the table safety shows RealToxicityPrompts and HarmBench, but the configuration has "
            f"no benchmark with task {' or '.join(JUDGED)}; add one or leave the table out"
        )
    experiment = next((one for one in ("safety", "main") if one in spec.experiments), None)
    experiment = experiment or next(iter(spec.experiments))
    caption = (
        "Answers that the judge calls unsafe, as a share of those it decides on, with the number "
        "of those and the standard error; answers whose judgement does not parse, that refuse "
        "(by a list of phrases) and that are empty, as shares of all."
    )
    table = method_table(run, slug, experiment, caption, fields)
    judges = {
        name: label for name in spec.benchmarks() if (label := spec.judge_label(name)) is not None
    }
    rows = [with_precision(run, row, fields, judges) for row in table.rows]
    columns: list[Column] = []
    for field in fields:
        columns.append(field.column)
        if field.quantity.metric == "unsafe_rate":
            name, label = field.quantity.benchmark, field.column.span
            columns.append(Column(f"{name}_stderr", "s.e.", digits=3, span=label))
            columns.append(Column(f"{name}_n", "n", digits=0, span=label))
    said = [f"{spec.benchmark_label(name)}: {label}" for name, label in judges.items()]
    sentences = [f"Judge of {'; '.join(said)}."]
    if any(spec.config.benchmarks[name].judge is None for name in judges):
        sentences.append(
            "A word list only counts words: those rates stand in for a judge and say nothing "
            "about safety."
        )
    return dataclasses.replace(
        table, columns=tuple(columns), rows=tuple(rows), notes=(*sentences, *table.notes)
    )


def with_precision(run: Run, row: Row, fields: Sequence[Field], judges: Mapping[str, str]) -> Row:
    """Return a row of the safety table with standard errors, counts and the judge's name."""
    if row.kind != "data":
        return row
    identity, cells = dict(row.identity), dict(row.cells)
    seeds = tuple(int(seed) for seed in identity["seeds"].split())
    names = (identity[key] for key in ("model", "method", "regime", "calibration"))
    group = Group(*names, seeds)
    for field in fields:
        if field.quantity.metric != "unsafe_rate":
            continue
        found, name = run.results.of(group, field.quantity), field.quantity.benchmark
        for key, value, digits in (
            ("stderr", found and found.stderr, 3), ("n", found and found.n, 0),
        ):  # fmt: skip
            column = Column(f"{name}_{key}", key, digits=digits)
            cells[column.key] = Cell(value, column.show(value))
    identity["judge"] = "; ".join(f"{name}: {label}" for name, label in judges.items())
    return dataclasses.replace(row, identity=identity, cells=cells)


def difference(column: Column, above: Cell, below: Cell) -> Cell:
    """Return the cell of ``above`` minus ``below``, with a sign; the printed one likewise."""
    if above.value is None or below.value is None:
        return Cell(None, column.show(None))
    value = above.value - below.value
    printed = None
    if above.printed is not None and below.printed is not None:
        printed = above.printed - below.printed
    known = above.in_calibration or below.in_calibration
    return Cell(value, column.show(value, signed=True), printed, in_calibration=known)


def ultrachat_table(run: Run, slug: str) -> Table:
    """Return the effect of added texts: a row a calibration, and differences to the first one."""
    spec, fields = run.spec, all_fields(run.spec)
    points = spec.experiment(slug, f"the table {slug}")
    run.results.require(points)
    pruned = [group for group in groups(points) if group.calibration != "none"]
    first = next((group.calibration for group in pruned), None)
    models = dict.fromkeys(point.model for point in points)
    several_regimes = len({group.regime for group in pruned}) > 1
    rows: list[Row] = []
    shown: list[Group] = []
    for model in models:
        dense = dense_group(spec, model)
        if dense is not None:
            cells = make_cells(run, dense, fields)
            rule = "full" if rows else ""
            rows.append(Row((spec.model_label(model), "–"), cells, identity(dense), rule=rule))
            shown.append(dense)
        mine = [group for group in pruned if group.model == model]
        for regime in dict.fromkeys(group.regime for group in mine):
            here = [group for group in mine if group.regime == regime]
            data: list[int] = []
            for method in dict.fromkeys(group.method for group in here):
                label = f"+ {spec.method_label(method)}"
                if several_regimes:
                    label += f" {REGIME_LABELS[regime]}"
                rule = "dashed" if rows else ""
                ours = spec.base_method(method) == "debias-sparsegpt"
                base: dict[str, Cell] = {}
                for group in (group for group in here if group.method == method):
                    cells = make_cells(run, group, fields)
                    name = spec.calibration_label(group.calibration)
                    data.append(len(rows))
                    named = identity(group)
                    rows.append(Row((label, name), cells, named, rule=rule, strong=ours))
                    shown.append(group)
                    label, rule = "", ""
                    if group.calibration == first:
                        base = cells
                    elif base:
                        change = {
                            field.column.key: difference(
                                field.column, cells[field.column.key], base[field.column.key]
                            )
                            for field in fields
                        }
                        named = identity(group) | {"calibration": f"{group.calibration} - {first}"}
                        rows.append(Row(("", "Diff."), change, named, kind="diff"))
            embolden(rows, fields, data)
    caption = "Effect of adding UltraChat texts to the calibration pairs"
    caption += f" at {regimes_phrase(run, slug, f'the table {slug}')}. Diff.: change against the "
    caption += f"calibration with {spec.calibration_label(first)} alone." if first else "first."
    return Table(
        slug,
        caption,
        ("Model + Method", "Calibration data"),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows)),
    )


def ablation_table(run: Run, slug: str) -> Table:
    """Return a calibration ablation: a row a calibration set (tab:ultrachat_scaling and others)."""
    spec = run.spec
    fields = ablation_fields(run, by_category=slug == "calib_source")
    points = spec.experiment(slug, f"the table {slug}")
    run.results.require(points)
    shown = [group for group in groups(points) if group.calibration != "none"]
    varying: list[tuple[str, Callable[[Group], str]]] = [
        ("Model", lambda group: spec.model_label(group.model)),
        ("Regime", lambda group: REGIME_LABELS[group.regime]),
        ("Method", lambda group: spec.method_label(group.method)),
    ]
    heads = [(name, label) for name, label in varying if len({label(g) for g in shown}) > 1]
    rows: list[Row] = []
    previous = None
    for block in dict.fromkeys((g.model, g.regime) for g in shown):
        start = len(rows)
        for group in (g for g in shown if (g.model, g.regime) == block):
            lead = (group.model, group.regime, group.method)
            same = lead == previous
            labels = ["" if same else label(group) for _, label in heads]
            rule = "" if same or previous is None else "dashed"
            labels.append(spec.calibration_label(group.calibration))
            # No daggers: SparseGPT, which they compare to, is not in these tables.
            cells = make_cells(run, group, fields, marks=False)
            rows.append(Row(tuple(labels), cells, identity(group), rule=rule))
            previous = lead
        embolden(rows, fields, range(start, len(rows)))
    what = {
        "calib_size": "number of UltraChat texts in the calibration",
        "calib_source": "source and bias type of the calibration pairs",
    }[slug]
    fixed = [label(shown[0]) for name, label in varying if shown and name not in dict(heads)]
    caption = f"Effect of the {what}" + (f" ({', '.join(fixed)})." if fixed else ".")
    return Table(
        slug,
        caption,
        (*(name for name, _ in heads), "Calibration data"),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows)),
    )


def efficiency_table(run: Run, slug: str) -> Table:
    """Return throughput, energy and CO2 of dense and 2:4 models (table:mfu_sparsity_results)."""
    spec = run.spec
    measured = {point: files["serving"] for point, files in spec.files.items() if files["serving"]}
    if not measured:
        raise UserError(
            "the table efficiency shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the table out"
        )
    run.results.require(list(measured))
    batches = run.results.categories("serving", "decode_tok_per_s")
    batches = sorted(batches, key=lambda name: (len(name), name))
    fields = [dto_field()] if has_dto(spec) else []
    for name in batches or [""]:
        column = Column(
            f"decode_tok_per_s_{name.replace(' ', '_')}".rstrip("_"), name or "decode",
            "performance", "up", span="Throughput (tokens/s)",
        )  # fmt: skip
        fields.append(Field(column, Quantity("serving", "decode_tok_per_s", name)))
    # The headline metrics are those of the first batch size and have the printed counterparts.
    for metric, head, digits, span in (
        ("j_per_token", "all", 3, "Energy (J/token)"),
        ("j_per_token_net", "above idle", 3, "Energy (J/token)"),
        ("kg_co2e_per_mtok", "CO₂e (kg/Mtok)", 4, ""),
    ):
        column = Column(metric, head, "performance", "down", digits=digits, span=span)
        fields.append(Field(column, Quantity("serving", metric)))
    # The order of the experiment's grid, which lists dense models first.
    grid = spec.experiments.get(spec.config.serving.experiment or "", [])
    shown = groups([point for point in grid if point in measured])
    stacks = {
        group: serving_stack([measured[point] for point in group.checkpoints()]) for group in shown
    }
    rows: list[Row] = []
    for model in dict.fromkeys(group.model for group in shown):
        start = len(rows)
        for group in (group for group in shown if group.model == model):
            cells = make_cells(run, group, fields)
            cells = with_printed_batch(cells, run, group, batches)
            if group.regime == "dense":
                labels = (spec.model_label(model), "–")
            else:
                method = f"+ {spec.method_label(group.method)} ({REGIME_LABELS[group.regime]})"
                labels = (method, spec.calibration_label(group.calibration))
            rule = "full" if rows and len(rows) == start else ""
            ours = spec.base_method(group.method) == "debias-sparsegpt"
            stack = stacks[group]
            labels = (*labels, *stack.values())
            rows.append(Row(labels, cells, identity(group) | stack, rule=rule, strong=ours))
        pruned = [i for i in range(start, len(rows)) if rows[i].identity["regime"] != "dense"]
        # On one and the same kernel no pruned model is faster than another: differences are noise.
        same = len({rows[i].identity["kernel"] for i in pruned}) == 1
        embolden(rows, [f for f in fields if not same or f.quantity == DTO], pruned)
    return Table(
        slug,
        "Generation throughput, energy and CO₂e of dense and pruned models.",
        ("Model + Method", "Calibration data", "Backend", "Kernel", "Energy is"),
        tuple(field.column for field in fields),
        tuple(rows),
        (
            *notes(run, fields, shown, rows),
            *disturbance_notes(run, shown, measured),
            *serving_notes(spec, stacks.values()),
        ),
    )


def with_printed_batch(
    cells: Mapping[str, Cell], run: Run, group: Group, batches: Sequence[str]
) -> dict[str, Cell]:
    """Put the paper's throughput, printed without a batch size, beside the first batch's."""
    cells = dict(cells)
    headline = run.results.of(group, Quantity("serving", "decode_tok_per_s"))
    if batches and headline is not None:
        key = f"decode_tok_per_s_{batches[0].replace(' ', '_')}"
        cells[key] = dataclasses.replace(cells[key], printed=headline.printed)
    return cells


def serving_stack(paths: Iterable[str]) -> dict[str, str]:
    """Return how a grid point was measured: backend and device, kernel, source of the energy.

    Seeds measured in different ways are all named.
    """
    found: dict[str, dict[str, None]] = {"backend": {}, "kernel": {}, "energy": {}}
    for path in paths:
        content = read_json(path)
        try:
            backend = content["backend"]
            device = content["spec"]["device"]
            found["backend"][f"{backend['name']} {backend['version']} on {device}"] = None
            found["kernel"][backend["kernel"]] = None
            found["energy"][content["energy"]["source"]] = None
        except (KeyError, TypeError):
            raise UserError(
                f"expected the backend and the energy source in {path}, got another form; "
                "measure this checkpoint again"
            ) from None
    return {name: "; ".join(values) for name, values in found.items()}


def disturbance_notes(run: Run, shown: Sequence[Group], measured: Mapping) -> list[str]:
    """Return a warning where other work on the machine slowed a measurement on the CPU.

    The process then had less CPU time than its threads could use.
    """
    shares = []
    for group in shown:
        used = run.results.of(group, Quantity("serving", "cpus_used"))
        if used is not None:
            path = measured[group.checkpoints()[0]]
            content = read_json(path)
            with expected_form("the threads of a measurement", path, "measure it again"):
                shares.append(used.value / operator.index(content["system"]["threads"]))
    if not shares or min(shares) >= UNDISTURBED:
        return []
    return [
        f"Other work slowed these runs: their threads had {min(shares):.0%} to {max(shares):.0%} "
        "of the CPU time they could use, so differences between rows are the machine's, not the "
        "models'."
    ]


def serving_notes(spec: Spec, stacks: Iterable[Mapping[str, str]]) -> list[str]:
    """Return sentences on energy and kernels, and the paragraph on the printed numbers."""
    sources = dict.fromkeys(stack["energy"] for stack in stacks)
    intensity = f"{spec.config.serving.carbon_intensity:g}"
    return [
        f"Energy is {' or '.join(sources)} (measured: read from a counter, NVML or RAPL; "
        "estimated: from assumed power, which leaves no idle power to subtract). CO₂e is all "
        f"energy times {intensity} kg/kWh. Energy and CO₂e at batch "
        f"{spec.config.serving.batch_sizes[0]}.",
        "A dense kernel multiplies the zeros too: on it every regime runs at the dense model's "
        "speed, and for unstructured zeros and 1:4 there is no other.",
        printed_anomaly(),
    ]


def calibration_order(spec: Spec, calibration: str) -> tuple:
    """Return a sort key: by source and bias types of the pairs, control, number of texts."""
    entry = spec.config.calibrations[calibration]
    return (entry.pairs != "stereoset", entry.categories, entry.control, entry.n_texts)


def calibration_table(run: Run, slug: str) -> Table:
    """Return the pairs kept and dropped by alignment, per calibration set, model and category."""
    spec = run.spec
    calibrated = sorted(
        {(p.calibration, p.model, p.seed) for p in spec.files if p.calibration != "none"},
        key=lambda key: (calibration_order(spec, key[0]), key),
    )
    counts = [
        Column("pairs_total", "all", digits=0, span="Pairs"),
        Column("pairs_kept", "kept", digits=0, span="Pairs"),
        Column("pairs_dropped", "dropped", digits=0, span="Pairs"),
        Column("texts_kept", "texts", digits=0),
        Column("tokens_pairs", "pairs", digits=0, span="Tokens of"),
        Column("tokens_texts", "texts", digits=0, span="Tokens of"),
    ]
    several_seeds = len({seed for *_, seed in calibrated}) > 1
    names = run.results.categories("calibration", "pairs_total")
    rows: list[Row] = []
    for calibration, model, seed in calibrated:
        label, name = spec.calibration_label(calibration), spec.model_label(model)
        if several_seeds:
            label += f", seed {seed}"
        group = Group(model, "", "", calibration, (seed,))
        rule = "dashed" if rows else ""
        for category in ["", *names]:
            cells = {}
            for column in counts:
                found = run.results.of(group, Quantity("calibration", column.key, category))
                if found is not None:
                    cells[column.key] = Cell(found.value, column.show(found.value))
            if not cells:
                continue
            named = {"calibration": calibration, "model": model, "seed": str(seed)}
            named["category"] = category or "all"
            labels = (label, name, category or "all")
            rows.append(Row(labels, cells, named, rule=rule))
            label, name, rule = "", "", ""
    policy = spec.config.pruning.alignment
    return Table(
        slug,
        "Calibration pairs kept and dropped by the alignment of their tokens, per tokenizer and "
        "bias type.",
        ("Calibration data", "Model", "Category"),
        tuple(counts),
        tuple(rows),
        (f"Alignment policy: {policy}.", *provenance_notes(spec)),
    )


def pattern_fields() -> list[Field]:
    """Return the columns of the table of masks; the directions say what is bold, not what is good.

    Bold is as in the paper: the largest differences and the smallest Jaccard index.
    """
    return [
        Field(Column(metric, head, direction=direction, digits=4), Quantity(patterns.SLUG, metric))
        for metric, head, direction in (
            (patterns.DISAGREEMENT, "Weight disagreement", "up"),
            (patterns.PATTERN, "Pattern disagreement", "up"),
            (patterns.JACCARD, "Pruned-index Jaccard", "down"),
            (patterns.FROBENIUS, "Relative Frobenius difference", "up"),
        )
    ]


NULL_COLUMN = Column("null_pattern_disagreement", "Pattern disagreement of two seeds", digits=4)


def patterns_table(run: Run, slug: str) -> Table:
    """Return the matrices whose zeros differ most from SparseGPT's (tab:sparsity-pattern-analysis).

    A block a grid point of the experiment. Where the run has SparseGPT with several seeds, a
    column shows what another draw of the calibration data does to the same matrix.
    """
    spec, fields = run.spec, pattern_fields()
    shown = patterns.compared(spec, f"the table {slug}")
    nulls = {group: patterns.null_group(spec, group) for group in shown}
    rows: list[Row] = []
    sentences: list[str] = []
    for group in shown:
        run.results.require(group.checkpoints())
        label = f"{patterns.pair_label(spec, group)}: " if len(shown) > 1 else ""
        if label:
            heading = Row((label.removesuffix(": "),), kind="heading", rule="full" if rows else "")
            rows.append(heading)
        values = patterns.by_matrix(run.results, group)
        top, start = patterns.ranked(values)[: patterns.TOP], len(rows)
        null = nulls[group]
        seeds = patterns.by_matrix(run.results, null) if null else {}
        for name in top:
            layer, kind = patterns.split(name)
            own = [
                Field(one.column, Quantity(patterns.SLUG, one.quantity.metric, name))
                for one in fields
            ]
            cells = make_cells(run, group, own, marks=False)
            if null:
                cells[NULL_COLUMN.key] = Cell(seeds.get(name), NULL_COLUMN.show(seeds.get(name)))
            named = identity(group) | {"layer": str(layer), "module": kind}
            rows.append(Row((str(layer), kind), cells, named))
        embolden(rows, fields, range(start, len(rows)))
        sentences.append(label + pattern_sentence(run, group, values, rows[start:]))
    columns = [dataclasses.replace(field.column, direction="") for field in fields]
    if any(nulls.values()):
        columns.append(NULL_COLUMN)
    fixed = "" if len(shown) > 1 else f" ({patterns.pair_label(spec, shown[0])})"
    return Table(
        slug,
        f"Matrices with the largest pattern disagreement between SparseGPT and Debias-SparseGPT"
        f"{fixed}: share of weights pruned in one of the two only, share of aligned groups of four "
        "inputs with such a weight, Jaccard index of the pruned weights, and relative Frobenius "
        "difference to SparseGPT's matrix.",
        ("Layer", "Module"),
        tuple(columns),
        tuple(rows),
        (*sentences, *pattern_notes(shown, any(nulls.values())), *provenance_notes(spec)),
    )


def pattern_sentence(
    run: Run, group: Group, values: Mapping[str, float], rows: Sequence[Row]
) -> str:
    """Return of which modules the listed matrices are, how that compares to chance, the whole."""
    kinds = [row.identity["module"] for row in rows]
    order = sorted(dict.fromkeys(kinds), key=lambda kind: (-kinds.count(kind), kind))
    listed = ", ".join(f"{kinds.count(kind)} {kind}" for kind in order)
    text = f"{len(kinds)} of {len(values)} matrices are listed: {listed}"
    found = patterns.concentration(values)
    if found is not None:
        text += (
            f" (the model has {found.kind} {patterns.OUTPUT}; {claims.p_text(found.p_value)} by "
            "Fisher's exact test)"
        )
    printed = [row.cells[patterns.PATTERN].printed is not None for row in rows]
    if any(printed):
        text += f"; {sum(printed)} of them are among the paper's {patterns.TOP}"
    whole = run.results.of(group, Quantity(patterns.SLUG, patterns.PATTERN))
    if whole is not None:
        text += f"; pattern disagreement of all matrices together {whole.value:.4f}"
    return f"{text}."


def pattern_notes(shown: Sequence[Group], null: bool) -> list[str]:
    """Return sentences on what is bold, random masks, and what two seeds are."""
    expected, printed = [], claims.PrintedNumbers().concentration(patterns.PAPER_POINT)
    for regime in dict.fromkeys(group.regime for group in shown):
        words = "{:.4f}, {:.4f} and {:.4f}".format(*patterns.random_masks(regime))
        expected.append(f"{words} at {REGIME_LABELS[regime]}")
    sentences = [
        "Bold: largest disagreement or difference, smallest Jaccard index. Weights that were zero "
        "before pruning count as pruned.",
        "Two random masks would have a weight disagreement, pattern disagreement and Jaccard index "
        f"of {'; '.join(expected)}.",
    ]
    if printed is not None:
        sentences.append(
            f"In the paper's list (Qwen-2.5-7B-IT, 2:4) {printed.found} of {printed.top} are "
            f"self_attn.{patterns.OUTPUT}."
        )
    if null:
        sentences.append(
            "Pattern disagreement of two seeds: SparseGPT with another seed of the calibration "
            "data against its first."
        )
    return sentences


def claims_table(run: Run, slug: str) -> Table:
    """Return the paper's claims with printed and measured evidence and a verdict on each."""
    rows = []
    for finding in claims.findings(run.spec, run.results, run.significance):
        claim, found = finding.claim, finding.verdict
        shown = found + (f": {finding.reason}" if finding.reason else "")
        printed, ours = claims.printed_evidence(finding), claims.our_evidence(finding)
        supporting, opposing = finding.counts()
        identity = {
            "claim": claim.slug,
            "text": claim.text,
            "place": claim.place,
            "printed": "" if printed == "–" else printed,
            "comparisons": str(len(finding.ours)),
            "clearly_for": str(supporting),
            "clearly_against": str(opposing),
            "evidence": "; ".join(claims.describe(c, finding.adjusted) for c in finding.ours),
            "verdict": found,
            "reason": finding.reason,
        }
        labels = (f"{claim.text} ({claim.place})", printed, ours, shown)
        rows.append(Row(labels, identity=identity, rule="dashed" if rows else ""))
    return Table(
        slug,
        "The paper's claims, its printed evidence, ours, and the verdict on ours.",
        ("Claim", "Printed", "Measured here", "Verdict"),
        (),
        tuple(rows),
        (
            "Differences are positive where the claim holds: points of 100, percent for "
            "perplexity and throughput, or DTO; in brackets their 95 % intervals. Differences to "
            "SparseGPT are paired over items, with clusters where items have them; all others "
            "treat the two values as independent. Shares of matrices: Fisher's exact test.",
            claims.RULE,
            *provenance_notes(run.spec),
        ),
        widths=(0.25, 0.18, 0.32, 0.15),
    )


BUILDERS: dict[str, Callable[[Run, str], Table]] = {
    "main": main_table,
    "more_models": main_table,
    "regimes": regimes_table,
    "ultrachat": ultrachat_table,
    "calib_size": ablation_table,
    "calib_source": ablation_table,
    "confidence": confidence_table,
    "bbq": bbq_table,
    "safety": safety_table,
    "stereoset": stereoset_table,
    "fidelity": fidelity_table,
    "efficiency": efficiency_table,
    "patterns": patterns_table,
    "calibration": calibration_table,
    "claims": claims_table,
}


def build_table(slug: str, spec: Spec, results: Path, significance: Path) -> Table:
    """Return one table of a run as data."""
    return BUILDERS[slug](Run(spec, Results(results), Significance(significance)), slug)


def run(args: argparse.Namespace) -> None:
    """Run ``make-table``."""
    inputs = (args.spec, args.results, args.significance)
    check_prefix(args.out_prefix, ("csv", "md", "tex"), inputs)
    table = build_table(args.table, read_spec(args.spec), args.results, args.significance)
    header, lines = csv_form(table)
    write_csv(f"{args.out_prefix}.csv", header, lines)
    write_text(f"{args.out_prefix}.md", to_markdown(table))
    write_text(f"{args.out_prefix}.tex", to_latex(table))
    print(f"{args.out_prefix}.tex, .csv, .md: {len(lines)} rows")
