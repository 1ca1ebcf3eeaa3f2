"""The header of a GGUF file as the libraries read it, once it is known to be whole."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..io.errors import UserError
from ..io.reading import reading

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor


class Header(NamedTuple):
    """``keys`` have the length of a list of texts in its place."""

    keys: dict[str, Any]
    tensors: "dict[str, ReaderTensor]"
    reader: "GGUFReader"


def _reader(path: Path) -> "GGUFReader":
    """Return gguf's reader on a plain array: it takes a slice a word, of a memory map slowly."""
    import gguf
    import numpy as np

    class Plain(gguf.GGUFReader):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)

    return Plain(path)


@contextlib.contextmanager
def read_once(header: Header) -> Iterator[None]:
    """Let transformers take what was read, which it would read again for each of three parts."""
    import gguf

    before = gguf.GGUFReader
    gguf.GGUFReader = lambda *_args, **_kwargs: header.reader  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        gguf.GGUFReader = before  # type: ignore[misc]


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file; UserError for anything else."""
    from transformers.integrations.gguf.reader import read_gguf_metadata

    damaged = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, struct.error)
    with reading(path, "a GGUF file"), open(path, "rb"):
        try:
            # The other library would run on past the end, for as long as a wrong count says.
            keys, _ = read_gguf_metadata(str(path))
            reader = _reader(path)
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
    return Header(keys, {one.name: one for one in reader.tensors}, reader)
