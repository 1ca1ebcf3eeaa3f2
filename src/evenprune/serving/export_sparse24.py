"""Export a 2of4 checkpoint with compressed weights: half the values and two bits for each.

The linear layers of the blocks take 9/16 of their bytes (17/32 in float32); everything else is
copied as it is. `sparse24.json` lists the layers, and so does `quantization_config` in
config.json: transformers loads the folder after `import evenprune.serving.sparse24_quantizer`,
vLLM where this package is installed, `benchmark-serving` and `load_sparse24` in any case.
Without these the folder does not load. Every layer is restored and compared bit for bit before
anything is written.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data.hub_models import located
from ..io.checksums import sealed
from ..io.errors import UserError
from ..io.files import read_json, sha256_file, write_json, write_text
from ..io.marks import EXPORT
from ..io.outputs import atomic_folder, check_folder
from ..io.progress import Progress
from ..models.architecture import find_blocks, find_linears, load_skeleton, stored_name
from ..models.experts import is_packed
from ..models.identity import EXPORT as INDEX
from ..models.identity import carried_files, identify
from ..models.loading import check_model_folder, read_folder
from ..models.tensors import Source, read_tensor, write_tensors
from ..models.trust import add_trust_argument
from ..models.weights import INDEX as WEIGHT_INDEX
from ..models.weights import Entry, read_header
from .export_card import export_card
from .sparse24 import BITS, FORMAT, METHOD, compress, decompress

CONFIG, CARD = "config.json", "README.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``export-sparse24``."""
    parser.add_argument("--model", type=Path, required=True, help="folder of a 2of4 checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    add_trust_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Run ``export-sparse24``."""
    index = export_sparse24(**vars(args))
    size = index["linear_bytes"]
    print(
        f"{args.out}: {len(index['layers'])} linear layers in {size['sparse24']} bytes, "
        f"{size['sparse24'] / size['dense']:.4f} of the dense {size['dense']}"
    )


def block_linears(folder: Path, stored: dict[str, Entry]) -> dict[str, bool]:
    """Return the stored names of the block linears' weights: True where stored (inputs, outputs).

    Raises UserError for an architecture without a list of blocks or for foreign weights.
    """
    from transformers.pytorch_utils import Conv1D

    check_model_folder(folder)
    model = load_skeleton(folder)
    if any(is_packed(module) for module in model.modules()):
        raise UserError(
            f"{folder} is a mixture-of-experts model, whose experts have no compressed form here; "
            "serve the folder itself, its weights are ordinary tensors with zeros"
        )
    prefix, blocks = find_blocks(model)
    return {
        stored_name(model, f"{prefix}.{number}.{name}.weight", stored): isinstance(linear, Conv1D)
        for number, block in enumerate(blocks)
        for name, linear in find_linears(block).items()
    }


def compress_stored(name: str, entry: Entry, transposed: bool) -> tuple[Tensor, Tensor]:
    """Return (values, metadata) of one stored weight after checking that they restore it.

    Raises UserError that names layer, row and group when the weight is not 2:4, and for a
    dtype or a width that has no 2:4 form.
    """
    weight = read_tensor(entry)
    matrix = weight.T.contiguous() if transposed else weight
    try:
        values, metadata = compress(matrix)
    except ValueError as error:
        raise UserError(f"{name} in {entry.file} has no 2:4 form: {error}") from None
    integer = BITS[matrix.dtype]
    if not decompress(values, metadata).view(integer).equal(matrix.view(integer)):
        raise RuntimeError(f"{name} is not restored bit for bit; nothing was written")
    return values, metadata


def export_sparse24(
    model: Path | str, out: Path | str, *, trust_remote_code: bool = False
) -> dict[str, Any]:
    """Write the compressed form of a 2of4 checkpoint.

    Memory holds one weight file at a time. Every layer is restored and compared bit for bit.

    Parameters
    ----------
    model : path or str
        A folder that `prune` wrote with the regime `2of4`.
    out : path
        The folder to write: ``sparse24.json`` and a ``sparse24.FILE`` for each weight file.
    trust_remote_code : bool
        Run the Python code that the model's folder brings.

    Returns
    -------
    dict
        What ``sparse24.json`` holds: ``layers`` by name, ``linear_bytes`` before and after.

    Raises
    ------
    UserError
        If the checkpoint is not 2:4, or ``out`` holds anything but an export. Nothing is written
        then.

    References
    ----------
    arXiv 2609.02496: the regime 2:4. Of four weights two are stored, and where they were.

    Examples
    --------
    >>> import evenprune
    >>> index = evenprune.export_sparse24("pruned", "exported")
    >>> size = index["linear_bytes"]
    >>> size["sparse24"] / size["dense"]
    0.53125
    """
    with located(model, trust=trust_remote_code) as (folder,):
        return _exported(folder, Path(out))


def _exported(model: Path, out: Path) -> dict[str, Any]:
    check_folder(out, EXPORT, [model])
    identity, stored = identify(model), read_folder(model)
    linears = block_linears(model, stored)
    progress = Progress(len(linears), "export-sparse24")
    written: dict[str, str] = {}
    new: dict[str, Entry] = {}
    with atomic_folder(out, EXPORT, [model]) as folder:
        for file in sorted({entry.file for entry in stored.values()}):
            own = {name: entry for name, entry in stored.items() if entry.file == file}
            tensors, target = dict[str, Source](own), folder / f"sparse24.{file.name}"
            for name in sorted(own.keys() & linears):
                values, metadata = compress_stored(name, own[name], linears[name])
                tensors |= {name: values, f"{name}_metadata": metadata}
                progress.update()
            written[target.name] = write_tensors(target, tensors)[""]["sha256"]
            new |= read_header(target)
        names = [file.name for file in carried_files(model) if file.name != CONFIG]
        for name in names:
            shutil.copyfile(model / name, folder / name)
        total = sum(entry.size for entry in new.values())
        weight_map = {name: entry.file.name for name, entry in new.items()}
        files = {"metadata": {"total_size": total}, "weight_map": weight_map}
        write_json(folder / WEIGHT_INDEX, files)
        form = {"quant_method": METHOD, "format": FORMAT, "layers": sorted(linears)}
        write_json(folder / CONFIG, read_json(model / CONFIG) | {"quantization_config": form})
        sizes = {
            "dense": sum(stored[name].size for name in linears),
            "sparse24": sum(new[name].size + new[f"{name}_metadata"].size for name in linears),
        }
        write_text(folder / CARD, export_card(model, len(linears), sizes, identity.model_sha256))
        names += [WEIGHT_INDEX, CONFIG, CARD]
        layers = {
            name: {"file": new[name].file.name, "shape": list(stored[name].shape)}
            | {"dtype": stored[name].dtype, "transposed": transposed}
            for name, transposed in linears.items()
        }
        index = sealed(
            {
                "format": FORMAT,
                "model_sha256": identity.model_sha256,
                "base_sha256": identity.base_sha256,
                "layers": layers,
                "files": written,
                "carried": {name: sha256_file(folder / name) for name in names},
                "linear_bytes": sizes,
            }
        )
        write_json(folder / INDEX, index)
    return index
