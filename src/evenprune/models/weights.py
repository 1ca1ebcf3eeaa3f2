"""What a model folder's safetensors files hold, from their headers and index; without torch.

Nothing is believed: the library checks that every byte range fits its tensor's shape, and that
together they cover the file exactly once.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from ..io.errors import UserError, shown
from ..io.reading import parse_json, read_json, reading

if TYPE_CHECKING:
    import torch

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PLAIN = re.compile(r"[^./\\\0][^/\\\0]*\.safetensors")  # a name in the same folder


@dataclass(frozen=True)
class Entry:
    """Where one stored tensor lies: file, first byte, number of bytes, dtype name and shape."""

    file: Path
    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def torch_dtype(self) -> "torch.dtype":
        """The dtype as torch names it; UserError for one that torch cannot hold."""
        from .tensors import DTYPES

        if self.dtype not in DTYPES:
            raise UserError(
                f"{self.file} holds a tensor of dtype {self.dtype}, expected one of "
                f"{', '.join(DTYPES)}; convert the checkpoint"
            )
        return DTYPES[self.dtype]

    def part(self, number: int) -> "Entry":
        """Return where ``tensor[number]`` lies."""
        size = self.size // self.shape[0]
        return Entry(self.file, self.offset + number * size, size, self.dtype, self.shape[1:])


def read_header(file: Path) -> dict[str, Entry]:
    """Return the tensors of one safetensors file by name.

    Raises UserError for a file that cannot be read, and for a header that is no whole one, or
    whose dtypes, shapes and byte ranges do not cover the file exactly once.
    """
    remedy = "convert the checkpoint or fetch it again (pickled weights are not read)"
    with reading(file, "safetensors weights", remedy), open(file, "rb") as handle:
        try:
            with safe_open(file, "np"):
                length = int.from_bytes(handle.read(8), "little")
                text = handle.read(length).decode()
        except SafetensorError as error:
            raise UserError(
                f"{file} is truncated or damaged ({shown(str(error), 200)}); fetch it again"
            ) from None
    header = parse_json(text, f"the header of {file}")
    header.pop("__metadata__", None)
    found = {}
    for name, item in header.items():
        start, end = item["data_offsets"]
        place = 8 + length + start
        found[name] = Entry(file, place, end - start, item["dtype"], tuple(item["shape"]))
    return found


def read_weights(folder: Path) -> dict[str, Entry]:
    """Return the tensors of a model folder's weight files, single or sharded.

    Raises UserError for a file that is missing or damaged, for an index that names files
    outside the folder or does not agree with the files, and for a folder that holds both one
    whole file and an index of others: libraries differ in which they read.
    """
    index = folder / INDEX
    if not index.exists():
        return read_header(folder / SINGLE)
    content = read_json(index)
    places = content.get("weight_map")
    if not isinstance(places, dict) or not places or not isinstance(content.get("metadata"), dict):
        raise UserError(
            f"expected the objects metadata and weight_map (a file for each tensor) in {index}, "
            "found none; fetch the model again"
        )
    for name, file in places.items():
        if not isinstance(file, str) or not PLAIN.fullmatch(file):
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
    files = {folder / name: read_header(folder / name) for name in names}
    listed = {(folder / file, name) for name, file in places.items()}
    held = {(file, name) for file, tensors in files.items() for name in tensors}
    if listed != held:
        file, name = min(listed ^ held)
        raise UserError(
            f"{index} and the files do not agree: {name} is "
            + (f"not in {file.name}" if (file, name) in listed else f"also in {file.name}")
            + "; fetch the model again"
        )
    return {name: entry for tensors in files.values() for name, entry in tensors.items()}
