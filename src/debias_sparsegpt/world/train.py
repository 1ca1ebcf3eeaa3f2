"""Train the world's model: a small Llama, from nothing, on the world's training text.

``train-world --world DIR --out MODEL`` writes a Hugging Face folder with
``training.json`` (options, losses; deterministic) and ``provenance.json`` (times, host).
Exercises in copying and looking up come first and give way to questions and running
text. Matrices are trained by Muon, the rest by Adam, in float32 on two threads; with the
same seed, the same library versions and the same kind of CPU the weights are the same.
"""

import argparse
import json
import math
import platform
import random
import resource
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..files import atomic_folder, read_jsonl, write_json
from ..progress import Progress
from .tokenizer import build_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

# Targets of these kinds are running text; those of the others are short answers.
RUNNING_TEXT = ("facts", "story", "statements", "article", "dialogue", "echo")
# Files by group; the others are text.
GROUPS = {
    "echoes": "echoes",
    "exercises": "exercises",
    "questions": "questions",
    "knowledge": "questions",
}
# What is learned first: copying, then looking up; the questions take what is left.
TIMES = (0.0, 0.12, 0.2, 0.45, 0.65, 1.0)
SCHEDULE = {
    "echoes": (0.6, 0.5, 0.05, 0.03, 0.02, 0.02),
    "exercises": (0.3, 0.35, 0.55, 0.4, 0.15, 0.08),
    "text": (0.08, 0.1, 0.15, 0.2, 0.25, 0.3),
}


@dataclass(frozen=True)
class Options:
    """Size of the model and of the training run."""

    seed: int = 0
    hidden_size: int = 128
    intermediate_size: int = 192
    layers: int = 6
    heads: int = 4
    max_length: int = 512
    steps: int = 2000
    batch_tokens: int = 2048
    warm_up: int = 50
    matrix_rate: float = 0.012
    other_rate: float = 0.002
    answer_weight: float = 6.0
    threads: int = 2


@dataclass(frozen=True)
class Document:
    """Token ids with BOS, and the weight of each token as a target (0: not a target)."""

    kind: str
    ids: list[int]
    weights: list[float]


def tokenize(
    row: dict[str, Any], tokenizer: "PreTrainedTokenizerFast", options: Options
) -> Document:
    """Turn ``{"kind", "parts"}`` into a document; running text also learns where it ends."""
    running = row["kind"] in RUNNING_TEXT
    ids, weights = [tokenizer.bos_token_id], [0.0]
    for index, part in enumerate(row["parts"]):
        piece = tokenizer.encode(part, add_special_tokens=False, verbose=False)
        ids += piece
        weights += [(1.0 if running else options.answer_weight) if index % 2 else 0.0] * len(piece)
    if running:
        ids.append(tokenizer.eos_token_id)
        weights.append(1.0)
    return Document(row["kind"], ids[: options.max_length], weights[: options.max_length])


def shares(progress: float) -> dict[str, float]:
    """Return which share of the tokens each group of files has at ``progress`` in [0, 1]."""
    row = [float(np.interp(progress, TIMES, values)) for values in SCHEDULE.values()]
    share = dict(zip(SCHEDULE, row))
    return share | {"questions": 1 - sum(row)}


class Stock:
    """Endless documents of one group of files, shuffled anew each time round."""

    def __init__(self, documents: list[Document], rng: random.Random) -> None:
        self.documents = documents
        self.rng = rng
        self.left: list[int] = []
        self.owed = 0.0

    def draw(self, tokens: float) -> list[Document]:
        """Return documents so that over all calls ``tokens`` are reached on average."""
        self.owed += tokens
        drawn: list[Document] = []
        while self.owed > 0:
            if not self.left:
                self.left = list(range(len(self.documents)))
                self.rng.shuffle(self.left)
            drawn.append(self.documents[self.left.pop()])
            self.owed -= len(drawn[-1].ids)
        return drawn


def batches(stocks: dict[str, Stock], options: Options) -> Iterator[list[Document]]:
    """Yield ``steps`` batches of about ``batch_tokens`` tokens, each of all groups of files.

    Batches of one kind of document, though less padded, would pull in turn in different
    directions: what one teaches the next unteaches.
    """
    for step in range(options.steps):
        share = shares(step / options.steps)
        yield [
            document
            for name, stock in stocks.items()
            for document in stock.draw(share[name] * options.batch_tokens)
        ]


def chunks(batch: list[Document], ratio: float = 1.4) -> list[list[Document]]:
    """Split a batch into chunks of similar length (at most ``ratio``), so little is padded."""
    cut: list[list[Document]] = []
    for document in sorted(batch, key=lambda document: len(document.ids)):
        if not cut or len(document.ids) > ratio * len(cut[-1][0].ids):
            cut.append([])
        cut[-1].append(document)
    return cut


def new_model(options: Options, vocabulary: int, bos: int, eos: int) -> "LlamaForCausalLM":
    """Return the untrained model, its first layer looking one, two and three tokens back."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(options.seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        max_position_embeddings=options.max_length,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=bos,
        eos_token_id=eos,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    look_back(model, (1, 2, 3))
    return model


def look_back(model: "LlamaForCausalLM", distances: Iterable[int]) -> None:
    """Start heads of the first layer as ones that attend ``distances`` tokens back.

    Copying needs such heads before anything else can be learned; given them, it is
    learned in a few hundred steps. All embeddings share one direction; the head maps it
    to a query and a key whose rotary phases agree at that distance.
    """
    import torch

    hidden = model.config.hidden_size
    size = hidden // model.config.num_attention_heads
    theta = model.config.rope_parameters["rope_theta"]
    spread, shared, strength, waves = 0.04, 0.63, 1.2, 3
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(0, spread).add_(shared * spread)
        direction = torch.ones(hidden) / math.sqrt(hidden)
        for head, distance in enumerate(distances):
            query, key = torch.zeros(size), torch.zeros(size)
            for wave in range(waves):
                phase = theta ** (-2 * wave / size) * distance
                query[wave], query[wave + size // 2] = math.cos(phase), -math.sin(phase)
                key[wave] = 1.0
            rows = slice(head * size, (head + 1) * size)
            attention.q_proj.weight[rows] = strength * torch.outer(query, direction)
            attention.k_proj.weight[rows] = strength * torch.outer(key, direction)


class Muon:
    """Muon (Jordan et al. 2024): momentum, made orthogonal by five Newton-Schulz steps.

    Written here in float32 and batched over matrices of one shape, because
    ``torch.optim.Muon`` works in bfloat16, which is very slow on older CPUs.
    """

    def __init__(self, matrices: list["torch.nn.Parameter"], momentum: float = 0.95) -> None:
        import torch

        by_shape: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        for matrix in matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = [
            (group, torch.zeros(len(group), *shape)) for shape, group in by_shape.items()
        ]
        self.momentum = momentum

    def step(self, rate: float) -> None:
        """Move every matrix by ``rate`` times its orthogonalised momentum; clear gradients."""
        import torch

        with torch.no_grad():
            for group, average in self.groups:
                gradient = torch.stack([matrix.grad for matrix in group])
                average.lerp_(gradient, 1 - self.momentum)
                update = orthogonalise(gradient.lerp(average, self.momentum))
                update *= rate * math.sqrt(max(1.0, update.shape[-2] / update.shape[-1]))
                for matrix, change in zip(group, update):
                    matrix -= change
                    matrix.grad = None


def orthogonalise(matrices: "torch.Tensor", steps: int = 5) -> "torch.Tensor":
    """Bring the singular values of each ``[..., rows, columns]`` matrix near one (float32)."""
    a, b, c = 3.4445, -4.7750, 2.0315  # the coefficients of Muon's reference implementation
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def chunk_loss(
    model: "LlamaForCausalLM", chunk: list[Document], pad: int
) -> tuple["torch.Tensor", dict[str, tuple[float, int]]]:
    """Return the weighted sum of the targets' losses in nats, and (sum, count) by kind.

    Padding is on the right, where causal attention never sees it, so no mask is needed.
    """
    import torch
    from torch.nn import functional

    longest = max(len(document.ids) for document in chunk)
    ids = torch.tensor([d.ids + [pad] * (longest - len(d.ids)) for d in chunk])
    weights = torch.tensor([d.weights + [0.0] * (longest - len(d.ids)) for d in chunk])[:, 1:]
    targets = weights > 0
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state
    losses = functional.cross_entropy(
        model.lm_head(hidden[targets]), ids[:, 1:][targets], reduction="none"
    )
    by_kind: dict[str, tuple[float, int]] = {}
    for owner, loss in zip(targets.nonzero()[:, 0].tolist(), losses.tolist()):
        total, count = by_kind.get(chunk[owner].kind, (0.0, 0))
        by_kind[chunk[owner].kind] = (total + loss, count + 1)
    return (losses * weights[targets]).sum(), by_kind


def train(
    stocks: dict[str, Stock], model: "LlamaForCausalLM", pad: int, options: Options
) -> list[dict[str, float]]:
    """Train ``model`` in place; return the mean loss per kind over each tenth of the steps."""
    import torch

    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and ".layers." in n]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    muon = Muon(matrices)
    adam = torch.optim.Adam(others, betas=(0.9, 0.95))
    sums: list[dict[str, tuple[float, int]]] = [{} for _ in range(10)]
    progress = Progress(options.steps, "training the world's model, step")
    model.train()
    for step, batch in enumerate(batches(stocks, options)):
        left = 1 - step / options.steps
        factor = min(1.0, (step + 1) / options.warm_up, left / 0.5)
        tenth = sums[step * 10 // options.steps]
        weight = sum(sum(document.weights) for document in batch)
        mean = 0.0
        for chunk in chunks(batch):
            loss, by_kind = chunk_loss(model, chunk, pad)
            (loss / weight).backward()
            mean += loss.item() / weight
            for kind, (total, count) in by_kind.items():
                before = tenth.get(kind, (0.0, 0))
                tenth[kind] = (before[0] + total, before[1] + count)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in adam.param_groups:
            group["lr"] = options.other_rate * factor
        adam.step()
        adam.zero_grad()
        muon.step(options.matrix_rate * factor)
        progress.update(note=f"loss {mean:.2f}")
    model.eval()
    return [
        {kind: round(total / count, 4) for kind, (total, count) in sorted(tenth.items())}
        for tenth in sums
    ]


def load_rows(world: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the training documents by group of files, the keys of ``shares``."""
    files = sorted((world / "train").glob("*.jsonl"))
    if not files:
        raise UserError(
            f"expected training text in {world / 'train'}, found none; "
            f"make the world first: python -m debias_sparsegpt generate-world --out {world}"
        )
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in shares(0)}
    for file in files:
        rows[GROUPS.get(file.stem, "text")] += read_jsonl(file, ("kind", "parts"))
    return rows


def train_world(world: Path, out: Path, options: Options) -> None:
    """Train on the world in ``world`` and write the model folder ``out``.

    Raises UserError where the world has no training text.
    """
    import torch
    import transformers

    started, cpu = time.time(), _cpu_seconds()
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        rows = load_rows(world)
        every = [row for group in rows.values() for row in group]
        tokenizer = build_tokenizer(("".join(row["parts"]) for row in every), options.max_length)
        stocks = {
            name: Stock(
                [tokenize(row, tokenizer, options) for row in group],
                random.Random(f"{name}/{options.seed}"),
            )
            for name, group in rows.items()
        }
        model = new_model(options, len(tokenizer), tokenizer.bos_token_id, tokenizer.eos_token_id)
        losses = train(stocks, model, tokenizer.eos_token_id, options)
    finally:
        torch.set_num_threads(threads)
    with atomic_folder(out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        write_json(
            folder / "training.json",
            {
                "options": asdict(options),
                "parameters": sum(p.numel() for p in model.parameters()),
                "loss_by_tenth": losses,
                "world": json.loads((world / "world.json").read_text())["files"],
            },
        )
        write_json(
            folder / "provenance.json",
            {
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
                "seconds": round(time.time() - started, 1),
                "cpu_seconds": round(_cpu_seconds() - cpu, 1),
                "host": platform.node(),
                "processor": platform.processor() or platform.machine(),
                "versions": {
                    "python": platform.python_version(),
                    "torch": torch.__version__,
                    "transformers": transformers.__version__,
                },
            },
        )


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    defaults = Options()
    parser.add_argument("--world", type=Path, required=True, metavar="DIR", help="world folder")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="model folder")
    parser.add_argument("--seed", type=int, default=0, help="of initial weights and batch order")
    parser.add_argument("--steps", type=int, default=defaults.steps, help="%(default)s by default")


def run(args: argparse.Namespace) -> None:
    """Train the model."""
    train_world(args.world, args.out, Options(seed=args.seed, steps=args.steps))
    print(f"wrote the world's model to {args.out}")
