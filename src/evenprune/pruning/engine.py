"""Pruning a whole model block by block, on disk and resumable.

In memory at any time: one decoder block, the Hessians of its inputs, and the activations of
the calibration text. Every finished block is one finished shard of the result. A killed run
leaves them behind; the next run with the same inputs continues there and ends with the same
bytes.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from ..blocks.base_model import BaseModel, assembled
from ..blocks.forward import Batches, advance, input_groups, record_inputs
from ..blocks.packing import CPU_TOKENS, ROW, TOKENS, Batch, Text, pack_pairs, pack_texts
from ..blocks.probe import (
    Probe,
    bos_losses,
    check_rows,
    probe_blocks,
    shared_prefix_objection,
)
from ..config.facts import METHODS, regime_facts
from ..io.codedigest import code_digest
from ..io.errors import UserError
from ..io.files import digest, read_json
from ..io.onednn import has_tiles
from ..io.progress import format_seconds
from ..methods import FACTS, find, module_of
from ..methods.options import Options
from ..models.architecture import find_linears, rows_of, unsupported_named
from ..models.experts import experts_of
from ..models.identity import MANIFEST
from ..models.loading import release_memory, tame_heap
from ..models.tensors import Source, write_tensors
from ..models.weights import read_header
from .assemble import assemble
from .provenance import Stopwatch
from .sums import BlockSums
from .workspace import Workspace, workspace

# What can be done about a model that cannot be taken apart, and about one whose blocks cannot be
# run one at a time.
OTHER_TYPE = "choose a model of a type that docs/architectures.md says is pruned"
NO_TEXT = "take --method magnitude, which runs no text through the blocks"
# oneDNN keeps the code of so many products. Its own number, 1,024, took 0.2 GB more on an EPYC.
KEPT_PRODUCTS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64"


def prune_model(
    folder: Path,
    options: Options,
    text: Text,
    out: Path,
    device: str = "cpu",
    work: Path | None = None,
    source: Mapping[str, str] | None = None,
    inspect: Callable[[Path], None] | None = None,
) -> dict[str, Any]:
    """Prune the model in ``folder`` into the folder ``out`` and return its manifest.

    ``work`` holds the result in the making, by default a hidden folder beside ``out``. ``source``
    is the base model's ``hub`` repository and ``revision``, where they are known. ``inspect`` gets
    the finished folder before it is moved to ``out``. Raises
    UserError for anything wrong with the input, and in the end where ``out`` holds anything but a
    pruned model of ours (`prune` looks before); ``out`` is then untouched.
    """
    tame_heap()
    os.environ.setdefault(*KEPT_PRODUCTS)
    torch.set_float32_matmul_precision("highest")  # no TF32 in Hessians and factors
    with unsupported_named(folder, OTHER_TYPE):
        base = BaseModel(folder, regime_facts(options.regime), device, options.compute_dtype)
    method = find(options.method)
    method.check_text(text)
    if not method.experts and any(map(experts_of, base.blocks)):
        raise UserError(
            f"{options.method} does not know the experts of a mixture-of-experts model; choose "
            "another method, such as debias-sparsegpt"
        )
    files = base.base_files()
    key = digest(
        {
            "options": options.relevant(),
            "base": files,
            **({"source": dict(source)} if source else {}),
            "text": text.token_digest(),
            "summary": text.summary(),
            "device": torch.device(device).type,
            "compute_dtype": str(base.compute_dtype),
            "implementation": method.implementation(torch.device(device), options),
            "regime": asdict(regime_facts(options.regime)),
            "code": [code_digest(name, FACTS) for name in (module_of(options.method), __name__)],
            "versions": [torch.__version__, transformers.__version__],
        }
    )
    root = work or out.parent / f".{out.name}.partial"
    with workspace(root, key, own_root=work is None) as place:
        with unsupported_named(folder, f"{NO_TEXT}, or {OTHER_TYPE}"):
            PruningRun(base, options, text, place).finish({"files": files, **(source or {})})
        if inspect:
            inspect(place.model)
        place.publish(out, [folder])
    return read_json(out / MANIFEST)


class PruningRun:
    """One pass over the blocks of a model, from wherever the workspace stands to the end."""

    def __init__(self, base: BaseModel, options: Options, text: Text, place: Workspace) -> None:
        self.base = base
        self.options = options
        self.text = text
        self.place = place
        self.regime = regime_facts(options.regime)
        self.method = find(options.method)
        self.shards = base.shard_names()
        last = len(self.shards)
        names = [f"model-{k + 1:05d}-of-{last:05d}.safetensors" for k in range(last)]
        folder = place.pruned if METHODS[options.method].shifts else place.model
        self.files = [folder / name for name in names]
        self.packing: str | None = None
        self.probe: Probe | None = None
        self.groups: dict[tuple[str, ...], list[list[str]]] = {}
        self.watch = Stopwatch(base.device)
        self.sums = BlockSums(base, self.method, options, text, self.watch)

    def finish(self, known: Mapping[str, Any]) -> None:
        """Make whatever shards are missing, then the files beside them.

        known: of the base model, as ``assemble`` takes it.
        """
        start = time.monotonic()
        records: list[Any] = [self.place.record(file) for file in self.files]
        count = len(records)
        done = next((k for k, record in enumerate(records) if record is None), count)
        if done:
            print(f"continuing: {done} of {count} shards are finished", file=sys.stderr)
        else:
            outside = {name: self.base.stored[name] for name in self.shards[0]}
            facts = write_tensors(self.files[0], outside)
            records[0] = {"tensors": facts, "layers": [], "pruned": []}
            self.place.finish(self.files[0], records[0])
            done = 1
        if done < count:
            self._prune_blocks(records, done, time.monotonic())
        shifted = self._shift(records) if METHODS[self.options.method].shifts else None
        files = [self.place.model / file.name for file in self.files]
        seconds = time.monotonic() - start
        assemble(files, records, self.base, known, self.options, self.text, seconds, shifted)

    def _shift(self, records: list[Any]) -> dict[str, Any] | None:
        """Let the method change the pruned model; write the shards of ``model/``.

        Returns what was done; ``records`` are then those of the new shards.
        """
        for file in self.files:
            self.base.stored.update(read_header(file))
        release_memory()  # of the blocks
        folder = self.place.folder / "shifted"
        done = self.method.shift(self.base, self.text, self.options, folder)
        for file, names, record in zip(self.files, self.shards, records, strict=True):
            tensors = {name: self.base.stored[name] for name in names}
            record["tensors"] = write_tensors(self.place.model / file.name, tensors)
            for row in record["layers"]:
                stored = self.base.slot(f"{row['module']}.weight").stored
                row["zeros"] = record["tensors"][stored]["zeros"]
                row["sparsity"] = row["zeros"] / (row["rows"] * row["columns"])
        return done

    def _prune_blocks(self, records: list[Any], done: int, start: float) -> None:
        """Prune the blocks after the ``done`` finished shards; put their records in ``records``.

        start: when the first of them was begun, for the estimate of the time that is left.
        """
        count = len(self.base.blocks)
        calibration = self._calibration()
        for index in range(count):
            began = time.monotonic()
            release_memory()  # of the blocks before
            if index < done - 1:
                if calibration:  # an earlier process has pruned it
                    self.base.load_block(index, self.files[index + 1])
                    name = self.base.block_name(index)
                    advance(self.base.blocks[index], index, name, calibration)
                    self.base.unload_block(index)
                continue
            record = self._prune_block(index, calibration)
            record["seconds"] = time.monotonic() - began
            record["phases"] = self.watch.take()
            records[index + 1] = record
            self.place.finish(self.files[index + 1], record)
            self._report(index, count, record, start, index + 2 - done)

    def _report(self, index: int, count: int, record: dict, start: float, made: int) -> None:
        layers = record["layers"]
        zeros = sum(row["zeros"] for row in layers)
        size = sum(row["rows"] * row["columns"] for row in layers)
        damping = max((row["damping"] or 0.0 for row in layers), default=0.0)
        note = f", damping raised to {damping:g}" if damping > self.options.damping else ""
        left = (time.monotonic() - start) / made * (count - index - 1)
        print(
            f"block {index + 1}/{count}: {len(layers)} matrices, {zeros / size:.2%} zeros{note}, "
            f"{record['seconds']:.1f} s, eta {format_seconds(left)}",
            file=sys.stderr,
            flush=True,
        )

    def _calibration(self) -> Batches | None:
        """Return the activations in front of the first block; None where nothing is summed.

        The text is looked at also by a method that shifts a model without pruning it.
        """
        if not self.options.calibrated:
            return None
        base = self.base
        if self.text.longest <= ROW and base.device == "cpu" and not has_tiles():
            # For short rows faster than torch's kernel, on an EPYC by 8 % of a forward pass.
            base.model.set_attn_implementation("eager")
        base.load_outside(self.text.token_ids())
        base.load_block(0)
        self.probe = probe_blocks(base, self.text.token_ids())
        tokens = CPU_TOKENS if base.device == "cpu" else TOKENS
        batches = self._pack_pairs(tokens) + pack_texts(self.text.texts, tokens)
        base.unload_block(0)
        form = self.probe.together.form
        calibration = record_inputs(base, batches, form)
        base.unload_outside()
        if self.text.fixed:
            losses = bos_losses(base, form, self.text.fixed)
            if note := losses and losses.objection(self.text.begins):
                print(note, file=sys.stderr, flush=True)
        return calibration if self.method.summed(self.options) else None

    def _pack_pairs(self, tokens: int) -> list[Batch]:
        """Return the batches of pairs; sets ``self.packing`` to the packing that was possible.

        Expects the first block loaded, and the base model outside its blocks.
        """
        pairs = self.text.kept
        if not pairs:
            return []
        self.packing = self.options.packing
        if self.packing == "shared-prefix":
            assert self.probe is not None
            objection = shared_prefix_objection(self.base, pairs, self.probe.together.form)
            if objection:
                self.packing = "sentences"
                print(f"no shared-prefix packing: {objection}", file=sys.stderr)
        return pack_pairs(
            pairs,
            self.method.pair_weights(self.options, len(pairs)),
            self.packing == "shared-prefix",
            tokens,
        )

    def _prune_block(self, index: int, calibration: Batches | None) -> dict[str, Any]:
        """Prune one block, write its shard, advance the activations; return its record."""
        base, block, name = self.base, self.base.blocks[index], self.base.block_name(index)
        with self.watch("load"):
            weights = base.load_block(index)
        linears = find_linears(block)
        reports: dict[str, dict[str, Any]] = {}
        groups = self._groups(index, calibration)
        for group, total, facts in self.sums.take(index, calibration, groups):
            with self.watch("solve"):
                results = self.method.prune(
                    [rows_of(linears[one], weights[one]).to(base.device) for one in group],
                    total,
                    self.regime,
                    self.options,
                    [f"{name}.{one}" for one in group],
                )
            for one, (pruned, report) in zip(group, results, strict=True):
                weights[one] = rows_of(linears[one], pruned).contiguous()
                base.set_weight(index, one, weights[one])
                reports[one] = asdict(report) | facts
        if calibration and index + 1 < len(base.blocks):
            with self.watch("forward"):
                advance(block, index, name, calibration)
        with self.watch("write"):
            return self._write_block(index, weights, reports)

    def _groups(self, index: int, calibration: Batches | None) -> list[list[str]]:
        """Return the linears of a block by their input."""
        block = self.base.blocks[index]
        names = tuple(find_linears(block))
        if calibration is None:
            return [[name] for name in names]
        if names not in self.groups:
            self.groups[names] = input_groups(block, calibration[0][0][0], index)
            assert self.probe is not None
            check_rows(block, index, self.probe)
        return self.groups[names]

    def _write_block(
        self, index: int, weights: dict[str, Tensor], reports: dict[str, dict[str, Any]]
    ) -> dict[str, Any]:
        """Write one block's shard; return its record without the seconds."""
        base, name = self.base, self.base.block_name(index)
        slots = {one: base.slot(f"{name}.{one}.weight") for one in weights}
        tensors: dict[str, Source] = {n: base.stored[n] for n in self.shards[index + 1]}
        tensors.update(assembled(slots, {one: weight.cpu() for one, weight in weights.items()}))
        base.unload_block(index)
        facts = write_tensors(self.files[index + 1], tensors)
        rows, linears = [], find_linears(base.blocks[index])
        for one, report in reports.items():
            shape = rows_of(linears[one], weights[one]).shape
            whole = slots[one].number is None
            zeros = facts[slots[one].stored]["zeros"] if whole else int((weights[one] == 0).sum())
            about = {"module": f"{name}.{one}", "rows": shape[0], "columns": shape[1]}
            rows.append(about | {"zeros": zeros, "sparsity": zeros / shape.numel()} | report)
        return {
            "tensors": facts,
            "layers": rows,
            "pruned": sorted({slot.stored for slot in slots.values()}),
            "packing": self.packing,
            "attention": base.model.config._attn_implementation,
        }
