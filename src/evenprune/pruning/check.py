"""Verify a pruned checkpoint before anything is measured on it.

Checks every tensor against the manifest and the base model: the N:M groups or the number of
zeros, finite values that float32 can compute with, no -0.0 in pruned matrices and none of zeros
alone, untouched tensors equal byte for byte, files as recorded, tokenizer present.

Of a folder that `prune` did not write it says what it holds: zeros and N:M patterns by matrix,
which tensors differ from the base's, equal matrices, NaN and infinity.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.facts import regime_facts
from ..io.checksums import sealed, source_folder
from ..io.errors import UserError
from ..io.files import read_json, write_json
from ..io.outputs import check_file
from ..io.reading import expected_form
from ..models.identity import MANIFEST, check_pruned, files_digest, own_manifest
from ..models.loading import all_finite, load_tokenizer, read_folder
from ..models.trust import add_trust_argument

# Where squares of float32 neither overflow nor vanish.
SMALLEST, LARGEST = 1e-19, 1.8e19


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``check``."""
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="the model")
    parser.add_argument("--base", type=Path, metavar="DIR",
        help="its base model; without it the folder is looked at alone")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="check.json, a report of it")
    add_trust_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Check and say what was found; UserError on the first violation."""
    from .inspect_folder import in_words, require_finite

    report = check(**vars(args))
    if "method" in report:
        zeros = f"{report['zeros']:,} of {report['weights']:,} weights are zero"
        print(
            f"{args.model} is as `prune` wrote it: {report['method']}, {report['regime']}, {zeros}"
        )
        return
    print(in_words(report, args.model, args.base))
    require_finite(report, args.model)


def check(
    model: Path | str,
    base: Path | str | None = None,
    *,
    out: Path | str | None = None,
    trust_remote_code: bool = False,
) -> dict[str, Any]:
    """Verify a pruned checkpoint, or say what any model folder holds.

    A folder that `prune` wrote is compared with the base model, tensor by tensor. Of any other
    folder, and where no base is given, the report says what is in it: zeros and N:M patterns by
    matrix, NaN and infinity, equal matrices, and which tensors differ from the base's.

    Parameters
    ----------
    model : path or str
        The folder to check, or a model's name in the catalogue or on the hub.
    base : path or str, optional
        The model it was pruned from. Without it, the folder is looked at alone.
    out : path, optional
        Where to write the report (JSON).
    trust_remote_code : bool
        Run the Python code that the folders bring.

    Returns
    -------
    dict
        ``matrices``, ``weights``, ``zeros``, ``sparsity``, digests of model and base. A verified
        checkpoint also has ``method`` and ``regime``; any other folder has ``kinds`` (matrices by
        name), ``states`` (tensors against the base's) and ``not_finite``.

    Raises
    ------
    UserError
        If a checkpoint is not as `prune` wrote it, or a model cannot be read.

    References
    ----------
    arXiv 2609.02496: the N:M groups and the share of zeros that a regime stands for.

    Examples
    --------
    >>> import evenprune
    >>> report = evenprune.check("pruned", "dense")
    >>> report["method"], report["sparsity"]
    ('debias-sparsegpt', 0.5)
    """
    from ..data.hub_models import located
    from .inspect_folder import inspect_folder

    given = [model] if base is None else [model, base]
    with located(*given, trust=trust_remote_code) as found:
        folder, *bases = map(source_folder, found)
        if out is not None:
            check_report(Path(out), [*found, folder, *bases])
        original = bases[0] if bases else None
        if original and (folder / MANIFEST).exists():
            report = check_model(folder, original)
        else:
            report = inspect_folder(folder, original)
        if out is not None:
            write_json(out, sealed(report))
        return report


def check_report(path: Path, inputs: Sequence[Path | None], name: str = "--out") -> None:
    """Raise UserError where a report may not be written: what is there is not ours."""
    check_file(path, inputs, name, ("model_sha256", "matrices"))


def check_model(folder: Path, base: Path, known_tokenizer: bool = False) -> dict[str, Any]:
    """Return ``{"model_sha256", "method", "regime", "matrices", "zeros", …}`` of a good checkpoint.

    A matrix may have more zeros than its regime asks for (``dense`` asks for none): weights that
    were zero before, dead inputs, kept weights that round to zero in a 16-bit dtype.
    ``known_tokenizer``: the base's has been loaded, and is the folder's by its checksum. Raises
    UserError on a violation.
    """
    from ..blocks.base_model import BaseModel
    from ..methods import find
    from ..methods.options import Options
    from ..models.architecture import rows_of
    from ..models.tensors import read_tensor, tensor_bytes

    manifest = own_manifest(folder)
    if not manifest:
        read_json(folder / MANIFEST)
        raise UserError(
            f"{folder / MANIFEST} is not one that `prune` wrote; prune again, or remove it from a "
            "folder of others, which is then compared with its base"
        )
    check_pruned(folder, manifest, verify=True)
    with expected_form("what prune writes", folder / MANIFEST, "prune again"):
        options = Options.of(manifest)
        regime, method = regime_facts(options.regime), find(options.method)
        str(manifest["model_sha256"])
        pruned = {name for name, facts in manifest["tensors"].items() if facts.get("pruned")}
    if not known_tokenizer:  # seconds where there are 262,000 words
        load_tokenizer(folder)
    original, stored = BaseModel(base, regime, "cpu"), read_folder(folder)

    def fail(name: str, what: str) -> None:
        raise UserError(f"{folder}: {name} {what}; prune again")

    found = original.base_files()
    odd = sorted(dict(found.items() ^ manifest["base"]["files"].items()))
    if odd:
        raise UserError(
            f"{folder} was pruned from another base model than {base}: {odd[0]} differs; prune "
            "again, or give --base the model it was pruned from"
        )
    if odd := sorted(set(stored) ^ set(original.stored)):
        fail(odd[0], "is in only one of the pruned and the base model")
    slots = {name: original.slot(f"{name}.weight") for name in original.linears()}
    if pruned != {slot.stored for slot in slots.values()}:
        fail("manifest.json", "lists other pruned tensors than the base model's block linears")
    for name, entry in sorted(stored.items()):
        before = original.stored[name]
        if (entry.dtype, entry.shape) != (before.dtype, before.shape):
            fail(name, "has another dtype or shape than in the base model")
        if name not in pruned:
            tensor = read_tensor(entry)
            if not all_finite(tensor):
                fail(name, "has NaN or infinite values")
            if tensor_bytes(tensor) != tensor_bytes(read_tensor(before)):
                fail(name, "was not to be pruned, but differs from the base model")
    total = size = surplus = 0
    for linear, module in original.linears().items():
        slot = slots[linear]
        name, weight = slot.stored, read_tensor(slot.of(stored))
        if not all_finite(weight):
            fail(name, "has NaN or infinite values")
        zero = weight == 0
        largest = float(weight.abs().max())
        if largest > LARGEST or 0 < largest < SMALLEST:
            fail(name, f"has {largest:.1e} for its largest weight, which float32 cannot square")
        if zero.all() and read_tensor(slot.of(original.stored)).any():
            fail(name, "is all zeros, but is not in the base model")
        if (zero & weight.signbit()).any():
            fail(name, "contains -0.0")
        rows = rows_of(module, zero)
        if regime.structured:
            least = int(rows.reshape(len(rows), -1, regime.of).sum(dim=2).min())
            if least < regime.zeros:
                fail(name, f"has a group of {regime.of} with {least} zeros, not {regime.zeros}")
        asked = method.least_zeros((rows.shape[0], rows.shape[1]), regime, options)
        zeros = int(zero.sum())
        if zeros < asked:
            fail(name, f"has {zeros} zeros, expected at least {asked}")
        total, size, surplus = total + zeros, size + zero.numel(), surplus + zeros - asked
    return {
        "method": manifest["method"],
        "regime": manifest["regime"],
        "options": manifest["options"],
        "model_sha256": manifest["model_sha256"],
        "base_sha256": files_digest(found),
        "calibration": {
            name: manifest["calibration"][name] for name in ("pairs_sha256", "texts_sha256")
        },
        "matrices": len(slots),
        "weights": size,
        "zeros": total,
        "surplus_zeros": surplus,
        "sparsity": total / size,
        "untouched_tensors": len(stored) - len(pruned),
    }
