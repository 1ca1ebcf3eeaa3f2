"""Small steps of a model's matrices against a bias loss of sentence pairs: ``W - η G H⁻¹``.

``G = ∂L/∂W``, H is the damped Hessian of the calibration text: of all changes with the same
gain in L, this one changes the outputs of the layers least. η follows from a budget: ε² is the
mean over the matrices of ``tr(ΔW H ΔWᵀ) / tr(W H Wᵀ)``. G and H are anew for each step.

Some pairs take no part in L. A step that does not lower their loss, or raises the perplexity of
held-out text above a limit, is halved until it does, five times at most: else it is undone and the
last one. Where the first does not help, nothing is changed.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..base.errors import UserError
from ..base.files import digest, read_json, write_json
from ..base.progress import Progress
from ..data.calibration import TokenPair
from ..models.architecture import find_linears, rows_of
from ..models.loading import release_memory
from ..models.tensors import Entry, read_header, read_tensor, write_tensors
from .base_model import BaseModel
from .factor import NotPositiveDefinite, damp, inverse_factor
from .forward import Stream, collect, input_groups
from .hessian import Gram, Plan
from .refit import refit
from .reverse import Pass, Sentences, bias_loss, block_gradients, text_loss
from .shift_settings import Settings

HALVINGS = 5
MASKED_STEPS = 20  # of conjugate gradients, for the direction on a mask
Texts = Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True)
class Losses:
    """The bias loss of the pairs that are used and of those held out (None: there are none).

    ``perplexity`` is that of the held-out text, None where it is not limited.
    """

    used: float
    held_out: float | None
    perplexity: float | None

    @property
    def judged(self) -> float:
        """The loss that decides: of the pairs held out, where there are any."""
        return self.used if self.held_out is None else self.held_out


def _written(losses: Losses) -> dict[str, float | None]:
    """Return losses as a record has them."""
    found = asdict(losses)
    return found if losses.perplexity is not None else {k: found[k] for k in ("used", "held_out")}


def held_out(ids: Sequence[str], share: float, seed: int) -> Tensor:
    """Return which of some ids are held out (n,) bool: the nearest whole number to their share.

    The choice depends on seed and ids only, not on the order.
    """
    count = round(share * len(ids))
    order = sorted(range(len(ids)), key=lambda k: digest([seed, ids[k]]))
    chosen = torch.zeros(len(ids), dtype=torch.bool)
    chosen[order[:count]] = True
    return chosen


class Shift:
    """The steps of one model, resumable after each: ``folder`` holds what is finished.

    The model is changed by what ``base.stored`` names: the shards of the last kept step. With
    ``masked``, weights that are zero stay zero: the direction P = G H⁻¹ of a step, the minimum of
    ``tr(P H Pᵀ) / 2 - tr(G Pᵀ)``, is that among the P with the same zeros, by conjugate gradients.
    """

    def __init__(
        self,
        base: BaseModel,
        pairs: Sequence[TokenPair],
        texts: Texts,
        settings: Settings,
        folder: Path,
        masked: bool = False,
    ) -> None:
        self.base = base
        self.settings = settings
        self.folder = folder
        self.masked = masked
        limited = settings.max_perplexity > 0
        kept_back = held_out([name for name, _ in texts], settings.holdout, settings.seed)
        if not limited:
            kept_back[:] = False
        wanted = torch.ones_like(kept_back) if settings.loss == "text" else kept_back
        self.kept_back = kept_back[wanted]
        self.text = Sentences(base, pairs, texts, wanted.nonzero().flatten().tolist())
        if settings.loss == "text" and self.kept_back.all():
            raise UserError(
                "expected texts beside the pairs for --gradient-loss text, which are not held "
                f"out, got {len(texts)}, of which {int(kept_back.sum())} held out; give --texts"
            )
        names = [pair.id for pair in pairs]
        self.held = held_out(names, settings.holdout if settings.validated else 0.0, settings.seed)
        # Without texts, whose loss limits the steps: also of controls, for which all pairs count.
        self.sentences = held_out(names, settings.holdout, settings.seed)
        if limited and not kept_back.any() and not self.sentences.any():
            raise UserError(
                "expected held-out text for --gradient-max-perplexity, but a share of "
                f"{settings.holdout:g} of {len(texts)} texts and {len(pairs)} pairs is none; "
                "use a larger --gradient-holdout or more text"
            )
        if self.held.all():
            raise UserError(
                f"expected pairs beside those held out, but all {len(pairs)} are; "
                "use more pairs, or a smaller --gradient-holdout"
            )
        if settings.validated and not self.held.any():
            raise UserError(
                f"expected at least one pair held out, but a share of {settings.holdout:g} of "
                f"{len(pairs)} pairs is none; use more pairs, or a larger --gradient-holdout"
            )
        self.dtypes = {name: base.stored[name].torch_dtype for name in self._names()}

    def _names(self) -> list[str]:
        return [self.base.stored_name(f"{full}.weight") for full in self.base.linears()]

    def run(self) -> dict[str, Any]:
        """Take the steps; return what was done, for the manifest."""
        base, settings = self.base, self.settings
        base.forward_dtype = torch.float32
        self.folder.mkdir(parents=True, exist_ok=True)
        records: list[dict[str, Any]] = []
        limit: float | None = None
        current: Pass | None = None
        while len(records) < settings.steps and (not records or records[-1]["kept"]):
            number = len(records) + 1
            state = self.folder / f"step-{number}.json"
            place = self.folder / f"step-{number}"
            if state.is_file():
                record = read_json(state)
            else:
                current = current or self._forward(f"step {number}: losses")
                record, current = self._step(number, place, current, limit)
                write_json(state, record)
            if settings.max_perplexity > 0 and limit is None:  # of what was before all steps
                limit = record["before"]["perplexity"] * (1 + settings.max_perplexity / 100)
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
        base.forward_dtype = None
        return {
            "steps_kept": kept,
            "pairs_used": int((~self.held).sum()),
            "pairs_held_out": int(self.held.sum()),
            "steps": records,
        }

    def _entries(self, place: Path) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for file in sorted(place.glob("block-*.safetensors")):
            entries |= read_header(file)
        return entries

    def _forget(self, number: int) -> None:
        for file in (self.folder / f"step-{number}").glob("block-*.safetensors"):
            file.unlink()

    def _forward(self, label: str) -> Pass:
        progress = Progress(len(self.base.blocks), label)
        return self.text.forward(self.folder, progress.update)

    def _losses(self, done: Pass) -> Losses:
        used = self._loss(done)[0]
        perplexity = self._perplexity(done) if self.settings.max_perplexity > 0 else None
        if not self.held.any():
            return Losses(used, None, perplexity)
        other, _ = bias_loss(done.scores, self.text.lengths, self.held, self.settings.loss)
        return Losses(used, other, perplexity)

    def _loss(self, done: Pass) -> tuple[float, Tensor, Tensor]:
        """Return the loss and its derivative for the scores of pairs (n, 2) and of texts (k,)."""
        of_pairs, of_texts = torch.zeros_like(done.scores), torch.zeros_like(done.texts)
        if self.settings.loss != "text":
            value, of_pairs = bias_loss(
                done.scores, self.text.lengths, ~self.held, self.settings.loss
            )
            return value, of_pairs, of_texts
        used, counts = ~self.kept_back, (self.text.text_lengths - 1).clamp(min=1)
        value, of_texts[used] = text_loss(done.texts[used], counts[used])
        return value, of_pairs, of_texts

    def _perplexity(self, done: Pass) -> float:
        """Return the perplexity of the held-out texts, else of the sentences of held-out pairs."""
        scores = done.texts[self.kept_back]
        counts = (self.text.text_lengths - 1)[self.kept_back]
        if not len(scores):
            scores, counts = done.scores[self.sentences], self.text.lengths[self.sentences] - 1
        return float(torch.exp(-scores.sum() / counts.sum().clamp(min=1)))

    def _step(
        self, number: int, place: Path, before: Pass, limit: float | None
    ) -> tuple[dict[str, Any], Pass]:
        """Take one step; return its record and the forward pass behind it.

        limit: the highest perplexity; None for the first step, whose own start it follows from.
        """
        first = self._losses(before)
        if first.perplexity is not None and limit is None:
            limit = first.perplexity * (1 + self.settings.max_perplexity / 100)
        _, *weights = self._loss(before)
        place.mkdir(exist_ok=True)
        changes = self._directions(number, place, before, weights)
        mean = sum(changes) / len(changes)
        if not mean > 0.0:
            record = {
                "kept": False,
                "rate": 0.0,
                "before": _written(first),
                "after": _written(first),
            }
            return record, before
        saved = {name: self.base.stored[name] for name in self._names()}
        size, halved = self.settings.step, 0
        while True:
            rate = size / mean**0.5
            self._apply(place, rate)
            self.base.stored.update(self._entries(place))
            after = self._forward(f"step {number}: losses behind it")
            second = self._losses(after)
            self.base.stored.update(saved)
            kept = not self.settings.validated or second.judged < first.judged
            if limit is not None and second.perplexity is not None:
                kept = kept and second.perplexity <= limit
            if kept or halved == HALVINGS:
                break
            size, halved = size / 2, halved + 1
        for file in place.glob("direction-*.safetensors"):
            file.unlink()
        record = {
            "kept": kept,
            "rate": rate,
            "before": _written(first),
            "after": _written(second),
            "size": size,
            "halved": halved,
        }
        words = f", halved {halved} times" if halved else ""
        if limit is not None:
            words += f", perplexity {first.perplexity:.4g} -> {second.perplexity:.4g}"
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
        try:
            factor = inverse_factor(hessian, self.settings.damping)
        except NotPositiveDefinite:
            raise UserError(
                f"the Hessian of {name} is not positive definite, even with 1000 times the damping "
                f"{self.settings.damping} and in float64; use more calibration text or a larger "
                "--damping"
            ) from None
        metric = damp(hessian.clone(), factor.damping) if self.masked else hessian
        for matrix, gradient in matrices:
            slope = gradient.to(hessian)
            weight = matrix.to(hessian)
            direction = slope @ factor.upper.T @ factor.upper
            if self.masked:
                kept = weight != 0
                start = direction.masked_fill(~kept, 0.0)
                direction = refit(start, direction, metric, kept, MASKED_STEPS)
            sums = [((rows @ hessian) * rows).double().sum() for rows in (weight, direction)]
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
        if all(dtype == torch.float32 for dtype in self.dtypes.values()):
            return self._entries(place)
        result = self.folder / "rounded"
        result.mkdir(exist_ok=True)
        for file in sorted(place.glob("block-*.safetensors")):
            tensors = {
                name: read_tensor(entry).to(self.dtypes[name])
                for name, entry in read_header(file).items()
            }
            write_tensors(result / file.name, tensors)
        return self._entries(result)
