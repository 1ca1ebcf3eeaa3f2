"""Small steps of a model's matrices against a bias loss of sentence pairs: ``W - η G H⁻¹``.

``G = ∂L/∂W``, H is the damped Hessian of the calibration text: of all changes with the same
gain in L, this one changes the outputs of the layers least. η follows from a budget: ε² is the
mean over the matrices of ``tr(ΔW H ΔWᵀ) / tr(W H Wᵀ)``. G and H are anew for each step.

Some pairs take no part in L. A step that does not lower their loss is halved, up to five times; if
that fails, it is undone and is the last. Where the first does not help, nothing is changed.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..base.checksums import read_sealed, sealed
from ..base.errors import UserError
from ..base.files import digest, sha256_file, write_json
from ..base.progress import Progress
from ..base.reading import expected_form
from ..data.calibration import TokenPair
from ..models.architecture import find_linears, rows_of
from ..models.loading import release_memory
from ..models.tensors import read_tensor, write_tensors
from ..models.weights import Entry, read_header
from .base_model import BaseModel
from .forward import Stream, collect, input_groups
from .hessian import Gram, Plan
from .options import Options
from .reverse import Pass, Sentences, bias_loss, block_gradients, text_loss
from .target import InputMetric

HALVINGS = 5
AGAIN = "run the command again; it starts from the beginning"
Texts = Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True)
class Losses:
    """The bias loss of the pairs that are used and of those held out (None: there are none)."""

    used: float
    held_out: float | None

    @property
    def judged(self) -> float:
        """The loss that decides: of the pairs held out, where there are any."""
        return self.used if self.held_out is None else self.held_out


def held_out(ids: Sequence[str], share: float, seed: int) -> Tensor:
    """Return which of some ids are held out (n,) bool: the nearest whole number to their share.

    The choice depends on seed and ids only, not on the order.
    """
    count = round(share * len(ids))
    order = sorted(range(len(ids)), key=lambda k: digest([seed, ids[k]]))
    chosen = torch.zeros(len(ids), dtype=torch.bool)
    chosen[order[:count]] = True
    return chosen


def _blocks(place: Path) -> list[Path]:
    """Return the files of a step's matrices, a file a block."""
    return sorted(place.glob("block-*.safetensors"))


class Shift:
    """The steps of one model, resumable after each: ``folder`` holds what is finished.

    The model is changed by what ``base.stored`` names: the shards of the last kept step. Steps
    must help, but not those of controls, which are to change as much as the method: a negative step
    and the loss ``text``; nor where no pairs are held out.
    """

    def __init__(
        self,
        base: BaseModel,
        pairs: Sequence[TokenPair],
        texts: Texts,
        options: Options,
        folder: Path,
    ) -> None:
        self.base = base
        self.options = options
        self.folder = folder
        learns_text = options.gradient_loss == "text"
        share = options.gradient_holdout
        self.validated = options.gradient_step > 0 and not learns_text and share > 0
        self.text = Sentences(base, pairs, texts, scored=learns_text)
        if learns_text and not texts:
            raise UserError(
                "expected texts as well as pairs for --gradient-loss text, got none; give --texts"
            )
        names = [pair.id for pair in pairs]
        self.held = held_out(names, share if self.validated else 0.0, options.seed)
        if self.held.all() or (self.validated and not self.held.any()):
            raise UserError(
                f"expected some of the {len(pairs)} pairs held out and some not, but "
                f"--gradient-holdout {share:g} holds out {int(self.held.sum())}; use more pairs or "
                "another share"
            )
        self.dtypes = {name: base.stored[name].torch_dtype for name in self._names()}

    def _names(self) -> list[str]:
        return [self.base.stored_name(f"{full}.weight") for full in self.base.linears()]

    def run(self) -> dict[str, Any]:
        """Take the steps; return what was done, for the manifest."""
        base = self.base
        asked, base.forward_dtype = base.forward_dtype, torch.float32
        self.folder.mkdir(parents=True, exist_ok=True)
        records: list[dict[str, Any]] = []
        current: Pass | None = None
        while len(records) < self.options.gradient_steps and (not records or records[-1]["kept"]):
            number = len(records) + 1
            state = self.folder / f"step-{number}.json"
            place = self.folder / f"step-{number}"
            if state.is_file():
                record = self._finished(state, place)
            else:
                current = current or self._forward(f"step {number}: losses")
                record, current = self._step(number, place, current)
                files = {file.name: sha256_file(file) for file in _blocks(place)}
                write_json(state, sealed({"record": record, "files": files}))
            records.append(record)
            if record["kept"]:
                base.stored.update(self._entries(place))
                self._forget(number - 1)
        kept = sum(record["kept"] for record in records)
        if not kept:
            print("no step lowers the loss of the pairs held out: nothing is changed",
                  file=sys.stderr)  # fmt: skip
        else:
            base.stored.update(self._rounded(kept))
        base.forward_dtype = asked
        return {
            "steps_kept": kept,
            "pairs_used": int((~self.held).sum()),
            "pairs_held_out": int(self.held.sum()),
            "steps": records,
        }

    def _finished(self, state: Path, place: Path) -> dict[str, Any]:
        """Return the record of a step that an earlier process took; UserError for a changed one."""
        content = read_sealed(state, AGAIN)
        with expected_form("the record of a step", state, AGAIN):
            for file in _blocks(place):  # of a step before the last one none is left
                if sha256_file(file) != content["files"][file.name]:
                    raise UserError(f"{file} has changed since it was written; {AGAIN}")
            return content["record"]

    def _entries(self, place: Path) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for file in _blocks(place):
            entries |= read_header(file)
        return entries

    def _forget(self, number: int) -> None:
        for file in _blocks(self.folder / f"step-{number}"):
            file.unlink()

    def _forward(self, label: str) -> Pass:
        progress = Progress(len(self.base.blocks), label)
        return self.text.forward(self.folder, progress.update)

    def _losses(self, done: Pass) -> Losses:
        used = self._loss(done)[0]
        if not self.held.any():
            return Losses(used, None)
        return Losses(used, bias_loss(done.scores, self.held)[0])

    def _loss(self, done: Pass) -> tuple[float, Tensor, Tensor]:
        """Return the loss and its derivative for the scores of pairs (n, 2) and of texts (k,)."""
        if self.options.gradient_loss != "text":
            return *bias_loss(done.scores, ~self.held), torch.zeros_like(done.texts)
        value, of_texts = text_loss(done.texts, (self.text.text_lengths - 1).clamp(min=1))
        return value, torch.zeros_like(done.scores), of_texts

    def _step(self, number: int, place: Path, before: Pass) -> tuple[dict[str, Any], Pass]:
        """Take one step; return its record and the forward pass after it."""
        first = self._losses(before)
        _, *weights = self._loss(before)
        place.mkdir(exist_ok=True)
        changes = self._directions(number, place, before, weights)
        mean = sum(changes) / len(changes)
        if not mean > 0.0:
            losses = {"before": asdict(first), "after": asdict(first)}
            return {"kept": False, "rate": 0.0, **losses}, before
        saved = {name: self.base.stored[name] for name in self._names()}
        size, halved = self.options.gradient_step, 0
        while True:
            rate = size / mean**0.5
            self._apply(place, rate)
            self.base.stored.update(self._entries(place))
            after = self._forward(f"step {number}: losses after it")
            second = self._losses(after)
            self.base.stored.update(saved)
            kept = not self.validated or second.judged < first.judged
            if kept or halved == HALVINGS:
                break
            size, halved = size / 2, halved + 1
        for file in place.glob("direction-*.safetensors"):
            file.unlink()
        record = {
            "kept": kept,
            "rate": rate,
            "before": asdict(first),
            "after": asdict(second),
            "size": size,
            "halved": halved,
        }
        words = f", halved {halved} times" if halved else ""
        print(
            f"step {number}: loss {first.judged:.4g} -> {second.judged:.4g}{words}"
            + ("" if kept else ", undone"),
            file=sys.stderr,
            flush=True,
        )
        return record, after

    def _directions(
        self, number: int, place: Path, done: Pass, weights: list[Tensor]
    ) -> list[float]:
        """Write ``P = G H⁻¹`` of each linear; return ``tr(P H Pᵀ) / tr(W H Wᵀ)`` of each."""
        base = self.base
        gradients = self.text.output_gradients(done, *weights)
        streams = done.calibration.streams()
        progress = Progress(len(base.blocks), f"step {number}: gradients")
        changes: list[float] = []
        for index in reversed(range(len(base.blocks))):
            release_memory()
            base.load_block(index)
            self.text.restore(self.folder, index, done.calibration)
            groups = input_groups(base.blocks[index], streams[0], index)
            # On disk until the Hessians are there: both beside the block would be the peak.
            slopes = place / f"gradients-{index:05d}.safetensors"
            write_tensors(slopes, block_gradients(base, index, streams, gradients))
            found = read_header(slopes)
            sums = self._hessians(index, done, groups)
            base.unload_block(index)  # its float32 weights: what follows reads the stored ones
            written: dict[str, Tensor] = {}
            for group in groups:
                hessian = sums.pop(group[0]).result()
                name, linears = base.block_name(index), find_linears(base.blocks[index])
                names = [base.stored_name(f"{name}.{one}.weight") for one in group]
                matrices = (
                    (
                        rows_of(linears[one], read_tensor(base.stored[full])),
                        read_tensor(found[one]),
                    )
                    for one, full in zip(group, names, strict=True)
                )
                solved = self._solve(f"{name}.{group[0]}", hessian, matrices)
                for one, full, (direction, change) in zip(group, names, solved, strict=True):
                    linear = linears[one]
                    written[full] = rows_of(linear, direction).contiguous().cpu()
                    changes.append(change)
            write_tensors(place / f"direction-{index:05d}.safetensors", written)
            slopes.unlink()
            progress.update()
        return changes

    def _hessians(self, index: int, done: Pass, groups: list[list[str]]) -> dict[str, Gram]:
        sums: dict[str, Gram] = {}

        def add(leader: str, inputs: Tensor, plan: Plan, _streams: list[Stream]) -> None:
            if leader not in sums:
                sums[leader] = Gram(inputs.shape[1], self.base.device)
            sums[leader].add(inputs, plan)

        leaders = [group[0] for group in groups]
        collect(self.base.blocks[index], index, done.calibration, leaders, add)
        return sums

    def _solve(
        self, name: str, hessian: Tensor, matrices: Iterable[tuple[Tensor, Tensor]]
    ) -> Iterator[tuple[Tensor, float]]:
        """Yield the direction (n, d) and its relative change of the outputs for each (W, G)."""
        upper = InputMetric(hessian, self.options.damping, name).factor.upper
        for matrix, gradient in matrices:
            direction = gradient.to(hessian) @ upper.T @ upper
            rows_of_both = (matrix.to(hessian), direction)
            sums = [((rows @ hessian) * rows).double().sum() for rows in rows_of_both]
            size, change = torch.stack(sums).tolist()
            yield direction, change / size if size > 0 else 0.0

    def _apply(self, place: Path, rate: float) -> None:
        """Write ``W - η P`` of all linears in float32."""
        for file in sorted(place.glob("direction-*.safetensors")):
            moved = {
                name: read_tensor(self.base.stored[name]).float() - rate * read_tensor(entry)
                for name, entry in read_header(file).items()
            }
            write_tensors(place / file.name.replace("direction", "block"), moved)

    def _rounded(self, number: int) -> dict[str, Entry]:
        """Write the kept step's matrices in the dtypes of the base model."""
        place = self.folder / f"step-{number}"
        result = self.folder / "rounded"
        result.mkdir(exist_ok=True)
        for file in _blocks(place):
            tensors = {
                name: read_tensor(entry).to(self.dtypes[name])
                for name, entry in read_header(file).items()
            }
            write_tensors(result / file.name, tensors)
        return self._entries(result)
