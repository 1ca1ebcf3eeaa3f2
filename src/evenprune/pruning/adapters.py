"""Low-rank changes ``ΔW = B A`` of the last blocks, trained against a bias loss.

A context is one pair of sentences about its own group and the same pair about other groups. Its gap
for a group is ``log p(x0) - log p(x1)``; how common the words of the two sentences are is the same
for every group, so it cancels in the difference of two gaps. The loss of a step is

    mean over contexts of ½ (gap of the own group - gap of another group)²
    + KEEP · KL(base model ‖ changed model) at positions of the texts (else of the stereotypes),

the first term an unbiased estimate of the variance over groups. Two other losses look at the tokens
behind the group's word, d = log p(these | own group) - log p(these | another group): ``shared`` is
the sum of ½ d² of both sentences, ``preference`` PREFERRED · log(1 + exp d) of the stereotype.

A and B are the adapters of LoRA (Hu et al. 2021, arXiv 2106.09685), trained by AdamW. Some groups
are held out: where the loss of their contexts does not fall, nothing is changed.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..base.checksums import read_sealed, sealed
from ..base.errors import UserError
from ..base.files import digest, sha256_file, write_json
from ..base.progress import Progress
from ..data.calibration import TokenPair, common_prefix
from ..models.architecture import find_blocks, find_linears, rows_of
from ..models.loading import load_model
from ..models.tensors import read_tensor, write_tensors
from ..models.weights import read_header
from .base_model import BaseModel
from .options import Options
from .standin import Stop, form_of, replaced

RANK = 8
ADAPTED = 1 / 3  # share of the blocks, the last ones: the gradient ends before them
SCALING = 2.0  # LoRA's α / rank
CONTEXTS = 12  # a step
ROWS = 24  # sentences of similar length in one pass: as fast as all 48, in 220 MB less
TEXTS = 1  # a step
TEXT_TOKENS = 128  # of a text at most
POSITIONS = 256  # of the texts, a step
KEEP = 40.0
PREFERRED = 4.0
WARM_UP = 3  # steps
CLIP = 5.0  # longest gradient
HELD_OUT = 0.2  # share of the groups
JUDGED = 32  # contexts held out that are looked at, at most
AGAIN = "run the command again, which begins anew"
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Context:
    """A pair of sentences about its own group ``target``, then the same about other groups."""

    target: str
    pairs: tuple[tuple[Ids, Ids], ...]


def contexts_of(pairs: Sequence[TokenPair]) -> list[Context]:
    """Return the pairs that have counterfactuals; UserError where none has."""
    found = [
        Context(pair.target, ((pair.ids0, pair.ids1), *pair.counterfactuals))
        for pair in pairs
        if pair.counterfactuals
    ]
    if not found:
        raise UserError(
            f"expected pairs with counterfactuals, the same sentences about other groups, but none "
            f"of the {len(pairs)} pairs has any; give a calibration with counterfactuals: 4"
        )
    return found


def split(contexts: Sequence[Context], seed: int) -> tuple[list[Context], list[Context]]:
    """Return the contexts that are learned from, and those whose groups are held out.

    Which groups these are depends on the seed and their names only. With fewer than five groups
    none is held out.
    """
    names = sorted({one.target for one in contexts}, key=lambda name: digest([seed, name]))
    held = set(names[: int(HELD_OUT * len(names))])
    used = [one for one in contexts if one.target not in held]
    return used, [one for one in contexts if one.target in held][:JUDGED]


class Adapters:
    """A (RANK, d) and B (n, RANK), float32, of each linear, added to what it returns while on."""

    def __init__(self, linears: Mapping[str, nn.Module], generator: torch.Generator) -> None:
        self.on = True
        self.matrices: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        for name, module in linears.items():
            weight: Any = module.weight
            rows, columns = rows_of(module, weight).shape
            drawn = torch.randn(RANK, columns, generator=generator) / columns**0.5
            self.matrices[name] = (
                nn.Parameter(drawn.to(weight.device)),
                nn.Parameter(torch.zeros(rows, RANK, device=weight.device)),
            )
            module.register_forward_hook(self._added(name))

    def _added(self, name: str) -> Callable:
        one, two = self.matrices[name]

        def hook(_module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
            if not self.on:
                return output
            inner = nn.functional.linear(args[0], one.to(args[0].dtype))
            return output + SCALING * nn.functional.linear(inner, two.to(inner.dtype))

        return hook

    def parameters(self) -> list[nn.Parameter]:
        """Return all A and B."""
        return [matrix for pair in self.matrices.values() for matrix in pair]

    def change(self, name: str) -> Tensor:
        """Return ΔW (n, d) float32 of a linear, on the CPU."""
        one, two = self.matrices[name]
        return (SCALING * two @ one).detach().cpu()


class Tuning:
    """A model with adapters, what they are trained on, and the loss."""

    def __init__(
        self, base: BaseModel, contexts: Sequence[Context], texts: Sequence[Ids], options: Options
    ) -> None:
        self.generator = torch.Generator().manual_seed(options.seed)
        self.loss = options.lora_loss
        self.contexts = contexts
        self.texts = [text[:TEXT_TOKENS] for text in texts if len(text) > 1]
        # On rows this short the backward pass of a CPU's fused attention takes a fifth of a step.
        self.model = load_model(
            base.folder, base.device, base.compute_dtype, attn_implementation="eager"
        )
        self.model.requires_grad_(False)
        _, self.blocks = find_blocks(self.model)
        first = len(self.blocks) - max(1, round(ADAPTED * len(self.blocks)))
        linears = {
            f"{base.block_name(index)}.{name}": linear
            for index, block in enumerate(self.blocks)
            for name, linear in find_linears(block).items()
            if index >= first
        }
        self.adapters = Adapters(linears, self.generator)
        self.form = form_of(*self._last(self._filled([(0, 1)])))
        self.queue: list[int] = []

    def _below(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self.generator))

    def _filled(self, rows: Sequence[Ids]) -> Tensor:
        """Return rows filled up at the right, (r, l): attention is causal."""
        tensors = [torch.tensor(row) for row in rows]
        ids = nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        return ids.to(self.model.device)

    def _last(self, ids: Tensor) -> tuple[Any, Tensor]:
        """Return what the last block returns for ids (r, l), and what it was given."""
        found: list[Any] = []

        def hook(_module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
            found.extend((output, args[0] if args else kwargs["hidden_states"]))
            raise Stop

        handle = self.blocks[-1].register_forward_hook(hook, with_kwargs=True)
        try:
            with contextlib.suppress(Stop):
                self.model(input_ids=ids, use_cache=False)
        finally:
            handle.remove()
        return found[0], found[1]

    def _logits(self, rows: Sequence[Ids], row: Tensor, place: Tensor) -> Tensor:
        """Return the logits (p, v) float32 at p positions: their rows, and places in these.

        What follows the blocks (final norm, scaling, soft-capping, the output embeddings) is the
        model's own code, run with the blocks' output put in its place.
        """
        hidden = self.form.hidden(self._last(self._filled(rows))[0])[row, place][:, None]
        ids = torch.zeros(len(row), 1, dtype=torch.int64, device=hidden.device)

        def take(index: int, args: tuple, kwargs: dict) -> Any:
            if index == len(self.blocks) - 1:
                return self.form.fill(hidden)
            return self.form.fill(args[0] if args else kwargs["hidden_states"])

        with replaced(self.blocks, take):
            return self.model(input_ids=ids, use_cache=False).logits[:, 0].float()

    def scores(self, rows: Sequence[Ids], starts: Sequence[int]) -> Tensor:
        """Return log p (rows,) of each row's tokens from a start of at least 1 on."""
        order = sorted(range(len(rows)), key=lambda r: len(rows[r]))
        sums = []
        for start in range(0, len(rows), ROWS):
            part = order[start : start + ROWS]
            given = [rows[r] for r in part]
            where = [(k, t) for k, r in enumerate(part) for t in range(starts[r], len(rows[r]))]
            row, place = torch.tensor(where, device=self.model.device).T
            wanted = torch.tensor([given[k][t] for k, t in where], device=row.device)
            losses = nn.functional.cross_entropy(
                self._logits(given, row, place - 1), wanted, reduction="none"
            )
            sums.append(torch.zeros(len(part), device=row.device).index_add(0, row, -losses))
        places = torch.tensor(order, device=self.model.device).argsort()
        return torch.cat(sums)[places]

    def bias(self, contexts: Sequence[Context], others: Sequence[int]) -> Tensor:
        """Return the mean loss of contexts, each with the other group of that number."""
        rows: list[Ids] = []  # a context's stereotype and anti-stereotype, then the other group's
        starts = []
        for context, other in zip(contexts, others, strict=True):
            own, foreign = context.pairs[0], context.pairs[other]
            rows += [*own, *foreign]
            if self.loss == "association":
                starts += [max(1, common_prefix(*pair)) for pair in (own, foreign) for _ in pair]
            else:
                both = [common_prefix(a[:0:-1], b[:0:-1]) for a, b in zip(own, foreign)]
                starts += [len(ids) - n for pair in (own, foreign) for ids, n in zip(pair, both)]
        own_scores, other_scores = self.scores(rows, starts).reshape(-1, 2, 2).unbind(1)
        stereotype, anti = (own_scores - other_scores).T
        if self.loss == "association":
            return 0.5 * ((stereotype - anti) ** 2).mean()
        if self.loss == "shared":
            return 0.5 * (stereotype**2 + anti**2).mean()
        return PREFERRED * nn.functional.softplus(stereotype).mean()

    @torch.no_grad()
    def judge(self, contexts: Sequence[Context]) -> float:
        """Return the loss of contexts, each with its first other group."""
        total = 0.0
        for start in range(0, len(contexts), CONTEXTS):
            part = contexts[start : start + CONTEXTS]
            total += float(self.bias(part, [1] * len(part))) * len(part)
        return total / len(contexts)

    def drift(self) -> Tensor:
        """Return KL(base ‖ changed) in nats a position, at positions of some texts."""
        texts = [self.texts[self._below(len(self.texts))] for _ in range(TEXTS)]
        places = torch.tensor([(r, t) for r, ids in enumerate(texts) for t in range(len(ids) - 1)])
        places = places[torch.randperm(len(places), generator=self.generator)[:POSITIONS]]
        row, place = places.to(self.model.device).T
        self.adapters.on = False
        with torch.no_grad():
            before = self._logits(texts, row, place).log_softmax(-1)
        self.adapters.on = True
        after = self._logits(texts, row, place).log_softmax(-1)
        return nn.functional.kl_div(after, before, log_target=True, reduction="batchmean")

    def _next(self) -> list[Context]:
        chosen: list[Context] = []
        while len(chosen) < min(CONTEXTS, len(self.contexts)):
            if not self.queue:
                order = torch.randperm(len(self.contexts), generator=self.generator)
                self.queue = order.tolist()
            chosen.append(self.contexts[self.queue.pop()])
        return chosen

    def train(self, steps: int, rate: float) -> list[dict[str, float]]:
        """Train the adapters; return the two terms of the loss of each step."""
        optimizer = torch.optim.AdamW(
            self.adapters.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda k: (
                min(1.0, (k + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * (k + 1) / (steps + 1)))
            ),
        )
        progress = Progress(steps, "adapters")
        records = []
        for _ in range(steps):
            contexts = self._next()
            others = [1 + self._below(len(one.pairs) - 1) for one in contexts]
            loss = self.bias(contexts, others)
            loss.backward()
            drift = self.drift()
            (KEEP * drift).backward()
            nn.utils.clip_grad_norm_(self.adapters.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            records.append({"bias": loss.item(), "drift": drift.item()})
            progress.update()
        return records


def adapt(
    base: BaseModel,
    pairs: Sequence[TokenPair],
    texts: Sequence[Ids],
    options: Options,
    folder: Path,
) -> dict[str, Any]:
    """Change the model by trained adapters, times ``lora_scale``; return what was done.

    The adapters are judged by the groups held out. What is finished lies in ``folder``, a file a
    block; a killed training begins anew and ends with the same bytes. Raises UserError without
    counterfactuals.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "adapters.json"
    if state.is_file():
        content = read_sealed(state, AGAIN)
        record, files = content["record"], content["files"]
        if any(sha256_file(folder / name) != files[name] for name in files):
            raise UserError(f"a file in {folder} has changed since it was written; {AGAIN}")
    else:
        if not texts:
            print("note: without --texts, drift is measured on stereotypes", file=sys.stderr)
        used, held = split(contexts_of(pairs), options.seed)
        tuning = Tuning(base, used, texts or [pair.ids0 for pair in pairs], options)
        judged = held or used[:JUDGED]
        before = tuning.judge(judged)
        steps = tuning.train(options.lora_steps, options.lora_rate)
        after = tuning.judge(judged)
        kept = after < before
        of = "groups held out" if held else "the groups"
        said = "" if kept else "; it does not fall, nothing is changed"
        print(
            f"{options.lora_loss} loss of {of}: {before:.4g} -> {after:.4g}{said}", file=sys.stderr
        )
        if kept:
            _write(base, tuning.adapters, options.lora_scale, folder)
        counts = {"contexts": len(used), "contexts_held_out": len(held)}
        record = {"kept": kept, **counts, "before": before, "after": after, "steps": steps}
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
            stored = base.stored_name(f"{name}.{one}.weight")
            if f"{name}.{one}" not in adapters.matrices:
                continue
            change = rows_of(linear, scale * adapters.change(f"{name}.{one}"))
            weight = read_tensor(base.stored[stored])
            found[stored] = (weight.float() + change).to(weight.dtype).contiguous()
        if found:
            write_tensors(folder / f"block-{index:05d}.safetensors", found)
