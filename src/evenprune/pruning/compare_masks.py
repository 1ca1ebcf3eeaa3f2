"""Compare the masks of two pruned checkpoints of one base model, matrix by matrix.

Writes a CSV with a row a matrix: the share of weights pruned in only one of the two, the share of
aligned groups of four inputs with any such weight, the Jaccard index of the pruned weights and
the relative Frobenius difference (paper, "Analysis of Learned Sparsity Patterns"), and the
counts behind them. The reference is SparseGPT's checkpoint in the paper.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.files import read_json, write_csv
from ..base.outputs import check_file, check_header
from ..base.progress import track
from ..models.identity import identify
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
    add("--out", type=Path, required=True, metavar="FILE.csv", help="one row a matrix")
    add_trust_argument(parser)


@dataclass(frozen=True)
class MaskComparison:
    """Two pruned forms of one matrix W (rows, columns): exact counts, and sums of squares.

    ``zeros_both`` counts the weights pruned in both; ``groups`` are aligned groups of four
    inputs of a row, the last of a row shorter where its width is no multiple of four.
    """

    rows: int
    columns: int
    zeros_reference: int
    zeros: int
    zeros_both: int
    groups: int
    different_groups: int
    reference_square: float
    difference_square: float

    @property
    def different_weights(self) -> int:
        """The number of weights that are pruned in one of the two only."""
        return self.zeros_reference + self.zeros - 2 * self.zeros_both

    @property
    def disagreement(self) -> float:
        """The share of weights that are pruned in one of the two only."""
        return self.different_weights / (self.rows * self.columns)

    @property
    def pattern_disagreement(self) -> float:
        """The share of groups whose masks are not equal."""
        return self.different_groups / self.groups

    @property
    def jaccard(self) -> float:
        """Weights pruned in both over weights pruned in any; 1 where nothing is pruned."""
        union = self.zeros_reference + self.zeros - self.zeros_both
        return self.zeros_both / union if union else 1.0

    @property
    def relative_frobenius(self) -> float | None:
        """``||W1 - W0|| / ||W0||`` with the reference W0; None where W0 is all zero."""
        if self.reference_square == 0:
            return None
        return math.sqrt(self.difference_square / self.reference_square)


def compare(reference: "Tensor", weight: "Tensor") -> MaskComparison:
    """Compare two pruned forms of one matrix, ``(n, d)`` of any floating dtype; d are the inputs.

    A weight is pruned where it is zero, of either sign. Squares are summed in float64, by row
    and then exactly, so that the number of threads changes nothing. Raises ValueError for
    different or empty shapes.
    """
    import torch
    from torch.nn.functional import pad

    if reference.shape != weight.shape or reference.ndim != 2 or not reference.numel():
        raise ValueError(
            f"expected two matrices of one shape, got {reference.shape}, {weight.shape}"
        )
    rows, columns = reference.shape
    zeros_reference = zeros = both = groups = different = 0
    squares: tuple[list[float], list[float]] = ([], [])
    step = max(1, CHUNK // columns)
    for start in range(0, rows, step):
        first, second = reference[start : start + step], weight[start : start + step]
        pruned_first, pruned_second = first == 0, second == 0
        zeros_reference += int(pruned_first.count_nonzero())
        zeros += int(pruned_second.count_nonzero())
        both += int((pruned_first & pruned_second).count_nonzero())
        # Four booleans read as one integer: zero where a group has no difference.
        changed = pad(pruned_first ^ pruned_second, (0, -columns % GROUP)).contiguous()
        changed = changed.view(torch.int32)
        groups += changed.numel()
        different += int(changed.count_nonzero())
        exact = first.double()
        squares[0].extend(exact.square().sum(dim=1).tolist())
        squares[1].extend((second.double() - exact).square().sum(dim=1).tolist())
    return MaskComparison(
        rows, columns, zeros_reference, zeros, both, groups, different, *map(math.fsum, squares)
    )


def as_row(module: str, layer: str, kind: str, found: MaskComparison) -> dict[str, Any]:
    """Return one line of the CSV.

    The Frobenius difference has twelve digits, which are the same on every processor.
    """
    frobenius = found.relative_frobenius
    return {
        "module": module,
        "layer": layer,
        "kind": kind,
        "relative_frobenius": None if frobenius is None else f"{frobenius:.12g}",
    } | {name: getattr(found, name) for name in COLUMNS[3:] if name != "relative_frobenius"}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what identifies a pruned checkpoint: base, regime, pruned tensors, model type.

    Raises UserError for a folder that ``prune`` did not write.
    """
    if not (folder / "manifest.json").is_file():
        raise UserError(
            f"expected a pruned checkpoint at {folder}, but it has no manifest.json; give a folder "
            "that `prune` has written"
        )
    manifest = read_json(folder / "manifest.json")
    try:
        return {
            "type": read_json(folder / "config.json", finite=False).get("model_type"),
            "regime": manifest["regime"],
            "base": manifest["base"]["files"],
            "pruned": {
                name: facts["shape"]
                for name, facts in manifest["tensors"].items()
                if facts.get("pruned")
            },
        }
    except (KeyError, TypeError, AttributeError):
        raise UserError(
            f"expected base, regime and tensors in {folder / 'manifest.json'}, got another form; "
            "prune again"
        ) from None


def check_same_base(model: Path, reference: Path) -> dict[str, Any]:
    """Return what ``read_manifest`` says of ``model``.

    Raises UserError where the two checkpoints are not one base model pruned to one regime.
    """
    ours, theirs = read_manifest(model), read_manifest(reference)

    def fail(what: str, first: Any, second: Any) -> None:
        raise UserError(
            f"expected two checkpoints of one base model and regime, but {model} and {reference} "
            f"differ in their {what} ({first} and {second}); compare others"
        )

    for name, what in (("type", "architecture"), ("regime", "regime")):
        if ours[name] != theirs[name]:
            fail(what, ours[name], theirs[name])
    if ours["pruned"].keys() != theirs["pruned"].keys():
        fail("pruned tensors", *(f"{len(one['pruned'])} tensors" for one in (ours, theirs)))
    for name, shape in ours["pruned"].items():
        if shape != theirs["pruned"][name]:
            fail(f"shape of {name}", shape, theirs["pruned"][name])
    if ours["base"] != theirs["base"]:
        odd = sorted(dict(ours["base"].items() ^ theirs["base"].items()))[0]
        fail(
            "base model", *(f"{odd} {one['base'].get(odd, 'none')[:12]}" for one in (ours, theirs))
        )
    return ours


def compare_models(model: Path, reference: Path) -> Iterator[dict[str, Any]]:
    """Yield a row of the CSV for each pruned matrix, in the order of the model.

    Two matrices are in memory at a time. Raises UserError for checkpoints that cannot be
    compared, and where a weight file has not what the manifest lists.
    """
    from ..models.architecture import rows_of
    from ..models.tensors import read_folder, read_tensor
    from .base_model import BaseModel
    from .masks import regime_of

    facts = check_same_base(model, reference)
    for folder in (model, reference):
        identify(folder)
    base = BaseModel(model, regime_of(facts["regime"]), "cpu")
    others = read_folder(reference)
    linears = base.linears()
    slots = {full: base.slot(f"{full}.weight") for full in linears}
    if {slot.stored for slot in slots.values()} != set(facts["pruned"]):
        raise UserError(
            f"{model / 'manifest.json'} lists other pruned tensors than the model's block linears; "
            "prune again"
        )
    for full, linear in track(linears.items(), len(linears), "compare-masks"):
        name = slots[full].stored
        entry, other = base.stored[name], others.get(name)
        if other is None or other.shape != entry.shape:
            raise UserError(
                f"expected {name} with shape {entry.shape} in {reference}, found "
                f"{'none' if other is None else other.shape}; prune again"
            )
        pair = (rows_of(linear, read_tensor(slots[full].of(one))) for one in (others, base.stored))
        layer, _, kind = full.removeprefix(f"{base.blocks_name}.").partition(".")
        yield as_row(full, layer, kind, compare(*pair))


def run(args: argparse.Namespace) -> None:
    """Compare and write the CSV; UserError where the two cannot be compared."""
    from ..models.loading import limit_threads

    check_file(args.out, [args.model, args.reference])
    check_header(args.out, COLUMNS)
    limit_threads()
    rows = list(compare_models(args.model, args.reference))
    write_csv(args.out, COLUMNS, rows)
    top = max(rows, key=lambda row: row["pattern_disagreement"])
    print(
        f"{args.out}: {len(rows)} matrices; the masks differ most in {top['module']} "
        f"({top['pattern_disagreement']:.4f} of its groups)"
    )
