"""Train a model of the world: a small Llama, from nothing, on the world's training text.

``train-world --world DIR --name NAME --out MODEL`` writes a Hugging Face folder with
``training.json`` (options, losses).
Exercises in looking up come first, then questions, then everything together. Matrices
are trained by Muon, the rest by Adam, in float32 on one thread; with the same seed, the
same library versions and the same kind of CPU the weights are the same.
"""

import argparse
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.nn import functional
from torch.optim import swa_utils
from transformers import LlamaForCausalLM

from evenprune.io.files import write_json
from evenprune.io.marks import WORLD_MODEL
from evenprune.io.outputs import atomic_folder, check_folder
from evenprune.io.progress import Progress

from .documents import Document, Stock, chunks, draw_batch, load_rows, pieces, tokenize
from .network import Optimiser, build_tokenizer, new_model
from .shipped_world_model import training_text, world_checksums
from .training_options import TrainingOptions


@dataclass(frozen=True)
class Stage:
    """A part of the training run: which share of the tokens each group of files has.

    It ends when the mean loss of the kind ``watched`` over ``WINDOW`` steps is below ``goal``
    nats, at the latest after ``Options.stage_steps``; without ``watched`` after ``Options.steps``.
    """

    name: str
    shares: dict[str, float]
    watched: str | None = None
    goal: float = 0.0


WINDOW = 20
# Each stage uses what the one before has taught: to look up once, to look up twice, to answer in
# the benchmarks' form. Mixed from the start, they take many times as many steps. When one of them
# is learned depends on the seed, so the stages wait for it.
STAGES = (
    Stage("exercises", {"exercises": 1.0}, "letters", 0.2),
    Stage("quizzes", {"exercises": 0.4, "quizzes": 0.6}, "quiz", 0.3),
    Stage("questions", {"exercises": 0.1, "quizzes": 0.4, "questions": 0.5}, "settled", 0.4),
    Stage(
        "everything",
        dict(
            exercises=0.02, quizzes=0.03, questions=0.38, knowledge=0.15, statements=0.22, text=0.2
        ),
    ),
)


def chunk_loss(
    model: LlamaForCausalLM, chunk: list[Document], pad: int, hint_weight: float = 0.0
) -> tuple[torch.Tensor, dict[str, tuple[float, int]]]:
    """Return the weighted sum of the targets' losses in nats, and (sum, count) by kind.

    With ``hint_weight`` the losses of the hints are part of the sum, as kind "hint".

    Padding is on the right, where causal attention never sees it, so no mask is needed.
    """
    longest = max(len(document.ids) for document in chunk)
    ids = torch.tensor([d.ids + [pad] * (longest - len(d.ids)) for d in chunk])
    weights = torch.tensor([d.weights + [0.0] * (longest - len(d.ids)) for d in chunk])[:, 1:]
    targets = weights > 0
    output = model.model(ids[:, :-1], use_cache=False, output_hidden_states=True)
    hidden = output.last_hidden_state
    losses = functional.cross_entropy(
        model.lm_head(hidden[targets]), ids[:, 1:][targets], reduction="none"
    )
    by_kind: dict[str, tuple[float, int]] = {}
    for owner, loss in zip(targets.nonzero()[:, 0].tolist(), losses.tolist()):
        total, count = by_kind.get(chunk[owner].kind, (0.0, 0))
        by_kind[chunk[owner].kind] = (total + loss, count + 1)
    loss = (losses * weights[targets]).sum()
    hints = [(row, *hint) for row, document in enumerate(chunk) for hint in document.hints]
    if hints and hint_weight:
        states = [output.hidden_states[layers][row, position] for row, position, layers, _ in hints]
        hint_loss = functional.cross_entropy(
            model.lm_head(model.model.norm(torch.stack(states))),
            torch.tensor([hint[-1] for hint in hints]),
            reduction="sum",
        )
        by_kind["hint"] = (hint_loss.item(), len(hints))
        loss = loss + hint_weight * hint_loss
    return loss, by_kind


Losses = dict[str, tuple[float, int]]  # kind -> sum over targets in nats, number of targets


def added(losses: Iterable[Losses]) -> Losses:
    """Return the sums over several batches."""
    sums: Losses = {}
    for by_kind in losses:
        for kind, (total, count) in by_kind.items():
            before = sums.get(kind, (0.0, 0))
            sums[kind] = (before[0] + total, before[1] + count)
    return sums


def learned(stage: Stage, losses: list[Losses]) -> bool:
    """Return whether the mean loss of the kind that ``stage`` watches has reached its goal."""
    if stage.watched is None or len(losses) < WINDOW:
        return False
    total, count = added(losses[-WINDOW:]).get(stage.watched, (math.inf, 1))
    return total / count < stage.goal


def train(
    stocks: dict[str, Stock], model: LlamaForCausalLM, pad: int, options: TrainingOptions
) -> list[dict[str, Any]]:
    """Train ``model`` in place; return name, steps and mean loss per kind at each stage's end.

    The learning rates rise over the first ``warm_up`` steps and fall to nothing over the
    second half of the last stage. At the end the weights are their running mean over that stage:
    by then single sentences are learned by heart, and their mean is smoother.
    """
    optimiser = Optimiser(model, options)
    averaged = swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(options.ema_decay)
    )
    record: list[dict[str, Any]] = []
    done = 0
    model.train()
    for stage in STAGES:
        most = options.stage_steps if stage.watched else options.steps
        progress = Progress(most, f"training the world's model, {stage.name}, step")
        losses: list[Losses] = []
        while len(losses) < most and not learned(stage, losses):
            batch = draw_batch(stocks, stage.shares, options)
            weight = sum(sum(document.weights) for document in batch)
            parts = []
            for chunk in chunks(batch):
                loss, by_kind = chunk_loss(model, chunk, pad, options.hint_weight)
                (loss / weight).backward()
                parts.append(by_kind)
            left = 1.0 if stage.watched else 1 - len(losses) / most
            optimiser.step(min(1.0, (done + 1) / options.warm_up, left / 0.5))
            if not stage.watched:
                averaged.update_parameters(model)
            losses.append(added(parts))
            done += 1
            total, count = map(sum, zip(*losses[-1].values()))
            progress.update(note=f"loss {total / count:.2f}")
        means = {kind: round(t / n, 4) for kind, (t, n) in sorted(added(losses[-WINDOW:]).items())}
        record.append({"stage": stage.name, "steps": len(losses), "loss": means})
    model.load_state_dict(averaged.module.state_dict())
    model.eval()
    return record


def train_world(world: Path, out: Path, options: TrainingOptions) -> None:
    """Train on the world in ``world`` and write the model folder ``out``.

    Raises UserError where the world has no training text, and where ``out`` holds anything but
    a model of the world.
    """
    check_folder(out, WORLD_MODEL, [world])
    torch.set_num_threads(options.threads)
    rows = load_rows(world)
    recorded = training_text(world_checksums(world))
    every = [row for group in rows.values() for row in group]
    tokenizer = build_tokenizer(("".join(row["parts"]) for row in every), options.max_length)
    stocks = {}
    for name, group in rows.items():
        documents = (tokenize(row, tokenizer, options) for row in group)
        cut = [piece for one in documents for piece in pieces(one, options.max_length)]
        stocks[name] = Stock(cut, Random(f"{name}/{options.seed}"))
    model = new_model(options, tokenizer)
    stages = train(stocks, model, tokenizer.eos_token_id, options)
    with atomic_folder(out, WORLD_MODEL, [world]) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        size = sum(p.numel() for p in model.parameters())
        record = {"options": asdict(options), "parameters": size, "stages": stages}
        write_json(folder / "training.json", {**record, "world": recorded})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    defaults = TrainingOptions()
    parser.add_argument("--world", type=Path, required=True, metavar="DIR", help="world folder")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="model folder")
    parser.add_argument("--seed", type=int, default=0, help="of initial weights and batch order")
    parser.add_argument("--steps", type=int, default=defaults.steps, help="%(default)s by default")


def run(args: argparse.Namespace) -> None:
    """Train the model."""
    train_world(args.world, args.out, TrainingOptions(seed=args.seed, steps=args.steps))
    print(f"wrote the world's model to {args.out}")
