"""The model to be pruned: skeleton on the meta device, weights on disk, loaded part by part."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config.facts import REGIMES, RegimeFacts
from ..io import onednn
from ..io.checksums import sha256_cached
from ..io.errors import UserError
from ..models.architecture import (
    PRUNABLE,
    check_block,
    find_blocks,
    find_linears,
    is_stored,
    load_skeleton,
    rows_of,
    set_parameter,
    stored_name,
    unload,
)
from ..models.experts import Slot, unpack_experts
from ..models.identity import carried_files
from ..models.loading import all_finite, check_model_folder, read_folder
from ..models.tensors import read_rows, read_tensor
from ..models.weights import Entry, read_header

UNSTRUCTURED = [slug for slug, regime in REGIMES.items() if not regime.structured]


def assembled(
    slots: Mapping[str, Slot], weights: Mapping[str, Tensor]
) -> dict[str, Tensor | list[Tensor]]:
    """Return the tensors that a shard stores for the ``weights`` of linears, as stored."""
    parts: dict[str, dict[int | None, Tensor]] = {}
    for one, weight in weights.items():
        parts.setdefault(slots[one].stored, {})[slots[one].number] = weight
    return {
        name: found[None] if None in found else [found[k] for k in range(len(found))]
        for name, found in parts.items()
    }


class BaseModel:
    """A model folder whose decoder blocks are loaded one at a time.

    Raises UserError for a folder that is incomplete or damaged, weights that do not belong to
    its config.json, an architecture whose blocks are not found, and weights that ``regime``
    cannot be applied to.
    """

    def __init__(
        self, folder: Path, regime: RegimeFacts, device: str, compute_dtype: str = "auto"
    ) -> None:
        self.folder = folder
        self.device = device
        check_model_folder(folder)
        self.stored = read_folder(folder)
        self._build()
        self.dtype = self._check_weights(regime)
        stored = torch.float32 if self.dtype == torch.float64 else self.dtype
        # Of the forward passes: the checkpoint's, float32 where that is slow.
        self.compute_dtype: torch.dtype = getattr(torch, compute_dtype, None) or onednn.fast_dtype(
            stored, device
        )
        if self.compute_dtype != self.model.dtype:
            # What it computes of its config, such as Gemma's scale of embeddings, is rounded to it.
            self._build(self.compute_dtype)
        for module in self.model.modules():
            for name, buffer in module.named_buffers(recurse=False):
                setattr(module, name, buffer.to(device))

    def _build(self, dtype: torch.dtype | None = None) -> None:
        """Make the model on the meta device, in ``dtype``, else that of its config.json."""
        self.model = load_skeleton(self.folder, self.stored, dtype)
        onednn.speed_up(self.model)
        self.slots = unpack_experts(self.model, self.stored)
        self.blocks_name, self.blocks = find_blocks(self.model)
        base = self.model.base_model
        self.prefix = next(name for name, module in self.model.named_modules() if module is base)

    def block_name(self, index: int) -> str:
        """Return the full module name of a decoder block."""
        return f"{self.blocks_name}.{index}"

    def slot(self, name: str) -> Slot:
        """Return where a parameter is stored, in the base model and in what is made of it."""
        return self.slots.get(name) or Slot(stored_name(self.model, name, self.stored))

    def entry(self, name: str) -> Entry:
        """Return the entry of a parameter in the base model."""
        return self.slot(name).of(self.stored)

    def linears(self) -> dict[str, nn.Module]:
        """Return all linear layers to be pruned by their full names, in order."""
        return {
            f"{self.block_name(index)}.{name}": linear
            for index, block in enumerate(self.blocks)
            for name, linear in find_linears(block).items()
        }

    def _check_weights(self, regime: RegimeFacts) -> torch.dtype:
        """Check every matrix to be pruned; return the dtype of the first."""
        dtypes = []
        for index, block in enumerate(self.blocks):
            check_block(self.block_name(index), block)
            for name, _ in block.named_parameters():  # each is stored, before any work
                self.entry(f"{self.block_name(index)}.{name}")
        for full, linear in self.linears().items():
            entry = self.entry(f"{full}.weight")
            if entry.torch_dtype not in PRUNABLE:
                raise UserError(
                    f"{full} is stored as {entry.dtype}, expected F64, F32, F16 or BF16; "
                    "prune the unquantised checkpoint"
                )
            weight: Any = linear.weight
            columns = rows_of(linear, weight).shape[1]
            if regime.structured and columns % regime.of:
                raise UserError(
                    f"regime {regime.slug} needs input widths divisible by {regime.of}, "
                    f"but {full} has {columns}; use regime {' or '.join(UNSTRUCTURED)}"
                )
            dtypes.append(entry.torch_dtype)
        return dtypes[0]

    def shard_names(self) -> list[list[str]]:
        """Return the stored names of each shard: all outside the blocks, then block by block."""
        head = self.blocks_name.removeprefix(f"{self.prefix}.") + "."
        shards: list[list[str]] = [[] for _ in range(len(self.blocks) + 1)]
        owners = {slot.stored: full for full, slot in self.slots.items()}
        for name in sorted(self.stored):
            tail = owners.get(name, name).removeprefix(f"{self.prefix}.")
            number = tail[len(head) :].split(".")[0] if tail.startswith(head) else ""
            shards[int(number) + 1 if number.isdigit() else 0].append(name)
        return shards

    def _convert(self, tensor: Tensor) -> Tensor:
        dtype = self.compute_dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(device=self.device, dtype=dtype)

    def load_block(self, index: int, shard: Path | None = None) -> dict[str, Tensor]:
        """Load a block's parameters from the base model, or from a finished ``shard``.

        Returns the weights of its linears as stored, by name within the block: those of the block
        itself where the forward pass takes the stored dtype. Raises
        UserError for weights that are not finite.
        """
        entries = read_header(shard) if shard else self.stored
        block = self.blocks[index]
        linears = find_linears(block)
        weights = {}
        for name, _ in list(block.named_parameters()):
            full = f"{self.block_name(index)}.{name}"
            entry = self.slot(full).of(entries)
            tensor = read_tensor(entry)
            if not all_finite(tensor):
                raise UserError(f"NaN or infinity in {full} of {entry.file}; fetch the model again")
            owner, _, leaf = name.rpartition(".")
            value = self._convert(tensor)
            if owner in linears and leaf == "weight":
                weights[owner] = value if value.dtype == tensor.dtype else tensor
            set_parameter(block, name, value)
        self._load_buffers(block, self.block_name(index), entries)
        return weights

    def _load_buffers(self, module: nn.Module, prefix: str, entries: Mapping[str, Entry]) -> None:
        """Load the buffers that a checkpoint stores, such as Gemma 4's scale of each layer."""
        for name, _ in list(module.named_buffers()):
            full = f"{prefix}.{name}"
            owner, _, leaf = name.rpartition(".")
            place = module.get_submodule(owner)
            if leaf in place._non_persistent_buffers_set or not (
                full in self.slots or is_stored(self.model, full, self.stored)
            ):
                continue
            place._buffers[leaf] = self._convert(read_tensor(self.slot(full).of(entries)))

    def set_weight(self, index: int, name: str, weight: Tensor) -> None:
        """Give a linear of a loaded block the pruned weight, in the dtype of the forward pass."""
        set_parameter(self.blocks[index], f"{name}.weight", self._convert(weight))

    def unload_block(self, index: int) -> None:
        """Free a block's parameters."""
        unload(self.blocks[index])

    def load_outside(self, used: Tensor | None = None) -> None:
        """Load what the base model needs outside its blocks; of embeddings only ``used`` rows.

        ``used`` are the token ids of the calibration text. Without it all is loaded, the output
        embeddings too.
        """
        base = self.model.base_model
        inside = self.blocks_name.removeprefix(f"{self.prefix}.") + "."
        embedding = self.model.get_input_embeddings()
        for name, parameter in list(base.named_parameters()):
            if name.startswith(inside):
                continue
            entry = self.entry(f"{self.prefix}.{name}")
            if parameter is embedding.weight and used is not None:
                tensor = self._embedding(entry, used)
            else:
                tensor = self._convert(read_tensor(entry))
            set_parameter(base, name, tensor)
        for name, module in base.named_children():
            if not inside.startswith(f"{name}."):
                self._load_buffers(module, f"{self.prefix}.{name}", self.stored)
        if used is not None:
            return
        # The output embeddings, which may be tied to those of the input.
        table: Any = embedding.weight
        for name, _ in list(self.model.named_parameters()):
            if not name.startswith(f"{self.prefix}."):
                tied = name in self.model.all_tied_weights_keys
                tensor = table if tied else self._convert(read_tensor(self.entry(name)))
                set_parameter(self.model, name, tensor)

    def _embedding(self, entry: Entry, used: Tensor) -> Tensor:
        """Return the embedding table with its ``used`` rows filled, the others undefined."""
        rows = torch.unique(used)
        if rows[-1] >= entry.shape[0]:  # such as a pad token that was added
            raise UserError(
                f"the tokenizer in {self.folder} gives token {int(rows[-1])}, but the model has "
                f"only {entry.shape[0]}; use the tokenizer that belongs to the model"
            )
        table = torch.empty(entry.shape, dtype=self.compute_dtype, device=self.device)
        table[rows.to(self.device)] = self._convert(read_rows(entry, rows))
        return table

    def unload_outside(self) -> None:
        """Free what ``load_outside`` loaded."""
        unload(self.model)

    def base_files(self) -> dict[str, str]:
        """Return the SHA-256 of each carried file and each weight file, by name."""
        weights = sorted({entry.file for entry in self.stored.values()})
        return {file.name: sha256_cached(file) for file in [*carried_files(self.folder), *weights]}
