"""Adapters (``adapters.py``), trained against a bias loss as far as a budget allows.

A context is one pair of sentences about its own group and the same pair about other groups. Its gap
for a group is ``log p(x0) - log p(x1)``; how common the words of the two sentences are is the same
for every group, so it cancels in the difference of two gaps. The loss of a step is

    mean over contexts of ½ (gap of the own group - gap of another group)²
    + lora_keep · mean of relu(r⁰ - r)² + DRIFT / (lora_budget + MENDED · KL⁰) · KL,

the first term an unbiased estimate of the variance over groups. r = log p(x) - log p(unrelated) of
x0 and x1 about the own group, r⁰ that of the unchanged model: a word that makes sense may gain
on one that makes none, but not fall. KL is the divergence from the model before pruning, in nats a
token of the texts, so that what is trained also mends what pruning broke. KL⁰ is that of the
unchanged model, 0 where nothing is pruned: where much is broken, mending must not be all.

A and B are trained by AdamW. Some groups and texts are held out. They decide how much of the change
is taken: the largest scale of ``SCALES`` where the KL divergence is at most lora_budget above the
unchanged model's and the mean of r⁰ - r at most ``FALL``: single words may fall, not all on
average. Where a loss that is trained does not fall there, nothing is changed.
"""

import math
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..blocks.base_model import BaseModel
from ..data.calibration import TokenPair
from ..io.checksums import read_sealed, sealed
from ..io.errors import UserError
from ..io.files import sha256_file, write_json
from ..io.progress import Progress
from ..io.reading import expected_form
from ..models.architecture import find_linears, rows_of
from ..models.loading import load_model, release_memory
from ..models.tensors import read_tensor, write_tensors
from ..models.weights import read_header
from .adapters import Adapters
from .contexts import JUDGED, PASS, Context, Ids, contexts_of, passes, split, split_texts
from .options import Options
from .scorer import Scorer

CONTEXTS = 8  # a step
LEARNED = 256  # texts at most: what the base model makes of each is kept
ROWS = 4  # texts looked at together
DRIFT = 0.48
MENDED = 0.25  # of KL⁰
WARM_UP = 3  # steps
CLIP = 5.0  # longest gradient
SCALES = tuple(0.95**k for k in range(40))
FALL = 0.5  # nats
AGAIN = "run the command again, which begins anew"


class Tuning:
    """A model with adapters, what they are trained on, and the loss."""

    def __init__(
        self,
        base: BaseModel,
        contexts: Sequence[Context],
        texts: Sequence[Ids],
        options: Options,
        measured: Sequence[Ids] = (),
    ) -> None:
        self.generator = torch.Generator().manual_seed(options.seed)
        self.options = options
        self.language = options.lora_loss == "language"
        self.contexts = contexts
        self.texts = texts[:LEARNED]
        # On rows this short the backward pass of a CPU's fused attention takes a fifth of a step.
        self.model = load_model(
            base.folder, base.device, base.compute_dtype, attn_implementation="eager"
        )
        self.model.requires_grad_(False)
        self.scorer = Scorer(self.model)
        blocks = self.scorer.blocks
        # Of texts: what the base model's last block returns.
        self.base_states = self._states([*self.texts, *measured])
        for name in base.linears():
            weight = self.model.get_parameter(f"{name}.weight")
            weight.copy_(read_tensor(base.entry(f"{name}.weight")))  # as pruned
        first = len(blocks) - max(1, round(options.lora_blocks * len(blocks)))
        late = tuple(f"{base.block_name(index)}." for index in range(first, len(blocks)))
        changed = [name for name in base.linears() if name.startswith(late)]
        linears = {name: self.model.get_submodule(name) for name in changed}
        self.adapters = Adapters(linears, self.generator)
        for block in blocks[first:]:
            # What is inside is made again in the backward pass: SmolLM2 takes 0.3 GB less.
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        longest = max(contexts, key=lambda one: one.tokens)
        tried = [longest.own, longest.pairs[1]]
        if not self.scorer.take_trees(tried, PASS + longest.tokens):
            name = type(self.model).__name__
            print(f"note: {name} takes one sentence a row, which takes longer", file=sys.stderr)
        broken = self._mean_drift(self.texts[:JUDGED])
        self.drift_weight = DRIFT / (options.lora_budget + MENDED * broken)

    def _below(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self.generator))

    def leads(self, contexts: Sequence[Context]) -> Tensor:
        """Return r⁰ (c, 2) of contexts: their ``lead`` in the unchanged model."""
        scored = []
        with self.adapters.scaled(0.0):
            for part in passes(contexts, own=True):
                scored += self.scorer.log_p([one.own for one in part], self.language)
        return torch.stack([_lead(own) for own in scored])

    def terms(
        self, contexts: Sequence[Context], others: Sequence[int], leads: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the loss (c,) of contexts, each with the other group of that number, and their
        falls r⁰ - r, (c, 2); ``leads`` is r⁰."""
        foreign = [one.pairs[other] for one, other in zip(contexts, others, strict=True)]
        scored = self.scorer.log_p([*(one.own for one in contexts), *foreign], self.language)
        own = scored[: len(contexts)]
        falls = leads - torch.stack([_lead(one) for one in own])
        pairs = torch.stack([one[:2] for one in scored]).reshape(2, -1, 2)
        if self.language:
            tokens = [
                sum(len(ids) - 1 for ids in (*one.pairs[0], *both))
                for one, both in zip(contexts, foreign, strict=True)
            ]
            return -pairs.sum((0, 2)) / torch.tensor(tokens, device=pairs.device), falls
        one, two = pairs[..., 0] - pairs[..., 1]
        return 0.5 * (one - two) ** 2, falls

    @torch.no_grad()
    def _states(self, texts: Sequence[Ids]) -> dict[Ids, Tensor]:
        """Return what the last block returns for texts, (l, d) each."""
        return {
            ids: states[: len(ids)].clone()
            for part in _parts(texts)
            for ids, states in zip(part, self.scorer.states(part), strict=True)
        }

    def drift(self, texts: Sequence[Ids]) -> Tensor:
        """Return KL(base ‖ changed) of texts, a sum over positions, nats."""
        before = [self.base_states[ids] for ids in texts]
        after = self.scorer.states(texts)
        total = torch.zeros((), device=after.device)
        for ids, one, two in zip(texts, before, after, strict=True):
            with torch.no_grad():
                wanted = self.scorer.logits(one)[:-1].log_softmax(-1)
            found = self.scorer.logits(two[: len(ids)])[:-1].log_softmax(-1)
            total = total + nn.functional.kl_div(found, wanted, log_target=True, reduction="sum")
        return total

    def _mean_drift(self, texts: Sequence[Ids], scale: float = 0.0) -> float:
        """Return the mean of ``drift`` over the tokens of texts, at a scale of the change."""
        with self.adapters.scaled(scale):
            total = sum(self.drift(part).item() for part in _parts(texts))
        return total / sum(len(ids) - 1 for ids in texts)

    def curve(self, contexts: Sequence[Context], texts: Sequence[Ids]) -> list[dict[str, float]]:
        """Return what scales of the change do, in rising order: loss, mean fall (nats) and the KL
        divergence above the pruned model's (nats a token).

        They are 0 and those that a bisection of ``SCALES`` looks at: the largest within the
        budgets is the one to take, as what leaves one does so at all larger scales. contexts, each
        with its first other group, and texts are those held out.
        """
        parts = passes(contexts)
        leads = [self.leads(part) for part in parts]
        falling = max(1, sum(2 for one in contexts if one.unrelated))
        broken = self._mean_drift(texts)

        def point(scale: float) -> dict[str, float]:
            loss = fallen = 0.0
            with self.adapters.scaled(scale):
                for part, before in zip(parts, leads, strict=True):
                    losses, falls = self.terms(part, [1] * len(part), before)
                    loss += losses.sum().item() / len(contexts)
                    fallen += falls.sum().item() / falling
                rise = self._mean_drift(texts, scale) - broken if scale else 0.0
            return {"scale": scale, "loss": loss, "fall": fallen, "kl": rise}

        found = [point(0.0)]

        def fits(scale: float) -> bool:
            found.append(point(scale))
            return within(found[-1], self.options)

        if not fits(SCALES[0]):
            bisect_left(SCALES, True, lo=1, key=fits)
        return sorted(found, key=lambda one: one["scale"])

    def _drawn(self) -> Iterator[Context]:
        """Yield all contexts in an order drawn anew, again and again."""
        while True:
            order = torch.randperm(len(self.contexts), generator=self.generator).tolist()
            yield from (self.contexts[k] for k in reversed(order))

    def train(self) -> list[dict[str, float]]:
        """Train the adapters; return the terms of the loss of each step."""
        steps = self.options.lora_steps
        optimizer = torch.optim.AdamW(
            self.adapters.parameters(), lr=self.options.lora_rate, betas=(0.9, 0.99), weight_decay=0
        )

        def rate(k: int) -> float:
            return min(1, (k + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * (k + 1) / (steps + 1)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        progress = Progress(steps, "adapters")
        trained = float(self.options.lora_loss != "none")
        records, drawn = [], self._drawn()
        for _ in range(steps):
            chosen = list(islice(drawn, min(CONTEXTS, len(self.contexts))))
            bias = keep = 0.0
            parts = passes(chosen)
            leads = self.leads(chosen)
            for part, before in zip(parts, leads.split(list(map(len, parts))), strict=True):
                others = [1 + self._below(len(one.pairs) - 1) for one in part]
                losses, falls = self.terms(part, others, before)
                terms = losses.sum() / len(chosen), keep_term(falls).sum() / len(chosen)
                (trained * terms[0] + self.options.lora_keep * terms[1]).backward()
                release_memory()  # that rows of another length would not use again
                bias, keep = bias + terms[0].item(), keep + terms[1].item()
            ids = self.texts[self._below(len(self.texts))]
            drift = self.drift([ids]) / (len(ids) - 1)
            (self.drift_weight * drift).backward()
            self.adapters.gather()
            nn.utils.clip_grad_norm_(self.adapters.parameters(), CLIP)
            optimizer.step()
            self.adapters.refresh()
            schedule.step()
            records.append({"bias": bias, "keep": keep, "drift": drift.item()})
            progress.update()
        return records


def _parts(texts: Sequence[Ids]) -> Iterator[Sequence[Ids]]:
    return (texts[start : start + ROWS] for start in range(0, len(texts), ROWS))


def within(point: Mapping[str, float], options: Options) -> bool:
    """Return whether a point of the curve is within the budgets, of which ``lora_keep`` has one."""
    return point["kl"] <= options.lora_budget and (not options.lora_keep or point["fall"] <= FALL)


def keep_term(falls: Tensor) -> Tensor:
    """Return the mean of relu(r⁰ - r)² of contexts, (c,), from r⁰ - r, (c, 2): rises are free."""
    return falls.relu().square().mean(1)


def _lead(own: Tensor) -> Tensor:
    """Return r (2,) of the scores of a context's own sentences; 0 without the third."""
    return own[:2] - own[2] if len(own) > 2 else torch.zeros_like(own)


def adapt(
    base: BaseModel,
    pairs: Sequence[TokenPair],
    texts: Sequence[Ids],
    options: Options,
    folder: Path,
) -> dict[str, Any]:
    """Change the model by trained adapters, times the scale chosen and ``lora_scale``; return what
    was done.

    What is finished lies in ``folder``, a file a block; a killed training begins anew and ends
    with the same bytes. Raises UserError without counterfactuals.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "adapters.json"
    if state.is_file():
        content = read_sealed(state, AGAIN)
        with expected_form("trained adapters", state, AGAIN):
            record, files = content["record"], content["files"]
        if any(sha256_file(folder / name) != files[name] for name in files):
            raise UserError(f"a file in {folder} has changed since it was written; {AGAIN}")
    else:
        used, held = split(contexts_of(pairs), options.seed)
        judged = held or used[:JUDGED]
        if not texts:
            print("note: without --texts, drift is measured on the pairs", file=sys.stderr)
        without = sum(not one.unrelated for one in (*used, *held))
        if without and options.lora_keep:
            print(
                f"note: {without} of {len(used) + len(held)} contexts have no unrelated sentence "
                "and do not hold meaningful words up",
                file=sys.stderr,
            )
        own = [(pair.ids0, pair.ids1) for pair in pairs]
        learned, measured = split_texts([[ids] for ids in texts] or own)
        tuning = Tuning(base, used, learned, options, measured)
        steps = tuning.train()
        curve = tuning.curve(judged, measured)
        if not all(math.isfinite(one) for found in (*curve, *steps) for one in found.values()):
            raise UserError(
                "the training of the adapters overflowed; lower --lora-rate or --lora-keep, or "
                "give --compute-dtype float32"
            )
        before, *found = curve
        inside = [one for one in found if within(one, options)]
        last = inside[-1] if inside else found[0]
        falls = last["loss"] < before["loss"] or options.lora_loss == "none"  # a control
        kept = bool(inside) and falls
        what = "language" if tuning.language else "association"
        why = "it does not fall" if inside else "out of budget"
        print(
            f"{what} loss of {'groups held out' if held else 'the groups'}: "
            f"{before['loss']:.4g} -> {last['loss']:.4g} at {last['scale']:.3g} times the change, "
            f"KL divergence {last['kl']:+.3g} nats a token, fall {last['fall']:.3g} nats"
            f"{'' if kept else f'; {why}, nothing is changed'}",
            file=sys.stderr,
        )
        if kept:
            _write(base, tuning.adapters, options.lora_scale * last["scale"], folder)
        record = {
            "kept": kept,
            "contexts": len(used),
            "contexts_held_out": len(held),
            "contexts_without_unrelated": without,
            "trees": tuning.scorer.trees,
            "before": before["loss"],
            "after": last["loss"],
            "scale": last["scale"] if kept else 0.0,
            "curve": curve,
            "steps": steps,
        }
        files = {file.name: sha256_file(file) for file in folder.glob("block-*.safetensors")}
        write_json(state, sealed({"record": record, "files": files}))
    if record["kept"]:
        for name in sorted(files):
            base.stored.update(read_header(folder / name))
    return record


def _write(base: BaseModel, adapters: Adapters, scale: float, folder: Path) -> None:
    """Write ``W + scale ΔW`` of the linears with adapters, in the dtypes of the base model."""
    for index, block in enumerate(base.blocks):
        name = base.block_name(index)
        found: dict[str, Tensor] = {}
        for one, linear in find_linears(block).items():
            stored = base.slot(f"{name}.{one}.weight").stored
            if f"{name}.{one}" not in adapters.matrices:
                continue
            change = rows_of(linear, scale * adapters.change(f"{name}.{one}"))
            weight = read_tensor(base.stored[stored])
            found[stored] = (weight.float() + change).to(weight.dtype).contiguous()
        if found:
            write_tensors(folder / f"block-{index:05d}.safetensors", found)
