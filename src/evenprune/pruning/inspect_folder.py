"""What any model folder holds, tensor by tensor, next to its base: for models that others pruned.

Read in pieces: of a tensor and its base a few megabytes are in memory, the whole only where their
dtypes differ, or where the pattern may lie along its first axis.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..io.errors import UserError, few, printable
from ..io.files import read_json
from ..io.progress import track
from ..models.identity import identify
from ..models.loading import read_folder
from ..models.quantised import CONFIG
from ..models.tensors import chunks, read_tensor, values_of
from ..models.weights import Entry

GROUPS = (2, 4, 8, 16)  # N:M patterns are looked for with these M
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")  # of a block or an expert, in a tensor's name
LISTED = 8  # names that a message lists
# A tensor against its base: equal bytes; equal after rounding to its dtype; and so on.
SAME, ROUNDED, CHANGED, OTHER_SHAPE, ADDED = "same", "rounded", "changed", "other shape", "added"


@dataclass(frozen=True)
class Held:
    """One stored tensor: ``zeros`` and ``not_finite`` of its ``size`` values, and what it is next
    to the base's (``state``), from which ``moved`` of its values other than zero differ.

    ``patterns``: N:M of which every aligned group of M values has at least N zeros, N largest,
    those left out that follow from a smaller M. Groups lie along the last axis, else the first.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int
    zeros: int
    not_finite: int
    state: str
    moved: int
    patterns: tuple[str, ...] = ()


def fewest_zeros(zero: NDArray[np.bool_]) -> list[int]:
    """Return the fewest zeros of any aligned group of 2, 4, 8 and 16 values; zero: (n,).

    M that n is no multiple of have 0.
    """
    counts, found = zero.astype(np.uint8), []
    for _ in GROUPS:
        if len(counts) % 2:
            break
        counts = counts[::2] + counts[1::2]
        found.append(int(counts.min(initial=255)))
    return found + [0] * (len(GROUPS) - len(found))


def patterns(fewest: Iterable[int], width: int) -> tuple[str, ...]:
    """Return the N:M patterns that hold in rows of ``width``, not those that others imply."""
    found, implied = [], 0
    for of, zeros in zip(GROUPS, fewest, strict=True):
        if width % of:
            break
        if zeros > implied:
            found.append(f"{zeros}:{of}")
        implied = 2 * zeros
    return tuple(found)


def hold(entry: Entry, base: Entry | None) -> tuple[Held, str]:
    """Return what a stored tensor is next to the base's, and the SHA-256 of its bytes."""
    size, digest = int(np.prod(entry.shape, dtype=np.int64)), hashlib.sha256()
    zeros = bad = moved = 0
    fewest = np.full(len(GROUPS), 255)
    state = ADDED if base is None else OTHER_SHAPE
    others: Iterator[memoryview] | None = None
    if base is not None and base.shape == entry.shape:
        if base.dtype == entry.dtype:
            state, others = SAME, chunks(base)
        else:
            own, rounded = read_tensor(entry), read_tensor(base).to(entry.torch_dtype)
            differs = own != rounded
            moved = int((differs & (own != 0)).sum())
            state = CHANGED if differs.any() else ROUNDED
    for piece in chunks(entry):
        digest.update(piece)
        values = values_of(piece, entry.torch_dtype)
        zero = (values == 0).numpy()
        zeros += int(np.count_nonzero(zero))
        if values.is_floating_point():
            bad += len(values) - int(torch.isfinite(values).sum())
        if len(entry.shape) > 1:
            fewest = np.minimum(fewest, fewest_zeros(zero))
        if others is not None and piece != (other := next(others)):
            state = CHANGED
            differs = values != values_of(other, entry.torch_dtype)
            moved += int((differs & (values != 0)).sum())
    found: tuple[str, ...] = ()
    if len(entry.shape) > 1 and zeros < size:
        found = patterns(fewest.tolist(), entry.shape[-1])
        # Some architectures store their matrices transposed.
        if not found and len(entry.shape) == 2 and zeros * max(GROUPS) >= size:
            turned = (read_tensor(entry).T == 0).contiguous().flatten().numpy()
            found = patterns(fewest_zeros(turned), entry.shape[0])
    held = Held(entry.dtype, entry.shape, size, zeros, bad, state, moved, found)
    return held, f"{entry.dtype}{entry.shape}{digest.hexdigest()}"


def counterpart(name: str, base: Mapping[str, Entry]) -> str | None:
    """Return the base's name of a tensor, with or without the prefix of the whole model."""
    heads = dict.fromkeys(one.partition(".")[0] for one in base)
    names = (name, name.partition(".")[2], *(f"{head}.{name}" for head in heads))
    return next((one for one in names if one in base), None)


def inspect_folder(folder: Path, base: Path | None) -> dict[str, Any]:
    """Return what a folder's tensors are, by name and in all, next to those of its base if given.

    ``kinds`` sums the matrices of numbered blocks up by their name within a block; ``zeros`` and
    ``weights`` are of these matrices. Raises UserError for a folder without whole weights.
    """
    stored, original = read_folder(folder), read_folder(base) if base else {}
    named = {name: counterpart(name, original) for name in stored}
    found: dict[str, Held] = {}
    digests: dict[str, list[str]] = {}
    kinds: dict[str, list[Held]] = {}
    for name in track(sorted(stored), len(stored), "tensors"):
        found[name], digest = hold(stored[name], original.get(named[name] or ""))
        if len(stored[name].shape) > 1:
            digests.setdefault(digest, []).append(name)
            if NUMBER.search(name):
                kinds.setdefault(NUMBER.sub("*", name), []).append(found[name])
    matrices = [one for held in kinds.values() for one in held]
    return {
        "model_sha256": identify(folder).files_sha256,
        "base_sha256": identify(base).files_sha256 if base else None,
        "quantised": bool(read_json(folder / "config.json").get(CONFIG)),
        "matrices": len(matrices),
        "weights": sum(one.size for one in matrices),
        "zeros": sum(one.zeros for one in matrices),
        "sparsity": _share(matrices),
        "kinds": {name: _kind(held) for name, held in sorted(kinds.items())},
        "states": {
            state: sum(one.state == state for one in found.values())
            for state in (SAME, ROUNDED, CHANGED, OTHER_SHAPE, ADDED)
            if base
        },
        "missing": sorted(set(original) - set(named.values())),
        "duplicates": sorted(names for names in digests.values() if len(names) > 1),
        "not_finite": {name: one.not_finite for name, one in found.items() if one.not_finite},
        "tensors": {name: asdict(one) for name, one in found.items()},
    }


def _share(held: list[Held]) -> float:
    return sum(one.zeros for one in held) / max(1, sum(one.size for one in held))


def _kind(held: list[Held]) -> dict[str, Any]:
    shares = [_share([one]) for one in held]
    common = set.intersection(*(set(one.patterns) for one in held))
    return {
        "matrices": len(held),
        "sparsity": _share(held),
        "least": min(shares),
        "most": max(shares),
        "patterns": [one for one in held[0].patterns if one in common],
        "changed": sum(one.state == CHANGED for one in held),
        "moved": sum(one.moved for one in held),
    }


def in_words(report: Mapping[str, Any], folder: Path, base: Path | None) -> str:
    """Return a report for a terminal: the matrices by kind, then what else was found."""
    lines = [
        f"{folder}{f' against {base}' if base else ''}: {report['sparsity']:.2%} of the weights "
        f"of {report['matrices']} matrices in its blocks are zero"
    ]
    heads = ("matrix", "number", "zeros", "least", "most", "N:M", "changed", "moved weights")
    rows: list[tuple[str, ...]] = [heads]
    for name, kind in report["kinds"].items():
        shares = (f"{kind[key]:.2%}" for key in ("sparsity", "least", "most"))
        held = ", ".join(kind["patterns"]) or "none"
        number, moved = str(kind["matrices"]), f"{kind['moved']:,}"
        rows.append((printable(name), number, *shares, held, str(kind["changed"]), moved))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    if base:
        counts = (f"{count} {state}" for state, count in report["states"].items() if count)
        lines.append(f"all tensors against the base's: {', '.join(counts)}")
    if report["missing"]:
        lines.append(f"only in the base: {_listed(report['missing'])}")
    for names in report["duplicates"]:
        lines.append(f"equal matrices: {_listed(names)}")
    if report["quantised"]:
        lines.append("the weights are quantised: zeros and changes are those of what is stored")
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return printable(few(names, LISTED))


def require_finite(report: Mapping[str, Any], folder: Path) -> None:
    """Raise UserError where a folder holds NaN or infinity."""
    if report["not_finite"]:
        raise UserError(
            f"expected numbers in the weights of {folder}, found NaN or infinity in "
            f"{_listed(sorted(report['not_finite']))}; fetch or make the model again"
        )
