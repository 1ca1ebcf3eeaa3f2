"""What pruning did to each model, and whether it is less fair than the dense one."""

from dataclasses import replace

from ...stats.directions import gain
from ..described import fields_of, points_of
from ..fields import Field, Run
from ..labels import TASK_GROUPS
from ..render import Table
from ..results import Group, dense_group, groups
from . import rows

LEVEL = 0.05  # of a test after Holm's correction


def build(run: Run, slug: str) -> Table:
    """Return the usual rows, with words on each pruned checkpoint."""
    fields, table = fields_of(run, slug), rows.build(run, slug)
    said: dict[tuple[str, ...], str] = {
        (group.model, group.method, group.regime, group.calibration): words(run, group, fields)
        for group in groups(points_of(run, slug))
    }
    names = ("model", "method", "regime", "calibration")
    lines = tuple(
        row
        if row.kind == "heading"
        else replace(
            row, labels=(*row.labels, said.get(tuple(row.identity[name] for name in names), ""))
        )
        for row in table.rows
    )
    return replace(table, heads=(*table.heads, "Against the dense model"), rows=lines)


def words(run: Run, group: Group, fields: list[Field]) -> str:
    """Return in words what changed between a checkpoint and its dense model; "" for a dense one."""
    dense = dense_group(run.sheet, group.model)
    if group.is_base or dense is None:
        return ""
    found: dict[str, list[str]] = {}
    start = []
    for field in fields:
        slug = field.quantity.benchmark
        if slug not in run.sheet.config.benchmarks:
            continue  # the distance to the optimum
        task = run.sheet.config.benchmarks[slug].task
        after, before = (run.results.of(one, field.quantity) for one in (group, dense))
        if after is None or before is None:
            continue
        if TASK_GROUPS[task] == "perplexity":
            start.append(f"Perplexity × {after.value / before.value:.3g}.")
            continue
        head = field.column.head
        found.setdefault(_verdict(run, group, field, after.value, before.value), []).append(head)
    parts = [f"{name}: {', '.join(heads)}." for name, heads in sorted(found.items())]
    return " ".join([*start, *parts])


def _verdict(run: Run, group: Group, field: Field, after: float, before: float) -> str:
    """Return what is said of one benchmark: which of two values is the better one, if any is."""
    slug, metric = field.quantity.benchmark, field.quantity.metric
    task = run.sheet.config.benchmarks[slug].task
    p = run.significance.against_dense(group, slug, metric)
    bias = TASK_GROUPS[task] == "fairness"
    if p is None:
        return "Not tested"
    if p >= LEVEL:
        return "No change shown"
    better = gain(task, metric, after, before) > 0
    if bias:
        return "Fairer" if better else "Less fair"
    return "Better" if better else "Ability lost"
