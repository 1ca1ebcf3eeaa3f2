"""How large a model is, before it is loaded: bytes and parameters, and how that is known."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from .checks import SHIPPED
from .jobs import mirror
from .paths import Paths

# As in Llama-3.1-8B-Instruct or vicuna-7b-v1.5: billions of parameters, by the name alone.
NOMINAL = re.compile(r"(?<![0-9.a-z])([0-9]+(?:\.[0-9]+)?)b(?![a-z0-9])", re.IGNORECASE)
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2}
HEADER_LIMIT = 100_000_000  # of safetensors, the format's own


@dataclass(frozen=True)
class ModelSize:
    """Parameters and bytes of a model's weights; ``basis`` says how they are known.

    ``files`` (the headers of its files), ``lock`` (bytes of the pinned files), ``given`` (by the
    user), ``name`` (the billions in its name, two bytes each), or ``unknown`` with zeros.
    """

    parameters: float
    bytes: float
    basis: str


def model_size(paths: Paths, name: str, given: Mapping[str, float] | None = None) -> ModelSize:
    """Return the size of a base model, from the best source that there is now."""
    entry = paths.config.models[name]
    item = ITEM_BYTES[entry.dtype]
    if given and name in given:
        return ModelSize(given[name], given[name] * item, "given")
    for folder in _folders(paths, name):
        found = _of_files(sorted(folder.glob("*.safetensors")) if folder else [])
        if found:
            return found
    locked = _json(Path(paths.config.lock)).get(entry.hub or "", {}).get("files", {})
    size = sum(one["bytes"] for path, one in locked.items() if path.endswith(".safetensors"))
    if size:
        return ModelSize(size / item, size, "lock")
    named = NOMINAL.search((entry.hub or "").partition("@")[0]) or NOMINAL.search(name)
    if named:
        count = float(named[1]) * 1e9
        return ModelSize(count, count * item, "name")
    return ModelSize(0.0, 0.0, "unknown")


def _folders(paths: Paths, name: str) -> list[Path | None]:
    """Return where the files of a model may lie: as recorded, one's own, in a mirror, in the
    package."""
    entry, base = paths.config.models[name], mirror(paths.config)
    mirrors = [base] if isinstance(base, str) else base or []
    record = _json(Path(paths.model(name))).get("folder")
    return [
        Path(record) if isinstance(record, str) else None,
        Path(entry.path).expanduser() if entry.path else None,
        *(Path(root) / "models" / (entry.mirror or name) for root in mirrors),
        SHIPPED / name if entry.world else None,
    ]


def _of_files(files: list[Path]) -> ModelSize | None:
    """Return parameters and bytes by the headers of safetensors files; None without any."""
    parameters = size = 0
    for file in files:
        try:
            with open(file, "rb") as handle:
                length = int.from_bytes(handle.read(8), "little")
                if length > HEADER_LIMIT:
                    return None
                header = json.loads(handle.read(length))
            header.pop("__metadata__", None)
            parameters += sum(math.prod(one["shape"]) for one in header.values())
            size += file.stat().st_size
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
    return ModelSize(float(parameters), float(size), "files") if parameters else None


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_given(texts: list[str], names: list[str]) -> dict[str, float]:
    """Return model -> parameters from texts ``NAME=COUNT``; UserError for anything else."""
    found = {}
    for text in texts:
        name, _, count = text.partition("=")
        try:
            found[name] = float(count)
        except ValueError:
            found[name] = math.nan
        if name not in names or not 0 < found[name] < math.inf:
            raise UserError(
                f"expected --parameters MODEL=COUNT, as phi4-mini-it=3.8e9, got {text!r}; "
                f"the models of this run are {', '.join(names)}"
            )
    return found
