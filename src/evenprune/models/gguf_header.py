"""The header of a GGUF file as the libraries read it, once it is known to be whole."""

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..io.errors import UserError
from ..io.reading import reading

if TYPE_CHECKING:
    from gguf import ReaderTensor


class Header(NamedTuple):
    """``keys`` have the length of a list of texts in its place."""

    keys: dict[str, Any]
    tensors: "dict[str, ReaderTensor]"


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file; UserError for anything else."""
    from gguf import GGUFReader
    from transformers.integrations.gguf.reader import read_gguf_metadata

    damaged = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, struct.error)
    with reading(path, "a GGUF file"), open(path, "rb"):
        try:
            # The other library would run on past the end, for as long as a wrong count says.
            keys, _ = read_gguf_metadata(str(path))
            reader = GGUFReader(path)
            end = 0
            for one in sorted(reader.tensors, key=lambda one: one.data_offset):
                if one.data_offset < end:  # a small file could ask for any amount of memory
                    raise ValueError(f"its tensor {one.name} lies on the bytes of another one")
                end = one.data_offset + one.n_bytes
        except damaged as error:
            raise UserError(
                f"expected a whole GGUF file at {path}, but {' '.join(str(error).split())}; fetch "
                "it again, or take the Hugging Face folder of this model"
            ) from None
    return Header(keys, {one.name: one for one in reader.tensors})
