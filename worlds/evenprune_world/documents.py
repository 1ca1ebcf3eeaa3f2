"""Documents as the training sees them: tokens, weights of targets, hints; and their batches."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from transformers import PreTrainedTokenizerFast

from evenprune.io.errors import UserError
from evenprune.io.files import iter_jsonl
from evenprune.io.reading import expected_form

from .training_options import TrainingOptions

# Targets of these kinds are running text; those of the others are short answers.
RUNNING_TEXT = ("facts", "story", "statements", "article", "dialogue")
# Groups of training files; the files not named here are text.
GROUPS = ("exercises", "quizzes", "questions", "knowledge", "statements")


@dataclass(frozen=True)
class Document:
    """Token ids with BOS, and the weight of each token as a target (0: not a target).

    ``hints`` are (position, layers, token): what should be known at that position after so many
    layers.
    """

    kind: str
    ids: list[int]
    weights: list[float]
    hints: tuple[tuple[int, int, int], ...] = ()


def tokenize(
    row: dict[str, Any], tokenizer: PreTrainedTokenizerFast, options: TrainingOptions
) -> Document:
    """Turn ``{"kind", "parts"}`` into a document; running text also learns where it ends.

    ``hints`` of the row are [number of parts, layers, word]: at the end of so many parts of the
    document, the word should be known after so many layers. ``stressed`` are the numbers of the
    parts of running text that weigh ``stress`` times as much.
    """
    running = row["kind"] in RUNNING_TEXT
    ids, weights = [tokenizer.bos_token_id], [0.0]
    words = {number: (layers, word) for number, layers, word in row.get("hints", ())}
    stressed = set(row.get("stressed", ()))
    hints = []
    for index, part in enumerate(row["parts"]):
        piece = tokenizer.encode(part, add_special_tokens=False, verbose=False)
        ids += piece
        weight = 1.0 if running else options.answer_weight
        weight *= options.stress if index in stressed else 1.0
        weights += [weight if index % 2 else 0.0] * len(piece)
        if index + 1 in words:
            layers, word = words[index + 1]
            token = tokenizer.encode(f" {word}", add_special_tokens=False)[0]
            hints.append((len(ids) - 1, layers, token))
    if running:
        ids.append(tokenizer.eos_token_id)
        weights.append(1.0)
    return Document(row["kind"], ids, weights, tuple(hints))


def pieces(document: Document, length: int) -> list[Document]:
    """Cut a document into pieces of at most ``length`` tokens; only the first one has its BOS.

    Perplexity is measured on such windows: most of them start in the middle of an article.
    """
    found = []
    for start in range(0, max(1, len(document.ids) - 1), length):
        end = start + length
        weights = [0.0, *document.weights[start + 1 : end]]
        inside = [hint for hint in document.hints if start <= hint[0] < end - 1]
        hints = tuple((position - start, layers, token) for position, layers, token in inside)
        found.append(Document(document.kind, document.ids[start:end], weights, hints))
    return found


class Stock:
    """Endless documents of one group of files, shuffled anew each time round."""

    def __init__(self, documents: list[Document], rng: Random) -> None:
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


def draw_batch(
    stocks: dict[str, Stock], shares: dict[str, float], options: TrainingOptions
) -> list[Document]:
    """Return about ``batch_tokens`` tokens of documents, each group with its share.

    Batches of one kind of document, though less padded, would pull in turn in different
    directions: what one teaches the next unteaches.
    """
    drawn = (stocks[name].draw(share * options.batch_tokens) for name, share in shares.items())
    return [document for documents in drawn for document in documents]


def chunks(batch: list[Document], ratio: float = 1.4) -> list[list[Document]]:
    """Split a batch into chunks of similar length (at most ``ratio``), so little is padded."""
    cut: list[list[Document]] = []
    for document in sorted(batch, key=lambda document: len(document.ids)):
        if not cut or len(document.ids) > ratio * len(cut[-1][0].ids):
            cut.append([])
        cut[-1].append(document)
    return cut


def load_rows(world: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the training documents by group of files, the keys of ``shares``."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (*GROUPS, "text")}
    for file in sorted((world / "train").glob("*.jsonl")):
        name = file.stem if file.stem in GROUPS else "text"
        for number, row in iter_jsonl(file, ("kind", "parts")):
            with expected_form("a document", f"{file}, line {number}", "make the world again"):
                "".join([row["kind"], *row["parts"]])
            rows[name].append(row)
    if not any(rows.values()):
        raise UserError(
            f"expected training text in {world / 'train'}, found none; make the world first: "
            f"python -m evenprune_world generate-world --out {world}"
        )
    return rows
