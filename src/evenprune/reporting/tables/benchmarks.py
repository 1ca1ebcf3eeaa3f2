"""The benchmarks of bias: the paper's tab:fairness_benchmarks."""

from ...base.errors import UserError
from ..fields import Run, category_order
from ..labels import CATEGORY_LABELS, TASK_LABELS
from ..notes import provenance_notes
from ..printed import printed_rows
from ..render import Table, TableRow
from ..results import Quantity

TASKS = ("bbq", "crows_pairs", "unqover")
NAMES = {"bbq": "BBQ-HELM", "crows_pairs": "CrowS-Pairs", "unqover": "UnQover"}


def printed_sizes() -> dict[str, int]:
    """Return the paper's number of items of each task."""
    return {
        task: int(row["value"])
        for row in printed_rows()
        for task, _, metric in [row["metric"].partition(":")]
        if metric == "size"
    }


def build(run: Run, slug: str) -> Table:
    """Return size and attributes of each benchmark of bias.

    The size is the number of items that this run scored, and beside it what the paper prints; of
    printed numbers it is the paper's. Attributes are the catalogue's, in an invented world, or
    where it has none, the categories that were measured.
    """
    run_sheet, sizes = run.sheet, printed_sizes()
    real = run_sheet.config.source != "world"
    rows = []
    for task in TASKS:
        name = run_sheet.primary(task)
        if name is None:
            continue
        metric = run_sheet.headline(name)
        counts = {
            found.n
            for point in run_sheet.files
            if (found := run.results.one(point, Quantity(name, metric))) is not None and found.n
        }
        size = max(counts) if counts else sizes[task] if real else None
        dataset = run_sheet.config.benchmarks[name].dataset
        groups = run_sheet.config.datasets[dataset].groups if dataset else None
        if not real or groups is None:
            found_groups = category_order(run.results.categories(name, metric))
            groups = ", ".join(CATEGORY_LABELS.get(one, one) for one in found_groups)
        shown = f"{size:,}" if size else "–"
        label = NAMES[task] if real else TASK_LABELS[task]
        printed = (f"{sizes[task]:,}",) if real else ()
        identity = {"benchmark": name, "size": str(size or ""), "attributes": groups}
        identity |= {"size_printed": str(sizes[task])} if real else {}
        rows.append(TableRow((label, shown, groups, *printed), identity=identity))
    if not rows:
        raise UserError(
            f"the table {slug} shows benchmarks of bias, but the configuration has none with task "
            f"{', '.join(TASKS)}; add one or leave the table out"
        )
    return Table(
        slug,
        "Benchmarks of stereotypes: the number of items that each checkpoint was scored on, and "
        "whom they are about.",
        (
            "Benchmark",
            "Size",
            "Attributes (target groups)",
            *(("Size in the paper",) if real else ()),
        ),
        (),
        tuple(rows),
        tuple(provenance_notes(run_sheet)),
        widths=(0.15, 0.08, 0.55, 0.1) if real else (0.15, 0.08, 0.65),
    )
