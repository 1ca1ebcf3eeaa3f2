"""Ours beside the paper's: the numbers that it prints too, protocols by distance, its claims."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..analysis import labels, mask_diffs
from ..analysis.claims import ALPHA, Finding, counts, findings
from ..analysis.comparisons import Comparison, Key
from ..analysis.labels import words_of
from ..analysis.printed import printed_value, printed_values
from ..analysis.results import POINT, Quantity, Run, groups
from ..config.run_sheet import RunSheet
from ..config.tasks import FACTS
from ..io.errors import UserError
from ..stats import inference
from .analyses import SPEED
from .notes import provenance_notes
from .rows import made, rate_ends
from .tables import DTO, DTO_COLUMN, Cell, Column, Row, Rule, Table, benchmark_column, columns_of

# What stands behind a difference, and what it means, by the cell ``covered`` of the CSV
MARKS = {"1": " ✓", "0": " ×", "": ""}
SIGNS = {
    "1": "✓: the printed value lies within our 95 % interval (of the standard error over items, "
    "and over seeds; Wilson's of a rate of judged answers, t over rounds of a ratio of speeds)",
    "0": "×: it lies outside of our 95 % interval",
    "": "no sign: no interval is known",
}
NEAR = 1.0  # a distance that counts as the printed number
# Words for the numbers that are of no benchmark.
NAMES = {
    "decode_tok_per_s": "Throughput (tok/s)",
    "kg_co2e_per_mtok": "CO₂ (kg/Mtok)",
    mask_diffs.DISAGREEMENT: "weight disagreement",
    mask_diffs.PATTERN: "pattern disagreement",
    mask_diffs.JACCARD: "Jaccard",
    mask_diffs.FROBENIUS: "relative Frobenius",
}


def number_column(sheet: RunSheet, quantity: Quantity) -> Column:
    """Return how a number is shown, as in the paper's tables; its head is what it is called.

    That is the benchmark, the metric that is no headline, and the category.
    """
    metric, entry = quantity.metric, sheet.config.benchmarks.get(quantity.benchmark)
    if quantity == DTO:
        return DTO_COLUMN
    column = Column(metric, NAMES.get(metric, metric), digits=2 if metric == SPEED.metric else 4)
    words = [column.head]
    if entry:
        headline, facts = benchmark_column(sheet, quantity.benchmark), FACTS[entry.task]
        own = metric == headline.quantity.metric
        column = headline if own else Column(metric, metric, headline.group, digits=3)
        words = [labels.benchmark_label(sheet, quantity.benchmark)]
        words += [] if metric == facts.headline else [facts.words.get(metric, metric)]
    if quantity.category:
        words.append(labels.CATEGORY_LABELS.get(quantity.category, quantity.category))
    return replace(column, head=" ".join(words))


def numbers(run: Run, slug: str) -> Table:
    """Return ours, its interval, the paper's value and the difference of every shared number.

    Checkpoints stand in the order of the experiments; a number that several tables print stands
    once. Raises UserError where no number has a printed counterpart, as in an invented world.
    """
    rows: list[Row] = []
    for group in groups(list(dict.fromkeys(run.sheet.shown))):
        first = group.checkpoints()[0]
        rule: Rule = "dashed" if rows else ""
        whole = "dense" if group.is_base else words_of(run.sheet, group, *POINT[1:])
        texts = (labels.model_label(run.sheet, group.model), whole)
        for quantity in run.results.quantities(first):
            printed = printed_value(run.sheet, first, *quantity)
            ours = run.results.of(group, quantity)
            if printed is None or ours is None:
                continue
            column, ends = number_column(run.sheet, quantity), rate_ends(run, group, quantity)
            cell = Cell(ours.value, column.show(ours.value), printed[0], ours.sd, ours.error, ends)
            ends, said = cell.interval(column), cell.numbers(column)
            inside = said["_covered"]
            cells = {
                "ours": Cell(cell.value, cell.display),
                "interval": Cell(None, " to ".join(map(column.show, ends)) if ends else "–"),
                "printed": Cell(cell.printed, column.show(cell.printed)),
                "difference": Cell(None, column.show(cell.difference, signed=True) + MARKS[inside]),
            }
            identity = {"tables": printed[1], **group.identity, **quantity._asdict()}
            identity |= {"ci_low": said["_low"], "ci_high": said["_high"], "covered": inside}
            rows.append(Row((*texts, column.head), cells, identity, rule=rule))
            texts, rule = ("", ""), ""
    if not rows:
        raise UserError(
            f"the table {slug} shows numbers that the paper prints too, and this run has none: "
            "expected the paper's models, methods and calibrations by their catalogue names, "
            "measured as in config/declared.py; leave it out of other runs"
        )
    covered = Counter(row.identity["covered"] for row in rows)
    within, beyond, rest = (covered[end] for end in SIGNS)
    words = f"{within} of {within + beyond} cells with a printed value have it within our 95 % "
    words += f"interval; {rest} more have no interval." if rest else "interval."
    signs = "; ".join(sign for end, sign in SIGNS.items() if covered[end])
    notes = [f"Differences are computed before rounding. {signs}.", *provenance_notes(run.sheet)]
    return made(run, slug, rows, columns_of(run, slug), notes, agreement=words)


def distances(run: Run, slug: str) -> list[float]:
    """Return how far a benchmark's headline is from the printed one, of each dense model.

    In points of 100; of a perplexity 100 times the absolute natural logarithm of the ratio, that
    is about per cent. Models of which nothing is printed or measured are left out.
    """
    task, gaps = run.sheet.config.benchmarks[slug].task, list[float]()
    for point in run.sheet.checkpoints:
        printed = printed_values().get((point.model, "dense", "dense", "none", task))
        ours = run.results.one(point, Quantity(slug, run.sheet.headline(slug)))
        if point.is_base and printed is not None and ours is not None:
            relative = task == "perplexity"
            gap = math.log(ours.value / printed[0]) if relative else ours.value - printed[0]
            gaps.append(100 * abs(gap))
    return gaps


def protocols(run: Run, slug: str) -> Table:
    """Return a row a benchmark, those of a task from the nearest to the printed numbers on.

    A benchmark of more models comes first: distances over other models do not compare. Raises
    UserError where no dense model of the run is in the paper.
    """
    sheet = run.sheet
    rows, columns = list[Row](), columns_of(run, slug)
    for task in FACTS:
        known = {name: distances(run, name) for name in sheet.benchmarks(task)}
        found = {name: values for name, values in known.items() if values}
        ranked = sorted(found, key=lambda n: (-len(found[n]), statistics.fmean(found[n]), n))
        for place, name in enumerate(ranked):
            values = found[name]
            near = sum(value <= NEAR for value in values)
            shown = (statistics.fmean(values), max(values), near, len(values))
            cells = {
                column.key: Cell(number, column.show(number), bold=place == 0)
                for column, number in zip(columns, shown, strict=True)
            }
            rule: Rule = "full" if rows and place == 0 else ""
            texts = (labels.TASK_LABELS[task] if place == 0 else "", name, _protocol(sheet, name))
            named = {"task": task, "benchmark": name, "rank": str(place + 1)}
            rows.append(Row(texts, cells, named, rule=rule))
    if not rows:
        raise UserError(
            f"the table {slug} compares dense models with the numbers that the paper prints, but "
            "no dense model of this run is in the paper; use models of config/paper.yaml"
        )
    return made(run, slug, rows, columns)


def _protocol(sheet: RunSheet, name: str) -> str:
    entry = sheet.config.benchmarks[name]
    words = labels.protocol_words(entry)
    if sheet.headline(name) != FACTS[entry.task].headline:
        words.append(sheet.headline(name))
    words += [f"{entry.limit} items"] if entry.limit else []
    return ", ".join(words) or "as the task is by default"


# Claims: printed and measured evidence, and the verdict on each

SHOWN = 3  # comparisons spelled out; of more, the weakest and the strongest


def printed_evidence(finding: Finding) -> str:
    """Return in how many printed comparisons a claim holds, and their range by unit; "" of none."""
    printed = finding.printed
    if not printed:
        return ""
    wins, ties, losses, p = inference.sign_test([c.lead for c in printed])
    text = f"{wins} of {len(printed)} as claimed"
    text += f", {ties} at the limit" if ties else ""
    text += f", {losses} against" if losses else ""
    parts = []
    for unit in dict.fromkeys(c.unit for c in printed):
        same = sorted((c for c in printed if c.unit == unit), key=lambda c: c.difference.value)
        low, high = (c.show(c.difference.value) for c in (same[0], same[-1]))
        what = {"points": " points", "dto": " DTO", "relative": ""}[unit]
        parts.append(f"{low}{what}" if low == high else f"{low} to {high}{what}")
    text += f" ({'; '.join(parts)})"
    return text + (f"; sign test {inference.p_text(p)}" if len(printed) >= 6 else "")


def describe(comparison: Comparison, adjusted: Mapping[Key, float]) -> str:
    """Return one comparison as text: difference, simultaneous interval, adjusted p, n."""
    difference = comparison.difference
    text = f"{comparison.label} {comparison.show(difference.value)}"
    half = difference.half_width(1 - ALPHA, tests=len(adjusted)) if adjusted else None
    if half is not None:
        low, high = (comparison.show(difference.value + sign * half) for sign in (-1, 1))
        text += f" [{low}, {high}]"
    if half is not None or comparison.exact_p is not None:
        text += f", {inference.p_text(adjusted[comparison.key])}"
    return text + (f", n = {difference.n:,}" if difference.n else "")


def our_evidence(finding: Finding) -> str:
    """Return our comparisons as text: counts, then all of them or the two extremes."""
    ours, adjusted = finding.ours, finding.adjusted
    if len(ours) <= SHOWN:
        return "; ".join(describe(c, adjusted) for c in ours)
    supporting, opposing = counts(ours, adjusted)
    text = f"{sum(c.lead > 0 for c in ours)} of {len(ours)} as claimed, {supporting} clearly; "
    text += f"{opposing} clearly against"
    text += f"; joint {inference.p_text(finding.joint)}" if finding.joint is not None else ""
    ordered = sorted(ours, key=lambda c: c.lead / (c.difference.stderr or 1.0))
    weakest, strongest = describe(ordered[0], adjusted), describe(ordered[-1], adjusted)
    return f"{text}. Weakest: {weakest}. Strongest: {strongest}"


def claims(run: Run, slug: str) -> Table:
    """Return the paper's claims with printed and measured evidence and a verdict on each."""
    rows: list[Row] = []
    for finding in findings(run):
        claim, printed = finding.claim, printed_evidence(finding)
        measured = ". ".join(filter(None, [our_evidence(finding), finding.reason]))
        supporting, opposing = counts(finding.ours, finding.adjusted)
        identity = {"claim": claim.slug}
        identity |= {name: getattr(claim, name) for name in ("wording", "text", "place")}
        identity |= {"printed": printed, "comparisons": str(len(finding.ours))}
        identity |= {"clearly_for": str(supporting), "clearly_against": str(opposing)}
        identity["evidence"] = "; ".join(describe(c, finding.adjusted) for c in finding.ours)
        identity["joint_p"] = "" if finding.joint is None else f"{finding.joint:.3g}"
        identity |= {"verdict": finding.verdict, "reason": finding.reason}
        said = f"“{claim.wording}” ({claim.place}). Tested: {claim.text}"
        texts = (said, printed or "–", measured, finding.verdict)
        rows.append(Row(texts, identity=identity, rule="dashed" if rows else ""))
    return made(run, slug, rows)
