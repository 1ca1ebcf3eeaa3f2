"""What a model folder is: its digest, that of its base model, and whether it is as it was left.

A folder that ``prune`` wrote has a manifest with the SHA-256 of every file, an export of it
``sparse24.json``; both are compared with the files before anything in them is believed. A
``manifest.json`` of another form is a foreign one: such a folder is a plain model.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..io.checksums import (
    again,
    compare_files,
    matching,
    model_files,
    read_sealed,
    sha256_cached,
)
from ..io.errors import UserError
from ..io.files import digest
from .loading import EXPORT, weight_files

MANIFEST = "manifest.json"
TEMPLATES = "additional_chat_templates"  # a folder that transformers reads too
TOKENIZER_FILES = (
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "*.model"),
)
# Files of a model folder that change what it computes from a text.
IDENTIFYING = (
    *("*.safetensors", "config.json", "generation_config.json", "chat_template*"),
    *TOKENIZER_FILES,
)
# What lies in a pruned folder beside the files that its manifest lists.
UNLISTED = {MANIFEST, "provenance.json"}
# Not carried over: other forms of the weights, and files that describe a checkpoint of ours.
WEIGHT_SUFFIXES = (
    ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".h5",
    ".msgpack", ".gguf", ".onnx", ".ckpt",
)  # fmt: skip
OWN_FILES = {"README.md", MANIFEST, "provenance.json", "layers.csv"}


@dataclass(frozen=True)
class Identity:
    """Digests of a model folder.

    ``files_sha256`` is of its weight, configuration and tokenizer files. ``model_sha256`` is that
    of the tensors of a pruned checkpoint, of another model ``files_sha256``. ``base_sha256`` is the
    ``files_sha256`` of the model that a checkpoint was pruned from, None for one not pruned.
    """

    model_sha256: str
    files_sha256: str
    base_sha256: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Return the digests as they are recorded in results."""
        return asdict(self)


def carried_files(folder: Path) -> list[Path]:
    """Return the files beside the weights that what is made of a model folder keeps as they are."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file()
        and file.name not in OWN_FILES
        and not file.name.startswith(".")
        and not file.name.endswith(WEIGHT_SUFFIXES)
    )


def files_digest(checksums: Mapping[str, str]) -> str:
    """Return ``files_sha256`` from the SHA-256 of a folder's files; others have no part in it."""
    return digest({name: checksums[name] for name in matching(checksums, IDENTIFYING)})


def tokenizer_digest(folder: Path) -> str:
    """Return a digest of a model folder's tokenizer files."""
    names = {path.name for pattern in TOKENIZER_FILES for path in folder.glob(pattern)}
    return digest({name: sha256_cached(folder / name) for name in names})


def own_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder that ``prune`` wrote; {} for any other folder.

    Raises UserError for one that was changed since.
    """
    path, remedy = folder / MANIFEST, f"{_remedy(folder)}, or remove it from a folder of others"
    return read_sealed(path, remedy, {"checksum", "model_sha256"}) if os.path.lexists(path) else {}


def _remedy(folder: Path) -> str:
    return f"prune again: run {again(folder)}, or `prune` as before"


def check_pruned(folder: Path, manifest: Mapping[str, Any], verify: bool = False) -> None:
    """Raise UserError where a pruned folder is not the one that was written, or was checked.

    ``verify`` reads all files again whatever the cache says of them.
    """
    files = manifest["files"]
    compare_files(folder, files, folder / MANIFEST, _remedy(folder), verify)
    names = model_files(file.name for file in folder.iterdir())
    if added := set(names) - set(files) - UNLISTED:
        raise UserError(
            f"{folder / min(added)} is none of the files that `prune` wrote, and would be read "
            f"with them; remove it, or {_remedy(folder)}"
        )


def identify(folder: Path | str) -> Identity:
    """Return what a model folder is, after comparing it with its own records.

    Raises UserError for a pruned or exported checkpoint that was changed after it was written,
    and for a folder without whole weights.
    """
    folder = Path(folder)
    if (folder / EXPORT).is_file():
        return _identify_export(folder)
    manifest = own_manifest(folder)
    if manifest:
        check_pruned(folder, manifest)
    weights = weight_files(folder)
    if (folder / TEMPLATES).exists():
        raise UserError(
            f"{folder} has chat templates in {TEMPLATES}, which no result would name; put the one "
            "that counts into chat_template.jinja, and remove that folder"
        )
    beside = [p.name for p in folder.iterdir() if p.is_file() and p.suffix != ".safetensors"]
    names = sorted({path.name for path in weights} | set(matching(beside, IDENTIFYING)))
    files = files_digest({name: sha256_cached(folder / name) for name in names})
    if not manifest:
        return Identity(files, files)
    return Identity(manifest["model_sha256"], files, files_digest(manifest["base"]["files"]))


def _identify_export(folder: Path) -> Identity:
    path = folder / EXPORT
    remedy = f"export the checkpoint again: run {again(folder)}, or `export-sparse24` as before"
    index = read_sealed(path, remedy)
    files = {**index["files"], **index["carried"]}
    compare_files(folder, files, path, remedy)
    return Identity(index["model_sha256"], files_digest(files), index["base_sha256"])
