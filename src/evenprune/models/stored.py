"""What a model's weights take on disk: bits a weight of the blocks' matrices, bytes, and form."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..io.errors import UserError
from ..io.files import read_json
from .identity import own_manifest
from .loading import load_config, read_folder
from .quantised import quantised_by
from .weights import Entry

SOURCE = "source.json"


@dataclass(frozen=True)
class Stored:
    """``bits`` a weight, scales and zero points included, None where that is not known; ``bytes``
    of the weight files, or of the GGUF file that a folder was made of; ``form``, in words."""

    bits: float | None
    bytes: int
    form: str

    def __str__(self) -> str:
        """Return it in words."""
        bits = "" if self.bits is None else f"{self.bits:.4g} bits a weight "
        size, unit = (self.bytes / 1e9, "GB") if self.bytes >= 1e9 else (self.bytes / 1e6, "MB")
        return f"{bits}({self.form}), {size:.3g} {unit}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is recorded in results."""
        return asdict(self)

    @classmethod
    def of(cls, record: Any) -> "Stored | None":
        """Return what a record says, None for none or another form."""
        if not isinstance(record, Mapping):
            return None
        bits, size, form = (record.get(name) for name in ("bits", "bytes", "form"))
        if isinstance(bits, float | None) and isinstance(size, int) and isinstance(form, str):
            return cls(bits, size, form)
        return None


def stored_form(folder: Path) -> Stored:
    """Return what a model folder's weights take, of a converted GGUF file what that file's took.

    From headers alone. Raises UserError for a folder without whole weights.
    """
    if (folder / SOURCE).is_file() and not own_manifest(folder):
        found = Stored.of(read_json(folder / SOURCE).get("stored"))
        if found:
            return found
    from .tensors import DTYPES

    entries = read_folder(folder)
    size = sum(file.stat().st_size for file in {entry.file for entry in entries.values()})
    sizes: Counter[str] = Counter()
    for entry in entries.values():
        sizes[entry.dtype] += entry.size
    dtype = sizes.most_common(1)[0][0] if sizes else ""
    named = str(DTYPES.get(dtype, dtype)).removeprefix("torch.")
    form = quantised_by(load_config(folder)) or named
    return Stored(_bits(folder, entries), size, form)


def _bits(folder: Path, entries: Mapping[str, Entry]) -> float | None:
    """Return how many bits of a folder's blocks belong to a weight of their matrices.

    Vectors that the unquantised model has too (norms, biases) are left out. None for an
    architecture whose blocks are not found.
    """
    from .architecture import find_blocks, load_skeleton

    try:
        model = load_skeleton(folder)
        name, blocks = find_blocks(model)
    except UserError:
        return None
    sizes = {f"{name}.{one}": value for one, value in blocks.named_parameters()}
    weights = sum(value.numel() for value in sizes.values() if value.ndim > 1)
    vectors = {one for one, value in sizes.items() if value.ndim < 2}
    used = 0
    for one, entry in entries.items():
        # The base model alone is stored without its prefix.
        full = one if one.startswith(f"{name}.") else f"{model.base_model_prefix}.{one}"
        if full.startswith(f"{name}.") and full not in vectors:
            used += entry.size
    return 8 * used / weights if used else None
