"""What lies in a folder, and changes to single files in it."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

TIMES = "provenance.json"


def snapshot(root: Path) -> dict[str, object]:
    """Everything below a folder: bytes of files, targets of links, kinds of the rest."""
    return {
        str(path.relative_to(root)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else stat.S_IFMT(path.lstat().st_mode)
        for path in sorted(root.rglob("*"))
    }


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder but the one that tells times."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != TIMES)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint, in one file or several."""
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def change_tensors(file: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the dictionary of a safetensors file's tensors."""
    stored = load_file(file)
    change(stored)
    save_file(stored, file, metadata={"format": "pt"})


def change_json(file: Path, **changes: object) -> None:
    """Set keys of a JSON file, which need not be there."""
    state = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(state | changes))
