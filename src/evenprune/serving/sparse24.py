"""2:4 weights in compressed form: the kept values and two bits for the place of each.

Pure tensor functions. In every row, of each aligned group of four inputs the two kept values
are stored with their places i0 < i1. One group takes four bits (i0 + 4 * i1), two groups one
byte, the earlier group in the low half. Zero means all bits zero, so the round trip is exact.
"""

import torch
from torch import Tensor

BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}

# Of an export. 2: values under the weight's own name, which an unaware library finds of another
# shape.
FORMAT = 2
METHOD = "sparse24"  # `quant_method` in config.json


def check_format(found: object) -> None:
    """Raise ValueError for another format of an export."""
    if found != FORMAT:
        raise ValueError(
            f"expected a 2:4 export of format {FORMAT}, got {found}; export the checkpoint again "
            "with this version of evenprune"
        )


def compress(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return (values, metadata) of a 2:4 matrix.

    ``weight`` (n, d) is bfloat16, float16 or float32 and d a multiple of 4. ``values``
    (n, d/2) has its dtype, ``metadata`` (n, ceil(d/8)) is uint8. A group with fewer than two
    non-zero values stores zeros for the rest. Raises ValueError that names the first group with
    more than two (groups and rows are counted from 0), and for another dtype or width.
    """
    if weight.dtype not in BITS:
        raise ValueError(f"expected bfloat16, float16 or float32, got {weight.dtype}")
    rows, width = weight.shape
    if width % 4:
        raise ValueError(f"expected a width divisible by 4, got {width}")
    groups = weight.contiguous().view(BITS[weight.dtype]).view(rows, width // 4, 4)
    kept = groups != 0
    counts = kept.sum(-1)
    if bool((counts > 2).any()):
        row, group = (counts > 2).nonzero()[0].tolist()
        raise ValueError(
            f"group {group} of row {row} holds {int(counts[row, group])} non-zero values instead "
            "of at most 2; export a checkpoint pruned with --regime 2of4"
        )
    # A stable sort puts the kept places first, in order; zeros fill up to two.
    order = kept.logical_not().to(torch.uint8).sort(dim=-1, stable=True).indices
    places = order[..., :2].sort(dim=-1).values
    values = groups.gather(-1, places).view(weight.dtype).view(rows, width // 2)
    codes = (places[..., 0] + 4 * places[..., 1]).to(torch.uint8)
    if codes.shape[1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    return values, codes[:, 0::2] | (codes[:, 1::2] << 4)


def decompress(values: Tensor, metadata: Tensor) -> Tensor:
    """Return the dense matrix (n, d) of ``compress``, bit for bit.

    Raises ValueError when the shapes do not belong together or a place comes twice.
    """
    rows, half = values.shape
    groups = half // 2
    if half % 2 or metadata.shape != (rows, (groups + 1) // 2):
        raise ValueError(
            f"values {tuple(values.shape)} and metadata {tuple(metadata.shape)} do not belong "
            "together"
        )
    codes = torch.stack((metadata & 15, metadata >> 4), dim=-1).flatten(1)[:, :groups].long()
    places = torch.stack((codes & 3, codes >> 2), dim=-1)  # (n, groups, 2), in 0..3
    if bool((places[..., 0] >= places[..., 1]).any()):
        raise ValueError("the metadata name a place twice or out of order")
    integer = BITS[values.dtype]
    dense = torch.zeros((rows, groups, 4), dtype=integer, device=values.device)
    dense.scatter_(-1, places, values.contiguous().view(integer).view(rows, groups, 2))
    return dense.view(values.dtype).view(rows, groups * 4)
