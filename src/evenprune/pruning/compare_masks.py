"""Compare the masks of two pruned checkpoints of one base model, matrix by matrix.

Writes a CSV with one row per matrix: the share of weights pruned in only one of the two, the share
of aligned groups of four inputs with any such weight, the Jaccard index of the pruned weights and
the relative Frobenius difference (paper, "Analysis of Learned Sparsity Patterns"), and the
counts behind them. The reference is SparseGPT's checkpoint in the paper.
"""

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.facts import DENSE, regime_facts
from ..io.checksums import write_sum
from ..io.errors import UserError
from ..io.files import write_csv
from ..io.outputs import check_file
from ..io.progress import track
from ..io.reading import expected_form
from ..models.identity import MANIFEST, identify, own_manifest
from ..models.trust import add_trust_argument

if TYPE_CHECKING:
    from torch import Tensor

GROUP = 4  # inputs whose part of the mask is compared as one, aligned
CHUNK = 1 << 22  # weights compared at a time, so that memory holds little beside the matrices
COLUMNS = (
    "module", "layer", "kind", "rows", "columns", "disagreement", "pattern_disagreement",
    "jaccard", "relative_frobenius", "different_weights", "zeros_reference", "zeros",
    "zeros_both", "groups", "different_groups",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``compare-masks``."""
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="DIR", help="pruned model")
    add("--reference", type=Path, required=True, metavar="DIR", help="pruned model to compare with")
    add("--out", type=Path, required=True, metavar="FILE.csv", help="one row per matrix")
    add_trust_argument(parser)


def compare(reference: "Tensor", weight: "Tensor") -> dict[str, int | float | None]:
    """Compare two pruned forms of one matrix, ``(n, d)`` of any floating dtype; d are the inputs.

    A weight is pruned where it is zero, of either sign. Squares are summed in float64, by row and
    then exactly, so that the number of threads changes nothing. The last group of a row is shorter
    where its width is no multiple of four. ``jaccard`` is 1 where nothing is pruned,
    ``relative_frobenius`` None where the reference is all zero.
    """
    import torch
    from torch.nn.functional import pad

    columns = reference.shape[1]
    counts = Counter[str]()
    squares, moved = list[float](), list[float]()
    step = max(1, CHUNK // columns)
    for first, second in zip(reference.split(step), weight.split(step), strict=True):
        pruned_first, pruned_second = first == 0, second == 0
        # Four booleans read as one integer: zero where a group has no difference.
        changed = pad(pruned_first ^ pruned_second, (0, -columns % GROUP)).contiguous()
        changed = changed.view(torch.int32)
        counts.update(
            zeros_reference=int(pruned_first.count_nonzero()),
            zeros=int(pruned_second.count_nonzero()),
            zeros_both=int((pruned_first & pruned_second).count_nonzero()),
            groups=changed.numel(),
            different_groups=int(changed.count_nonzero()),
        )
        exact = first.double()
        squares.extend(exact.square().sum(dim=1).tolist())
        moved.extend((second.double() - exact).square().sum(dim=1).tolist())
    both, whole = counts["zeros_both"], math.fsum(squares)
    union = counts["zeros_reference"] + counts["zeros"] - both
    return {
        "rows": len(reference),
        "columns": columns,
        "disagreement": (union - both) / reference.numel(),
        "pattern_disagreement": counts["different_groups"] / counts["groups"],
        "jaccard": both / union if union else 1.0,
        "relative_frobenius": math.sqrt(math.fsum(moved) / whole) if whole else None,
        "different_weights": union - both,
        **counts,
    }


def check_same_base(model: Path, reference: Path) -> None:
    """Raise UserError unless ``prune`` made both folders of one base model, in one regime."""
    described: list[dict[str, Any]] = []
    for folder in (model, reference):
        manifest = own_manifest(folder)
        if not manifest:
            raise UserError(
                f"expected a pruned checkpoint at {folder}, found no {MANIFEST} of prune; give one"
            )
        with expected_form("what prune writes", folder / MANIFEST, "prune again"):
            described.append({"regime": manifest["regime"], **manifest["base"]["files"]})
    one, two = described
    odd = min(dict(one.items() ^ two.items()), default=None)
    if odd is not None:
        raise UserError(
            f"expected two checkpoints of one base model and regime, but {model} and "
            f"{reference} differ in {odd} ({one.get(odd)} and {two.get(odd)}); compare others"
        )


def compare_models(model: Path, reference: Path) -> Iterator[dict[str, Any]]:
    """Yield a row of the CSV for each pruned matrix, in the order of the model.

    Two matrices are in memory at a time. Raises UserError for checkpoints that cannot be
    compared, and where a weight file has not what the manifest lists.
    """
    from ..blocks.base_model import BaseModel
    from ..models.architecture import rows_of
    from ..models.loading import read_folder
    from ..models.tensors import read_tensor

    check_same_base(model, reference)
    for folder in (model, reference):
        identify(folder)
    base = BaseModel(model, regime_facts(DENSE), "cpu")
    others = read_folder(reference)
    linears = base.linears()
    for full, linear in track(linears.items(), len(linears), "compare-masks"):
        layer, _, kind = full.removeprefix(f"{base.blocks_name}.").partition(".")
        with expected_form("the matrices that its manifest lists", reference, "prune again"):
            first, second = (
                rows_of(linear, read_tensor(base.slot(f"{full}.weight").of(one)))
                for one in (others, base.stored)
            )
            found = compare(first, second)
        row: dict[str, Any] = {"module": full, "layer": layer, "kind": kind, **found}
        if row["relative_frobenius"] is not None:  # digits that are the same on every processor
            row["relative_frobenius"] = f"{row['relative_frobenius']:.12g}"
        yield row


def run(args: argparse.Namespace) -> None:
    """Compare and write the CSV; UserError where the two cannot be compared."""
    from ..data.hub_models import located
    from ..models.loading import limit_threads

    check_file(args.out, [args.model, args.reference], keys=COLUMNS)
    limit_threads()
    both = (args.model, args.reference)
    with located(*both, trust=args.trust_remote_code) as found:
        rows = list(compare_models(*found))
    write_csv(args.out, COLUMNS, rows)
    write_sum(args.out)
    top = max(rows, key=lambda row: row["pattern_disagreement"])
    print(
        f"{args.out}: {len(rows)} matrices; the masks differ most in {top['module']} "
        f"({top['pattern_disagreement']:.4f} of its groups)"
    )
