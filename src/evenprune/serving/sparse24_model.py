"""Load an exported 2:4 checkpoint into a transformers model.

On CUDA the linear layers become torch's semi-structured sparse tensors, whose products run on
cuSPARSELt or CUTLASS; elsewhere, and where a layer's shape or dtype has no such kernel, the
dense weights are restored bit for bit and a log line says so. `load_sparse24(dir).compile()`
is torch's own compilation of the loaded model.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..models.architecture import find_blocks, find_linears
from ..models.loading import (
    check_finite_weights,
    check_found,
    library_errors,
    pick_device,
    pretrained,
)
from .export_sparse24 import INDEX

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)
DENSE = "dense kernel"


def all_linears(model: "PreTrainedModel") -> list[Any]:
    """Return the linear layers of the decoder blocks, which are those that an export compresses."""
    return [one for block in find_blocks(model)[1] for one in find_linears(block).values()]


def is_export(folder: Path | str) -> bool:
    """Tell whether a folder holds an exported 2:4 checkpoint."""
    return (Path(folder) / INDEX).is_file()


def load_sparse24(
    folder: Path | str, device: str | None = None, dtype: "torch.dtype | str" = "auto"
) -> "PreTrainedModel":
    """Load an exported checkpoint in evaluation mode.

    ``device`` None takes CUDA where there is one, ``dtype`` "auto" keeps the checkpoint's own.
    ``model.sparse24_kernel`` names what the linear layers run on. Raises UserError for a
    damaged export or one that transformers cannot load.
    """
    from . import sparse24_quantizer  # noqa: F401  # tells transformers of the format

    with library_errors(folder, "exported checkpoint"):
        model, found = pretrained(folder, dtype=dtype)
    check_found(Path(folder), found, "export the checkpoint again")
    model = model.to(pick_device(device)).eval().requires_grad_(False)
    check_finite_weights(model, folder)
    model.sparse24_kernel = sparsify(model)
    return model


def to_semi_structured(weight: Tensor) -> tuple[Tensor, str, str]:
    """Return torch's semi-structured form of a 2:4 matrix on CUDA, or it as it is and the reason.

    In between stands the kernel's name. The kernels need certain dtypes and sizes (multiples of 16
    or 64), which torch checks.
    """
    if not weight.is_cuda:
        return weight, DENSE, f"2:4 kernels need CUDA, this is {weight.device.type}"
    try:
        sparse = torch.sparse.to_sparse_semi_structured(weight)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return weight, DENSE, str(error).splitlines()[0]
    return sparse, type(sparse).__name__, ""


def sparsify(model: "PreTrainedModel") -> str:
    """Turn the block linears of a model on CUDA into semi-structured tensors, in place.

    Returns the name of the kernel, ``DENSE`` where no layer could be turned. Layers without such a
    kernel stay dense; one log line counts them and gives the first reason.
    """
    linears = all_linears(model)
    kinds: set[str] = set()
    reasons: list[str] = []
    for linear in linears:
        if not isinstance(linear, torch.nn.Linear):
            reasons.append(f"{type(linear).__name__} has no 2:4 product")
            continue
        weight, kind, reason = to_semi_structured(linear.weight.detach())
        if kind == DENSE:
            reasons.append(reason)
        else:
            linear.weight = torch.nn.Parameter(weight, requires_grad=False)
            kinds.add(kind)
    if reasons:
        log.warning(
            "%d of %d linear layers run on dense kernels: %s",
            len(reasons), len(linears), reasons[0],
        )  # fmt: skip
    if not kinds:
        return DENSE
    share = f", {len(reasons)} of {len(linears)} layers dense" if reasons else ""
    return f"2:4 kernel ({', '.join(sorted(kinds))}{share})"
