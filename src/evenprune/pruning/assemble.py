"""The files beside the shards of a pruned model: index, carried files, manifest, tables, card."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..blocks.base_model import BaseModel
from ..blocks.packing import Text
from ..io.checksums import sealed
from ..io.files import digest, disk_errors, sha256_file, write_csv, write_json, write_text
from ..methods.options import Options
from ..models.identity import carried_files, files_digest
from ..models.trust import trust_record
from .card import model_card
from .provenance import provenance

LAYER_COLUMNS = [
    "module", "rows", "columns", "zeros", "sparsity", "loss", "dead_columns", "damping",
    "precision", "condition", "loss_before", "loss_after",
]  # fmt: skip
EXPERT_COLUMNS = ["tokens", "shared"]  # of models with experts, behind the others


def assemble(
    shards: Sequence[Path],
    records: list[dict],
    base: BaseModel,
    known: Mapping[str, Any],
    options: Options,
    text: Text,
    seconds: float,
    shifted: dict[str, Any] | None,
) -> None:
    """Write all that a model folder holds beside its finished ``shards``.

    records: the workspace's, one a shard; known: of the base model, ``files`` (SHA-256 by name),
    and ``hub`` and ``revision`` where it is known to be from there; seconds: the wall time of
    this process; shifted: what the method did with the pruned model as a whole, None for nothing.
    """
    folder, base_files = shards[0].parent, known["files"]
    tensors: dict[str, dict] = {}
    weight_map: dict[str, str] = {}
    files: dict[str, str] = {}
    for file, item in zip(shards, records, strict=True):
        files[file.name] = item["tensors"].pop("")["sha256"]
        for name, facts in item["tensors"].items():
            tensors[name] = facts | ({"pruned": True} if name in item["pruned"] else {})
            weight_map[name] = file.name
    total = sum(entry.size for entry in base.stored.values())
    index = folder / "model.safetensors.index.json"
    write_json(index, {"metadata": {"total_size": total}, "weight_map": weight_map})
    files[index.name] = sha256_file(index)
    with disk_errors(folder):
        for file in carried_files(base.folder):
            shutil.copyfile(file, folder / file.name)
            files[file.name] = base_files[file.name]
    layers = [row for item in records for row in item["layers"]]
    of_experts = [row for row in layers if "tokens" in row]
    experts = {"matrices": len(of_experts), "shared": sum(row["shared"] for row in of_experts)}
    columns = LAYER_COLUMNS + (EXPERT_COLUMNS if of_experts else [])
    write_csv(folder / "layers.csv", columns, layers)
    files["layers.csv"] = sha256_file(folder / "layers.csv")
    size = sum(row["rows"] * row["columns"] for row in layers)
    used = options.relevant()
    used["dtype"] = str(base.dtype).removeprefix("torch.")
    used["packing"] = records[1]["packing"]  # the one in use, whatever was asked for
    manifest = {
        "method": used.pop("method"),
        "regime": used.pop("regime"),
        "options": used,
        "base": {**known, "files_sha256": files_digest(base_files)},
        **trust_record(),
        "calibration": text.summary(),
        **({"shifted": shifted} if shifted else {}),
        **({"experts": experts} if of_experts else {}),
        "tensors": tensors,
        "sparsity": sum(row["zeros"] for row in layers) / size,
        "files": files,
        "model_sha256": digest({name: facts["sha256"] for name, facts in tensors.items()}),
    }
    write_text(folder / "README.md", model_card(manifest))
    files["README.md"] = sha256_file(folder / "README.md")
    write_json(folder / "manifest.json", sealed(manifest))
    write_json(folder / "provenance.json", provenance(base, records, seconds))
