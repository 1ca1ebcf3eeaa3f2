"""How faithful a pruned model's answers are to the dense model's, item by item.

The paper wants to preserve the dense model's behaviour, which accuracy alone does not show:
as many answers may turn wrong as turn right. Answers are those of the data's own option
order; the distribution over the options is the softmax of their logits, or of their summed
log-likelihoods where a benchmark scores whole continuations.
"""

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from scipy.stats import entropy

from ..config.finished import ITEMS
from ..config.grids import Checkpoint, benchmarks_of
from ..config.run_sheet import RunSheet
from ..config.tasks import FACTS
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats.records import read_records
from .frames import Number, Numbers, Quantity
from .significance import dense_of

RECORD = "records of answers (pred, correct, option_logprobs)"


@dataclass(frozen=True)
class Answers:
    """One checkpoint's answers to n items: ids, chosen options (n,), right (n,), p (n, options)."""

    ids: tuple[str, ...]
    chosen: NDArray[np.int64]
    right: NDArray[np.bool_]
    probabilities: NDArray[np.float64]


def read_answers(path: Path) -> Answers:
    """Read the answers of ``items.jsonl``.

    Items may differ in their number of options. Raises UserError for a file without answers and
    for an item twice.
    """
    with expected_form(RECORD, path, "evaluate again"):
        rows = read_records(path, ("item_id", "pred", "correct", "option_logprobs"))
        scores = [map(float, row.get("option_logits", row["option_logprobs"])) for row in rows]
        # An option that an item does not have is never chosen: its probability is 0.
        table = np.array(list(itertools.zip_longest(*scores, fillvalue=-np.inf)), float).T
        chosen = np.array([operator.index(row["pred"]) for row in rows])
    if not rows:
        raise UserError(f"expected answers in {path}, found none; evaluate again")
    right = np.array([bool(row["correct"]) for row in rows])
    return Answers(tuple(str(row["item_id"]) for row in rows), chosen, right, softmax(table, 1))


def js_divergence(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the Jensen-Shannon divergence in bits of the rows of two (n, options) arrays, (n,).

    Rows are probabilities; 0 for equal rows, 1 for rows without a common option.
    """
    p, q = np.asarray(first, float), np.asarray(second, float)
    parts = (entropy(p, base=2, axis=1) + entropy(q, base=2, axis=1)) / 2
    # Not scipy's jensenshannon: for nearly equal rows it takes the root of a rounding error
    # below 0, which is not a number.
    return np.maximum(entropy((p + q) / 2, base=2, axis=1) - parts, 0.0)


def fidelity(pruned: Answers, dense: Answers) -> dict[str, Number]:
    """Return the metrics by name.

    ``flips`` is the share of items whose answer differs from the dense model's,
    ``flips_to_wrong`` and ``flips_to_right`` the shares that turn from correct to wrong and
    back (between two wrong answers is neither), ``js_divergence`` the mean Jensen-Shannon
    divergence of the option distributions in bits. Raises UserError when the items differ.
    """
    if pruned.ids != dense.ids or pruned.probabilities.shape != dense.probabilities.shape:
        raise UserError(
            f"expected the same items for a pruned model and its dense one, got {len(pruned.ids)} "
            f"and {len(dense.ids)} items that differ; evaluate both again with the same options"
        )
    changes = {
        "flips": pruned.chosen != dense.chosen,
        "flips_to_wrong": dense.right & ~pruned.right,
        "flips_to_right": pruned.right & ~dense.right,
        "js_divergence": js_divergence(pruned.probabilities, dense.probabilities),
    }
    found, n = {}, len(dense.ids)
    for name, values in changes.items():
        one = values.astype(float)
        stderr = float(one.std(ddof=1) / np.sqrt(n)) if n > 1 else None
        found[name] = Number(float(one.mean()), n, stderr)
    return found


def fidelity_values(
    run_sheet: RunSheet, point: Checkpoint, read: Callable[[Path], Answers] = read_answers
) -> Numbers:
    """Return a pruned model's fidelity on each benchmark; none where the run lacks its dense one.

    Benchmarks without options have no fidelity, nor those that one of the two does not have.
    """
    dense, found = dense_of(run_sheet, point), Numbers()
    theirs = benchmarks_of(run_sheet.config, dense) if dense else {}
    for slug, entry in benchmarks_of(run_sheet.config, point).items():
        if dense and FACTS[entry.task].compared and slug in theirs:
            both = [run_sheet.result_folder(one, slug) / ITEMS for one in (point, dense)]
            metrics = fidelity(*map(read, both)).items()
            found |= {Quantity(slug, name): number for name, number in metrics}
    return found
