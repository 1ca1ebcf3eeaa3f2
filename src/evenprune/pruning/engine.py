"""Pruning a whole model block by block, on disk and resumable.

In memory at any time: one decoder block, the Hessians of its inputs, and the activations of
the calibration text. Every finished block is one finished shard of the result. A killed run
leaves them behind; the next run with the same inputs continues there and ends with the same
bytes.
"""

import difflib
import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from ..base.checksums import sealed
from ..base.codedigest import code_digest
from ..base.errors import UserError
from ..base.files import digest, disk_errors, sha256_file, write_csv, write_json, write_text
from ..base.outputs import PRUNED, check_folder
from ..base.progress import format_seconds
from ..data.calibration import ALIGNMENTS, TokenizedPairs, common_prefix
from ..models.architecture import find_linears, max_positions, rows_of
from ..models.identity import files_digest
from ..models.loading import release_memory, tame_heap
from ..models.tensors import Entry, write_tensors
from ..models.trust import trust_record
from .base_model import BaseModel
from .card import model_card
from .forward import (
    Calibration,
    Stream,
    advance,
    check_finite,
    collect,
    input_groups,
    record_inputs,
    tree_deviation,
    tree_objection,
)
from .hessian import Gram, Plan, SquareNorms
from .layer import Report, prune_hessian, prune_magnitude, prune_wanda
from .masks import METHODS, REGIMES
from .packing import Batch, pack_pairs, pack_texts
from .probe import Probe, check_rows, probe_blocks
from .provenance import Stopwatch, provenance
from .solver import column_loop
from .workspace import Workspace, check_work, workspace

LAYER_COLUMNS = [
    "module", "rows", "columns", "zeros", "sparsity", "loss", "dead_columns", "damping",
    "precision", "condition",
]  # fmt: skip

# Far above what float32 (24 bits) tells apart beside the plain term, far below its overflow.
MAX_BIAS_WEIGHT = 1e12

# Rounding between the two packings stays far below, an ignored mask lies far above.
TREE_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass(frozen=True)
class Options:
    """Everything that decides the result, beside model and text.

    bias_weight is b of the Hessian, or α with bias_scaling ``released-code``. packing is
    ``shared-prefix`` or ``sentences``.
    """

    method: str
    regime: str
    bias_weight: float = 1.0
    bias_scaling: str = "equation"
    block_size: int = 128
    damping: float = 0.01
    alignment: str = "equal-length"
    sequential: str = "block"
    packing: str = "shared-prefix"
    seed: int = 0

    def check(self) -> None:
        """Raise UserError for a value outside its range."""
        for name, value, allowed in (
            ("--method", self.method, METHODS),
            ("--regime", self.regime, tuple(REGIMES)),
            ("--bias-scaling", self.bias_scaling, ("equation", "released-code")),
            ("--alignment", self.alignment, ALIGNMENTS),
            ("--sequential", self.sequential, ("block", "module")),
            ("--packing", self.packing, ("shared-prefix", "sentences")),
        ):
            if value not in allowed:
                close = difflib.get_close_matches(str(value), allowed, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise UserError(f"{name} must be one of {', '.join(allowed)}, got {value!r}{hint}")
        for name, number in (("--bias-weight", self.bias_weight), ("--damping", self.damping)):
            if not (math.isfinite(number) and number >= 0):
                raise UserError(f"{name} must be a finite number of at least 0, got {number}")
        if self.bias_weight > MAX_BIAS_WEIGHT:
            raise UserError(
                f"--bias-weight must be at most {MAX_BIAS_WEIGHT:g}, got {self.bias_weight:g}: the "
                "Hessian is summed in float32, where nothing but the bias term would be left of it"
            )
        group = REGIMES[self.regime].of
        if self.block_size < 1 or (REGIMES[self.regime].structured and self.block_size % group):
            raise UserError(
                f"--block-size must be positive and, for regime {self.regime}, divisible by "
                f"{group}, got {self.block_size}"
            )

    def relevant(self) -> dict[str, Any]:
        """Return the options, None for those that the method does not use."""
        values = asdict(self)
        unused: list[str] = []
        if self.method != "debias-sparsegpt":
            unused += ["bias_weight", "bias_scaling"]
        if self.method not in ("sparsegpt", "debias-sparsegpt"):
            unused += ["block_size", "damping"]
        if self.method == "magnitude":
            unused += ["alignment", "sequential", "packing"]
        return values | dict.fromkeys(unused)

    def bias_of_pairs(self, count: int) -> list[float]:
        """Return the bias weight of each pair in file order.

        ``equation``: b for all. ``released-code``: the authors' running mean
        ``H ← H (n-2)/n + (2/n)(X0X0ᵀ + X1X1ᵀ) + 2 α ΔΔᵀ`` with n = 2k sentences seen gives
        the k-th pair the weight ``α k``, up to a common factor that damping cancels.
        """
        if self.method != "debias-sparsegpt":
            return [0.0] * count
        if self.bias_scaling == "released-code":
            return [self.bias_weight * (k + 1) for k in range(count)]
        return [self.bias_weight] * count


@dataclass(frozen=True)
class Text:
    """Tokenised calibration text and the digests of the files it came from.

    texts: (id, token ids) of the unpaired ones.
    """

    pairs: TokenizedPairs | None = None
    texts: Sequence[tuple[str, Sequence[int]]] = ()
    pairs_sha256: str | None = None
    texts_sha256: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return the entry ``calibration`` of the manifest."""
        pairs = self.pairs.pairs if self.pairs else []
        return {
            "pairs_sha256": self.pairs_sha256,
            "texts_sha256": self.texts_sha256,
            "pairs_kept": len(pairs),
            "pairs_dropped": self.pairs.dropped if self.pairs else 0,
            "categories": self.pairs.counts if self.pairs else {},
            "tokens": {
                "pairs": sum(len(pair.ids0) + len(pair.ids1) for pair in pairs),
                "texts": sum(len(ids) for _, ids in self.texts),
            },
        }

    def token_digest(self) -> str:
        """Return a digest of the token ids, their order and their matches."""
        pairs = self.pairs.pairs if self.pairs else []
        rows = [[list(p.ids0), list(p.ids1), [list(m) for m in p.matches]] for p in pairs]
        return digest([rows, [list(ids) for _, ids in self.texts]])

    def lengths(self) -> Iterator[tuple[str, int]]:
        """Yield the id of every item and the number of tokens of its longest sequence."""
        for pair in self.pairs.pairs if self.pairs else []:
            yield pair.id, max(len(pair.ids0), len(pair.ids1))
        for name, ids in self.texts:
            yield name, len(ids)

    def token_ids(self) -> Tensor:
        """Return all token ids in one tensor."""
        pairs = self.pairs.pairs if self.pairs else []
        ids = [k for pair in pairs for k in (*pair.ids0, *pair.ids1)]
        return torch.tensor(ids + [k for _, text in self.texts for k in text])


def prune_model(
    folder: Path,
    options: Options,
    text: Text,
    out: Path,
    device: str = "cpu",
    work: Path | None = None,
) -> dict[str, Any]:
    """Prune the model in ``folder`` into the folder ``out`` and return its manifest.

    ``work`` holds the result in the making, by default a hidden folder beside ``out``. Raises
    UserError for anything wrong with the input, and where ``out`` holds anything but a pruned
    model of ours; ``out`` is then untouched.
    """
    check_folder(out, PRUNED, [folder])
    check_work(work, out, [folder])
    tame_heap()
    torch.set_float32_matmul_precision("highest")  # no TF32 in Hessians and factors
    base = BaseModel(folder, REGIMES[options.regime], device)
    files = base.base_files()
    key = digest(
        {
            "options": options.relevant(),
            "base": files,
            "text": text.token_digest(),
            "summary": text.summary(),
            "device": torch.device(device).type,
            "column_loop": column_loop(torch.device(device)),
            "code": code_digest("evenprune.pruning.engine"),
            "versions": [torch.__version__, transformers.__version__],
        }
    )
    root = work or out.parent / f".{out.name}.partial"
    with workspace(root, key, own_root=work is None) as place:
        manifest = Run(base, options, text, place).finish(files)
        place.publish(out, [folder])
    return manifest


class Run:
    """One pass over the blocks of a model, from wherever the workspace stands to the end."""

    def __init__(self, base: BaseModel, options: Options, text: Text, place: Workspace) -> None:
        self.base = base
        self.options = options
        self.text = text
        self.place = place
        self.regime = REGIMES[options.regime]
        self.shards = base.shard_names()
        self.packing: str | None = None
        self.probe: Probe | None = None
        self.groups: dict[tuple[str, ...], list[list[str]]] = {}
        self.watch = Stopwatch(base.device)

    def shard_file(self, shard: int) -> Path:
        """Return where a shard of the result lies."""
        return self.place.model / f"model-{shard + 1:05d}-of-{len(self.shards):05d}.safetensors"

    def finish(self, base_files: dict[str, str]) -> dict[str, Any]:
        """Make whatever shards are missing, then the files beside them; return the manifest."""
        start = time.monotonic()
        count = len(self.base.blocks)
        records = [self.place.record(self.shard_file(shard).name) for shard in range(count + 1)]
        done = next((k for k, record in enumerate(records) if record is None), count + 1)
        if done > 0:
            print(f"continuing: {done} of {count + 1} shards are finished", file=sys.stderr)
        if done == 0:
            outside = {name: self.base.stored[name] for name in self.shards[0]}
            facts = write_tensors(self.shard_file(0), outside)
            records[0] = {"tensors": facts, "layers": [], "pruned": []}
            self.place.finish(self.shard_file(0).name, records[0])
            done = 1
        if done <= count:
            calibration = self._calibration()
            for index in range(count):
                began = time.monotonic()
                release_memory()  # of the blocks before
                if index < done - 1:
                    if calibration:
                        self._replay_block(index, calibration)
                    continue
                record = self._prune_block(index, calibration)
                record["seconds"] = time.monotonic() - began
                record["phases"] = self.watch.take()
                records[index + 1] = record
                self.place.finish(self.shard_file(index + 1).name, record)
                self._report(index, count, record, start, index + 2 - done)
        return self._assemble(records, base_files, time.monotonic() - start)

    def _replay_block(self, index: int, calibration: Calibration) -> None:
        """Run the calibration text through a block that an earlier process has pruned."""
        self.base.load_block(index, self.shard_file(index + 1))
        advance(self.base.blocks[index], index, self.base.block_name(index), calibration)
        self.base.unload_block(index)

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

    def _calibration(self) -> Calibration | None:
        """Return the activations in front of the first block; None for a method without text."""
        if self.options.method == "magnitude":
            return None
        base = self.base
        limit = max_positions(base.folder)
        for name, length in self.text.lengths():
            if length > limit:
                raise UserError(
                    f"calibration item {name} has {length} tokens, but the model in {base.folder} "
                    f"takes at most {limit}; shorten or remove it"
                )
        base.load_outside(self.text.token_ids())
        base.load_block(0)
        self.probe = probe_blocks(base.model, base.blocks, self.text.token_ids(), base.device)
        batches = self._pack_pairs() + pack_texts(self.text.texts)
        base.unload_block(0)
        form = self.probe.form
        calibration = record_inputs(base.model, base.blocks, batches, base.device, form)
        base.unload_outside()
        return calibration

    def _pack_pairs(self) -> list[Batch]:
        """Return the batches of pairs; sets ``self.packing`` to the packing that was possible.

        Expects the first block loaded, like ``_tree_objection``.
        """
        if self.text.pairs is None:
            return []
        pairs = self.text.pairs.pairs
        self.packing = self.options.packing
        if self.packing == "shared-prefix":
            objection = self._tree_objection()
            if objection:
                self.packing = "sentences"
                print(f"no shared-prefix packing: {objection}", file=sys.stderr)
        shared = self.packing == "shared-prefix"
        return pack_pairs(pairs, self.options.bias_of_pairs(len(pairs)), shared)

    def _tree_objection(self) -> str | None:
        """Return why this model cannot take shared-prefix batches, or None after trying one."""
        base, pairs = self.base, self.text.pairs.pairs
        packed = {
            pair.id: len(pair.ids0) + len(pair.ids1) - common_prefix(pair.ids0, pair.ids1)
            for pair in pairs
        }
        objection = tree_objection(base.model, max(packed.values()))
        if objection:
            return objection
        # One pair with a prefix and two suffixes, of which the model must show no trace.
        pair = max(pairs, key=lambda pair: packed[pair.id] - max(len(pair.ids0), len(pair.ids1)))
        try:
            deviation = tree_deviation(base.model, base.blocks, pair, base.device, self.probe.form)
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # the model's code, which has run on plain sentences before
            return f"{type(base.model).__name__} fails on it ({type(error).__name__})"
        if deviation > TREE_TOLERANCE[base.compute_dtype]:
            return (
                f"{type(base.model).__name__} does not keep two suffixes of one prefix apart "
                f"(relative deviation {deviation:.1e})"
            )
        return None

    def _prune_block(self, index: int, calibration: Calibration | None) -> dict[str, Any]:
        """Prune one block, write its shard, advance the activations; return its record."""
        base, block, name = self.base, self.base.blocks[index], self.base.block_name(index)
        with self.watch("load"):
            weights = base.load_block(index)
        linears = find_linears(block)
        reports: dict[str, Report] = {}
        solved: list[dict[str, Any]] = []
        for groups in self._passes(index, calibration):
            with self.watch("forward"):
                statistics = self._statistics(index, calibration, groups) if calibration else {}
            for group in groups:
                matrices = [rows_of(linears[one], weights[one]) for one in group]
                statistic = statistics.pop(group[0], None)
                before = self.watch.seconds.get("solve", 0.0)
                with self.watch("solve"):
                    results = self._prune_group(f"{name}.{group[0]}", matrices, statistic)
                seconds = round(self.watch.seconds["solve"] - before, 4)
                solved.append({"modules": group, "seconds": seconds})
                for one, (pruned, report) in zip(group, results, strict=True):
                    weights[one] = rows_of(linears[one], pruned).contiguous()
                    base.set_weight(index, one, weights[one])
                    reports[one] = report
        if calibration and index + 1 < len(base.blocks):
            with self.watch("forward"):
                advance(block, index, name, calibration)
        with self.watch("write"):
            return self._write_block(index, weights, reports) | {"solved": solved}

    def _passes(self, index: int, calibration: Calibration | None) -> list[list[list[str]]]:
        """Return the input groups of a block, split into the passes that take their statistics."""
        block = self.base.blocks[index]
        names = tuple(find_linears(block))
        if calibration is None:
            return [[[name] for name in names]]
        if names not in self.groups:
            self.groups[names] = input_groups(block, calibration.streams()[0], index)
            check_rows(block, index, self.probe)
        groups = self.groups[names]
        return [groups] if self.options.sequential == "block" else [[group] for group in groups]

    def _statistics(
        self, index: int, calibration: Calibration, groups: list[list[str]]
    ) -> dict[str, Tensor]:
        """Return the Hessian, or for wanda the squared norms, of each group's input."""
        block, name = self.base.blocks[index], self.base.block_name(index)
        kind = SquareNorms if self.options.method == "wanda" else Gram
        leaders = [group[0] for group in groups]
        sums: dict[str, Gram | SquareNorms] = {}

        def add(leader: str, inputs: Tensor, plan: Plan, _streams: list[Stream]) -> None:
            if leader not in sums:
                sums[leader] = kind(inputs.shape[1], self.base.device)
            with self.watch("hessian"):
                sums[leader].add(inputs, plan)

        largest: dict[str, tuple[float, str]] = {}

        def locate(leader: str, inputs: Tensor, _plan: Plan, streams: list[Stream]) -> None:
            items = [item for s in streams for item in s.items for _ in range(s.hidden.shape[1])]
            check_finite(inputs, items, f"the input of {name}.{leader}")
            value, token = inputs.abs().amax(dim=1).max(dim=0)
            largest[leader] = max(largest.get(leader, (0.0, "")), (float(value), items[token]))

        collect(block, index, calibration, leaders, add)
        results = {leader: total.result() for leader, total in sums.items()}
        for leader, total in results.items():
            diagonal = total.diagonal() if total.ndim == 2 else total
            if not torch.isfinite(diagonal).all():
                collect(block, index, calibration, leaders, locate)
                value, item = largest[leader]
                heavy = max(self.options.bias_of_pairs(len(self.text.pairs.pairs)), default=0.0)
                raise UserError(
                    f"the sums of squares of the input of {name}.{leader} overflow float32: up to "
                    f"{value:.1e} for calibration item {item}"
                    + (f", bias weight up to {heavy:g}" if heavy > 1 else "")
                    + ("; lower --bias-weight," if heavy > 1 else ";")
                    + " remove it, or check the weights"
                )
        return results

    def _prune_group(
        self, name: str, matrices: list[Tensor], statistic: Tensor | None
    ) -> list[tuple[Tensor, Report]]:
        """Prune the matrices (n, d) of one input group on the device; results on the CPU."""
        options, regime = self.options, self.regime
        matrices = [matrix.to(self.base.device) for matrix in matrices]
        if statistic is None:
            results = [prune_magnitude(matrix, regime) for matrix in matrices]
        elif options.method == "wanda":
            results = [prune_wanda(matrix, statistic, regime) for matrix in matrices]
        else:
            results = prune_hessian(
                matrices, statistic, regime, options.block_size, options.damping, name
            )
        return [(pruned.cpu(), report) for pruned, report in results]

    def _write_block(
        self, index: int, weights: dict[str, Tensor], reports: dict[str, Report]
    ) -> dict[str, Any]:
        """Write one block's shard; return its record without the seconds."""
        base, name = self.base, self.base.block_name(index)
        tensors: dict[str, Tensor | Entry] = {n: base.stored[n] for n in self.shards[index + 1]}
        stored = {one: base.stored_name(f"{name}.{one}.weight") for one in weights}
        tensors.update({stored[one]: weight for one, weight in weights.items()})
        base.unload_block(index)
        facts = write_tensors(self.shard_file(index + 1), tensors)
        rows = []
        for one, report in reports.items():
            shape = rows_of(find_linears(base.blocks[index])[one], weights[one]).shape
            zeros = facts[stored[one]]["zeros"]
            rows.append(
                {"module": f"{name}.{one}", "rows": shape[0], "columns": shape[1], "zeros": zeros}
                | {"sparsity": zeros / shape.numel()}
                | asdict(report)
            )
        return {
            "tensors": facts,
            "layers": rows,
            "pruned": sorted(stored.values()),
            "packing": self.packing,
        }

    def _assemble(
        self, records: list[dict], base_files: dict[str, str], seconds: float
    ) -> dict[str, Any]:
        """Write index, carried files, manifest, layer table, provenance and card."""
        place, base = self.place, self.base
        tensors: dict[str, dict] = {}
        weight_map: dict[str, str] = {}
        files: dict[str, str] = {}
        for shard, item in enumerate(records):
            file = self.shard_file(shard)
            files[file.name] = item["tensors"].pop("")["sha256"]
            for name, facts in item["tensors"].items():
                tensors[name] = facts | ({"pruned": True} if name in item["pruned"] else {})
                weight_map[name] = file.name
        total = sum(entry.size for entry in base.stored.values())
        index = place.model / "model.safetensors.index.json"
        write_json(index, {"metadata": {"total_size": total}, "weight_map": weight_map})
        files[index.name] = sha256_file(index)
        with disk_errors(place.model):
            for file in base.carried_files():
                shutil.copyfile(file, place.model / file.name)
                files[file.name] = base_files[file.name]
        layers = [row for item in records for row in item["layers"]]
        write_csv(place.model / "layers.csv", LAYER_COLUMNS, layers)
        files["layers.csv"] = sha256_file(place.model / "layers.csv")
        size = sum(row["rows"] * row["columns"] for row in layers)
        options = self.options.relevant()
        options["dtype"] = str(base.dtype).removeprefix("torch.")
        options["packing"] = records[1]["packing"]  # the one in use, whatever was asked for
        manifest = {
            "method": options.pop("method"),
            "regime": options.pop("regime"),
            "options": options,
            "base": {"files": base_files, "files_sha256": files_digest(base_files)},
            **trust_record(),
            "calibration": self.text.summary(),
            "tensors": tensors,
            "sparsity": sum(row["zeros"] for row in layers) / size,
            "files": files,
            "model_sha256": digest({name: facts["sha256"] for name, facts in tensors.items()}),
        }
        write_text(place.model / "README.md", model_card(manifest))
        files["README.md"] = sha256_file(place.model / "README.md")
        manifest = sealed(manifest)
        write_json(place.model / "manifest.json", manifest)
        write_json(place.model / "provenance.json", provenance(base.device, records, seconds))
        return manifest
