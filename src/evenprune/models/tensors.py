"""Reading and writing safetensors files tensor by tensor, without ever holding a whole file.

The format: 8 bytes little-endian length, a JSON header with dtype, shape and byte range of
each tensor, then the bytes. Plain reads are used instead of memory maps, so that memory holds
what is asked for and no pages of the file.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..io.errors import UserError
from ..io.files import atomic_path
from .loading import all_finite, read_folder
from .weights import Entry

CHUNK = 1 << 24  # bytes copied at a time
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
EIGHT_BITS = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "U8": torch.uint8}
INTEGERS = {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8}
DTYPES = {**FLOATS, **EIGHT_BITS, **INTEGERS, "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

# A tensor in memory, one in a file, or a list of what `torch.stack` would join, taken in turn.
Source = Tensor | Entry | list[Tensor]


def check_stored(folder: Path) -> None:
    """Raise UserError that names the first stored tensor with NaN or infinity.

    For weights that another process loads; reads every file once, piece by piece.
    """
    for name, entry in read_folder(folder).items():
        if entry.dtype in DTYPES and DTYPES[entry.dtype].is_floating_point:
            for piece in chunks(entry):
                count_zeros(piece, DTYPES[entry.dtype], f"{name} of {entry.file}")


def read_tensor(entry: Entry) -> Tensor:
    """Read one stored tensor into fresh, aligned memory."""
    tensor = torch.empty(entry.shape, dtype=entry.torch_dtype)
    with open(entry.file, "rb") as handle:
        handle.seek(entry.offset)
        read_into(handle, tensor_bytes(tensor), entry)
    return tensor


def read_rows(entry: Entry, rows: Tensor) -> Tensor:
    """Read only some ``rows`` (r,) of a stored table (v, d); returns (r, d)."""
    table = torch.empty((len(rows), *entry.shape[1:]), dtype=entry.torch_dtype)
    view = tensor_bytes(table)
    width = entry.size // entry.shape[0]
    with open(entry.file, "rb") as handle:
        for place, row in enumerate(rows.tolist()):
            handle.seek(entry.offset + row * width)
            read_into(handle, view[place * width : (place + 1) * width], entry)
    return table


def read_into(handle: BufferedReader, view: memoryview, entry: Entry) -> None:
    """Fill ``view`` from a file; UserError when the file ends before."""
    if handle.readinto(view) < len(view):
        raise UserError(f"{entry.file} ended early while it was read; fetch it again")


def tensor_bytes(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous CPU tensor without copying."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def chunks(source: Source) -> Iterator[memoryview]:
    """Yield the bytes of a tensor."""
    if not isinstance(source, Entry):
        parts = source if isinstance(source, list) else [source]
        yield from (tensor_bytes(part.contiguous()) for part in parts)
        return
    with open(source.file, "rb") as handle:
        handle.seek(source.offset)
        for start in range(0, source.size, CHUNK):
            piece = torch.empty(min(CHUNK, source.size - start), dtype=torch.uint8)
            view = tensor_bytes(piece)
            read_into(handle, view, source)
            yield view


def count_zeros(piece: memoryview, dtype: torch.dtype, name: str) -> int:
    """Return how many elements of a run of bytes are zero (of either sign).

    Raises UserError with the tensor's ``name`` when some are not finite.
    """
    values = values_of(piece, dtype)
    if not all_finite(values):
        raise UserError(f"NaN or infinity in the weights of {name}; fetch the model again")
    return int(np.count_nonzero((values == 0).numpy()))  # torch counts ten times as slowly


def values_of(piece: memoryview, dtype: torch.dtype) -> Tensor:
    """Return a run of bytes as numbers; those of one byte, of which torch does little, as float."""
    values = torch.frombuffer(piece, dtype=dtype)
    return values.float() if dtype.itemsize == 1 and dtype.is_floating_point else values


def write_tensors(path: Path, tensors: Mapping[str, Source]) -> dict[str, dict]:
    """Write tensors, also stored ones of other files, as one safetensors file, atomically.

    Returns for each name ``{"sha256", "shape", "dtype", "zeros"}`` and under the empty name
    ``{"sha256"}`` of the whole file. Raises UserError when the disk is full.
    """
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    facts: dict[str, dict] = {}
    offset = 0
    for name in sorted(tensors):
        source = tensors[name]
        one = source[0] if isinstance(source, list) else source
        dtype = one.torch_dtype if isinstance(one, Entry) else one.dtype
        shape = [len(source), *one.shape] if isinstance(source, list) else [*one.shape]
        size = math.prod(shape) * dtype.itemsize
        facts[name] = {"dtype": NAMES[dtype], "shape": shape}
        header[name] = {**facts[name], "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = hashlib.sha256()
    with atomic_path(path) as temporary, open(temporary, "wb") as out:
        start = len(text).to_bytes(8, "little") + text
        out.write(start)
        whole.update(start)
        for name in sorted(tensors):
            own = hashlib.sha256()
            zeros = 0
            for piece in chunks(tensors[name]):
                out.write(piece)
                own.update(piece)
                whole.update(piece)
                zeros += count_zeros(piece, DTYPES[facts[name]["dtype"]], name)
            facts[name] |= {"sha256": own.hexdigest(), "zeros": zeros}
    return {"": {"sha256": whole.hexdigest()}, **facts}
