"""The header of a GGUF file, read with nothing believed: every count and range must fit the file.

The library ``gguf`` runs on past the end of a damaged file, for as long as a wrong count says.
"""

import itertools
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..io.errors import UserError, shown
from ..io.reading import reading

VERSIONS = (2, 3)
MAX_ITEMS = 5_000_000  # keys, tensors and entries of lists; the largest vocabularies need a third
KEPT = 1_000  # numbers of a list that is kept; one of each layer
# The format's numbers for the types of a value, and how struct names them.
NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd"))
TEXT, LIST = 8, 9


class Tensor(NamedTuple):
    """A stored tensor: its type as the library names it, values in a block, shape, bytes."""

    kind: str
    block: int
    shape: list[int]
    size: int


class Header:
    """The header of a GGUF file of ``size`` bytes; ValueError where it cannot be one.

    ``keys`` has short lists of numbers as tuples, and the length of any other list. It reads no
    further than the file goes, and no more than ``MAX_ITEMS`` items.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.place, self.size, self.items = file, 0, size, 0
        if self._take(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = self._number("I")
        if version not in VERSIONS:
            big = " (of a big-endian machine)" if version % 65536 == 0 else ""
            raise ValueError(f"its version is {version}{big}, expected 2 or 3, little-endian")
        tensors, keys = self._count(), self._count()
        self.keys: dict[str, Any] = {}
        for _ in range(keys):
            name = self._new_name(self.keys)
            kept = not name.startswith("tokenizer.")
            self.keys[name] = self._value(self._number("I"), kept)
        self.tensors: dict[str, Tensor] = {}
        ranges = sorted(self._tensor() for _ in range(tensors))
        alignment = self.keys.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"its alignment is {shown(alignment)}, expected a power of two")
        left = size - -(-self.place // alignment) * alignment
        needed = max((end for _, end, _ in ranges), default=0)
        # Overlapping ranges would let a small file ask for any amount of memory.
        for (_, end, one), (start, _, other) in itertools.pairwise(ranges):
            if start < end:
                raise ValueError(f"{shown(one)} and {shown(other)} share bytes")
        if needed > left:
            raise ValueError(f"its tensors take {needed} bytes, it has {max(left, 0)} for them")

    def _take(self, count: int) -> bytes:
        if count > self.size - self.place:
            raise ValueError(f"it ends within its header, at byte {self.size}")
        self.place += count
        return self.file.read(count)

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(form)))[0]

    def _count(self) -> int:
        count = self._number("Q")
        self.items += count
        if self.items > MAX_ITEMS:
            raise ValueError(f"it claims to hold {count} items")
        return count

    def _text(self) -> str:
        return self._take(self._number("Q")).decode()

    def _new_name(self, known: Mapping[str, Any]) -> str:
        name = self._text()
        if name in known:
            raise ValueError(f"the name {shown(name)} occurs twice")
        return name

    def _value(self, kind: int, kept: bool) -> Any:
        if kind in NUMBERS:
            return self._number(NUMBERS[kind])
        if kind == TEXT:
            return self._text()
        inner, count = (self._number("I"), self._count()) if kind == LIST else (kind, 0)
        if inner not in NUMBERS and inner != TEXT:
            raise ValueError(f"it has a value of the unknown type {inner}")
        if inner == TEXT:
            for _ in range(count):
                self._text()
        elif kept and 0 < count <= KEPT:
            return tuple(self._number(NUMBERS[inner]) for _ in range(count))
        else:
            self._take(count * struct.calcsize(NUMBERS[inner]))
        return count

    def _tensor(self) -> tuple[int, int, str]:
        """Read the entry of one tensor; return its range, from the end of the header, and name."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        name, dimensions = self._new_name(self.tensors), self._number("I")
        if not 0 < dimensions <= 4:
            raise ValueError(f"{shown(name)} has {dimensions} dimensions, expected 1 to 4")
        shape = [self._number("Q") for _ in range(dimensions)]
        kind, offset = GGMLQuantizationType(self._number("I")), self._number("Q")
        block, width = GGML_QUANT_SIZES[kind]
        if shape[0] % block:
            raise ValueError(f"{shown(name)} is {kind.name} with rows of {shape[0]} values")
        size = math.prod(shape) // block * width
        self.tensors[name] = Tensor(kind.name, block, shape, size)
        return offset, offset + size, name


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file; UserError for anything else."""
    with reading(path, "a GGUF file"), open(path, "rb") as file:
        try:
            return Header(file, path.stat().st_size)
        except ValueError as error:
            raise UserError(
                f"expected a whole GGUF file at {path}, but {error}; fetch it again, or take the "
                "Hugging Face folder of this model"
            ) from None
