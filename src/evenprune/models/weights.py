"""What a model folder's safetensors files hold, from their headers and index; without torch.

Nothing is believed: every byte range must fit its tensor's shape, and together the ranges must
cover the file exactly once.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import UserError
from ..base.reading import parse_json, read_json, reading

MAX_HEADER = 100_000_000  # bytes, the format's own limit
BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "C64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
    "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8,
}  # fmt: skip
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Stored(NamedTuple):
    """A stored tensor: dtype as the format names it, shape, first byte in the file, bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


def read_stored(file: Path) -> dict[str, Stored]:
    """Return the tensors of one safetensors file by name.

    Raises UserError for a file that cannot be read, and for a header that is no whole one, or
    whose dtypes, shapes and byte ranges do not cover the file exactly once.
    """
    with reading(file, "a safetensors file", "fetch it again"), open(file, "rb") as handle:
        size = file.stat().st_size
        head = handle.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > min(size - 8, MAX_HEADER):
            raise UserError(
                f"{file} is not a whole safetensors file ({size} bytes, its header does not "
                "fit); fetch it again"
            )
        text = handle.read(length)
    try:
        header = parse_json(text.decode(), f"the header of {file} (fetch it again)")
        if not isinstance(header, dict):
            raise ValueError("it is no object")
        header.pop("__metadata__", None)
        found = {name: _entry(name, item, 8 + length) for name, item in header.items()}
    except ValueError as error:
        raise UserError(f"the header of {file} is damaged: {error}; fetch it again") from None
    end = 8 + length
    for name in sorted(found, key=lambda name: found[name][2:]):
        if found[name].offset != end:
            what = "overlaps the one before" if found[name].offset < end else "leaves a hole"
            raise UserError(
                f"the header of {file} is damaged: the byte range of {name} {what}; fetch it again"
            )
        end += found[name].size
    if size != end:
        raise UserError(
            f"{file} is truncated or damaged: expected {end} bytes, got {size}; fetch it again"
        )
    return found


def _natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entry(name: str, item: Any, start: int) -> Stored:
    """Return one entry of a header; ValueError where it contradicts itself."""
    item = item if isinstance(item, Mapping) else {}
    dtype, shape, span = (item.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"{name} has dtype {dtype!r}, expected one of {', '.join(BITS)}")
    if not isinstance(shape, list) or not all(map(_natural, shape)):
        raise ValueError(f"{name} has shape {shape!r}, expected a list of whole numbers")
    if not isinstance(span, list) or len(span) != 2 or not all(map(_natural, span)):
        raise ValueError(f"{name} has data_offsets {span!r}, expected two whole numbers")
    size = math.prod(shape) * BITS[dtype] // 8
    if span[1] - span[0] != size:
        raise ValueError(
            f"{name} is {dtype} of shape {shape}, which takes {size} bytes, "
            f"but its byte range has {span[1] - span[0]}"
        )
    return Stored(dtype, tuple(shape), start + span[0], size)


def stored_files(folder: Path) -> dict[Path, dict[str, Stored]]:
    """Return the weight files of a model folder, sorted, each with its tensors.

    Raises UserError for a file that is missing or damaged, for an index that names files
    outside the folder or does not agree with the files, and for a folder that holds both one
    whole file and an index of others: libraries differ in which they read.
    """
    index = folder / INDEX
    if not index.exists():
        return {folder / SINGLE: _whole(folder / SINGLE)}
    content = read_json(index, by_hand=True)
    places = content.get("weight_map")
    if not isinstance(places, dict) or not places or not isinstance(content.get("metadata"), dict):
        raise UserError(
            f"expected the objects metadata and weight_map (a file for each tensor) in {index}, "
            "found none; fetch the model again"
        )
    for name, file in places.items():
        if not isinstance(file, str) or not _plain(file):
            raise UserError(
                f"{index} places {name} in {file!r}, expected the name of a safetensors file in "
                "the same folder; fetch the model again"
            )
    names = sorted(set(places.values()))
    if names != [SINGLE] and (folder / SINGLE).exists():
        raise UserError(
            f"{folder} holds both {SINGLE} and an index of other files ({INDEX}), so which weights "
            "count is not clear; remove one of the two"
        )
    files = {folder / name: _whole(folder / name) for name in names}
    listed = {(folder / file, name) for name, file in places.items()}
    held = {(file, name) for file, tensors in files.items() for name in tensors}
    if listed != held:
        file, name = min(listed ^ held)
        raise UserError(
            f"{index} and the files do not agree: {name} is "
            + (f"not in {file.name}" if (file, name) in listed else f"also in {file.name}")
            + "; fetch the model again"
        )
    return files


def _plain(file: str) -> bool:
    return (
        file.endswith(".safetensors")
        and not any(sign in file for sign in "/\\\0")
        and file[0] != "."
    )


def _whole(file: Path) -> dict[str, Stored]:
    if not file.is_file():
        raise UserError(
            f"expected safetensors weights at {file}, found "
            f"{'a folder' if file.is_dir() else 'none'}; convert the checkpoint to safetensors or "
            "fetch it again (pickled weights are not read)"
        )
    return read_stored(file)
