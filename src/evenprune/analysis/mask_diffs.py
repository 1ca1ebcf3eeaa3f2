"""How far the masks of a pruned checkpoint are from SparseGPT's, matrix by matrix.

compare-masks counts; here its CSV becomes rows of results.csv (benchmark ``masks``, category
``layer.module`` such as ``26.self_attn.o_proj``), and those become the ranking and the test of
concentration that table and claim share. A mask is which weights of a matrix are pruned; a pattern
is its part in an aligned group of four inputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import fisher_exact

from ..config.run_sheet import RunSheet
from ..io.checksums import check_sum
from ..io.errors import UserError
from ..io.reading import expected_form, iter_csv
from .frames import Number, Numbers, Quantity
from .results import Group, Results, experiment_of, groups

SLUG = "masks"
DISAGREEMENT, PATTERN = "disagreement", "pattern_disagreement"
JACCARD, FROBENIUS = "jaccard", "relative_frobenius"
TOP = 20  # matrices that the paper lists
OUTPUT = "o_proj"  # last part of the name of an attention output projection
# Modules in the order in which a block runs them; others follow by name.
ORDER = (
    "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj",
    "gate_proj", "up_proj", "gate_up_proj", "down_proj",
)  # fmt: skip

# What of the CSV of compare-masks is read.
MASK_COLUMNS = (
    "layer", "kind", "rows", "columns", "disagreement", "pattern_disagreement", "jaccard",
    "relative_frobenius", "different_weights", "zeros_reference", "zeros", "zeros_both", "groups",
    "different_groups",
)  # fmt: skip


def mask_values(path: Path) -> Numbers:
    """Return the values of a CSV of compare-masks: of each matrix, then of all together.

    ``n`` is what a value is a share of: weights, groups of four, weights pruned in any of the
    two. All matrices together have no Frobenius difference. Raises UserError for another file.
    """
    totals = {name: np.zeros(2, int) for name in (DISAGREEMENT, PATTERN, JACCARD)}
    found = Numbers()
    remedy = "run compare-masks again"
    check_sum(path, remedy)
    for line, row in iter_csv(path, MASK_COLUMNS, what="compared masks", remedy=remedy):
        category = f"{row['layer']}.{row['kind']}"
        with expected_form("numbers of compare-masks", f"line {line} of {path}", remedy):
            weights = int(row["rows"]) * int(row["columns"])
            both, pruned = int(row["zeros_both"]), int(row["zeros_reference"]) + int(row["zeros"])
            counts = {
                DISAGREEMENT: (int(row["different_weights"]), weights),
                PATTERN: (int(row["different_groups"]), int(row["groups"])),
                JACCARD: (both, pruned - both),
            }
            for name, count in counts.items():
                totals[name] += count
                found[Quantity(SLUG, name, category)] = Number(float(row[name]), count[1])
            value = float(row[FROBENIUS]) if row[FROBENIUS] else None
            found[Quantity(SLUG, FROBENIUS, category)] = Number(value, weights)
    for name, (part, whole) in totals.items():
        if whole:
            found[Quantity(SLUG, name)] = Number(int(part) / int(whole), int(whole))
    return found


# What a run has


def by_matrix(results: Results, group: Group) -> dict[str, float]:
    """Return the pattern disagreement of a grid point's matrices, by category; means over seeds."""
    return {
        name: measured.value
        for name in results.categories(SLUG, PATTERN)
        if (measured := results.of(group, Quantity(SLUG, PATTERN, name)))
    }


def ranked(values: Mapping[str, float]) -> list[str]:
    """Return the categories from the largest value to the smallest, equal ones by place.

    Places are in the order in which a model runs them.
    """

    def place(category: str) -> tuple:
        layer, _, kind = category.partition(".")
        last = kind.rpartition(".")[2]
        order = ORDER.index(last) if last in ORDER else len(ORDER)
        return -values[category], int(layer), order, kind

    return sorted(values, key=place)


def compared(run_sheet: RunSheet, asked_by: str) -> list[Group]:
    """Return the grid points of Debias-SparseGPT and its variants whose masks are shown.

    Raises UserError where the experiment has none with a SparseGPT counterpart in the run.
    """
    name = experiment_of(run_sheet, ("masks", "main", "*"))
    found = run_sheet.experiment(name, asked_by)
    points = [point for point in found if point in run_sheet.mask_references]
    if not points:
        raise UserError(
            f"{asked_by} compares masks of Debias-SparseGPT with SparseGPT's, but the experiment "
            f"{name!r} has no two such checkpoints of one regime, calibration and seed; add both "
            f"methods to it or leave {asked_by} out"
        )
    return groups(points)


# What to hold it against


@dataclass(frozen=True)
class Concentration:
    """How many of the ``top`` first-ranked of ``total`` matrices are of a kind with ``kind``."""

    found: int
    top: int
    kind: int
    total: int

    @property
    def excess(self) -> float:
        """The share of the kind among the first-ranked minus its share of all matrices."""
        return self.found / self.top - self.kind / self.total

    @property
    def p_value(self) -> float:
        """Two-sided p of Fisher's exact test: the hypergeometric law, were ranks random."""
        rest = self.kind - self.found
        table = [[self.found, self.top - self.found], [rest, self.total - self.top - rest]]
        return float(fisher_exact(table).pvalue)


def concentration(values: Mapping[str, float]) -> Concentration | None:
    """Return how the attention output projections are spread over the ``TOP`` largest values.

    None where all matrices are among the first ``TOP``, or none is such a projection.
    """
    outputs = [name for name in values if name.rpartition(".")[2] == OUTPUT]
    if len(values) <= TOP or not outputs:
        return None
    first = ranked(values)[:TOP]
    return Concentration(len(set(first) & set(outputs)), TOP, len(outputs), len(values))
